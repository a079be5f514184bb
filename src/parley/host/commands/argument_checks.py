"""Checks that the readers of arguments share. Every error quotes the syntax of `usage`."""

from __future__ import annotations

import re
from typing import ClassVar

from parley.host.commands.syntax import Command
from parley.host.commands.usage import FORMS
from parley.protocol.errors import ParleyError, quoted

_ID = re.compile(r"#?([A-Za-z0-9_-]{1,64})")


class CommandSyntaxError(ParleyError):
    """The arguments of a command are invalid. The message says why, and states the right syntax."""

    max_text: ClassVar[int] = 600


def first_word(text: str) -> tuple[str, str]:
    """The first word of a text and the rest; both are empty if the text is."""
    word, *rest = text.split(None, 1) or [""]
    return word, "".join(rest).rstrip()


def require_nothing(rest: str, form: str) -> None:
    """Reject arguments after a form that has none.

    Raises:
        CommandSyntaxError: there are some.
    """
    if rest:
        raise misuse(form, f"Unexpected arguments: '{quoted(rest)}'.")


def id_of(word: str, form: str) -> str:
    """An id, which may be written with a `#`.

    Raises:
        CommandSyntaxError: the word cannot be an id.
    """
    match = _ID.fullmatch(word)
    if match is None:
        raise misuse(form, f"Invalid id: '{quoted(word)}'." if word else "The id is required.")
    return match[1]


def number_in_range(text: str, largest: int) -> int | None:
    """The number from 1 to `largest` that a text holds, or None."""
    return int(text) if re.fullmatch(r"[0-9]{1,3}", text) and 1 <= int(text) <= largest else None


def require_closed_block(command: Command, form: str, end_marker: str) -> None:
    """Reject a block whose end marker is missing: its content may be incomplete.

    Raises:
        CommandSyntaxError: the block is not closed.
    """
    if command.is_truncated:
        raise misuse(
            form, f"The block was not closed with {end_marker}, so nothing was done. Write it again, complete."
        )


def misuse(form: str, problem: str) -> CommandSyntaxError:
    """The error for a command that does not have this form of `usage.FORMS`."""
    return CommandSyntaxError(f"{problem} Usage: {FORMS[form].syntax}")


def unknown_subcommand(command: Command) -> CommandSyntaxError:
    """The error for a command whose first word is none of its subcommands."""
    subcommands = [form.removeprefix(command.name).strip() for form in FORMS if form.startswith(f"{command.name} ")]
    word = first_word(command.args)[0]
    problem = f"Unknown subcommand: '{quoted(word)}'." if word else "A subcommand is required."
    return CommandSyntaxError(f"{problem} Usage: /{command.name} {' | '.join(subcommands)}; see /help {command.name}")
