"""The style of help texts and of messages about invalid arguments.

Typer shows Python types and the words of its validator: `<list[str]>`, `Input should be a valid number`. Here an
argument is shown by its name, and a message says which value is invalid and what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

_MESSAGES: Mapping[str, str] = {
    "float_parsing": "Invalid number: {input!r}.",
    "int_parsing": "Invalid whole number: {input!r}.",
    "int_from_float": "Invalid whole number: {input!r}.",
    "finite_number": "Invalid number: {input!r}.",
    "greater_than_equal": "{input} is too small: the minimum is {ge}.",
    "less_than_equal": "{input} is too large: the maximum is {le}.",
}
"""By the validator's kind of error, the message."""

_TYPE = re.compile(r"<(?:list\[)?([^\]>]+)\]?>$")
"""The type of an option without a metavar: `<list[a|b]>` is a|b."""


class ParleyCommand(TyperCommand):
    """A command whose help shows arguments by their names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name."""
        return [re.sub(r"^\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The sections of arguments and of options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if isinstance(parameter, TyperArgument):
                sections["Arguments"].append((parameter.metavar or parameter.name or "", record[1]))
            else:
                sections["Options"].append((_TYPE.sub(r"\1", record[0]), record[1]))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class ParleyGroup(TyperGroup):
    """A group of commands with messages in one style. Without arguments it shows its help and succeeds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if error.message:  # a missing argument has none, and Typer describes it well
                error.message = _message_of(error)
                error.param_hint = _name_of(error.param) or error.param_hint
            raise


def _message_of(error: typer.BadParameter) -> str:
    """What is wrong with an argument."""
    list_errors: Callable[[], list[dict[str, Any]]] | None = getattr(error.__cause__, "errors", None)
    details = list_errors()[0] if callable(list_errors) else {}
    template = _MESSAGES.get(details.get("type", ""))
    if template is not None:
        return template.format(input=details["input"], **details.get("ctx", {}))
    text = error.message.removeprefix("Value error, ")
    found = re.fullmatch(r"(.+ is not one of )('.+')\.?", text)
    return f"{found[1]}{found[2].replace(chr(39), '')}." if found else text


def _name_of(parameter: Any) -> str | None:
    """The option as it is typed, or the argument as the help shows it."""
    if parameter is None:
        return None
    return next((name for name in parameter.opts if name.startswith("--")), parameter.metavar or parameter.name)
