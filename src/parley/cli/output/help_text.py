"""How the commands show their options, and tell what was typed wrongly: plainly, and in one style.

Typer writes types and what its validator says as Python has them: `<list[str]>`, `Input should be a valid number`. Here
arguments have their names only, and a mistake is a sentence about what was typed, with the option that it is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

_SENTENCES: Mapping[str, str] = {
    "float_parsing": "{input!r} is no number.",
    "int_parsing": "{input!r} is no whole number.",
    "int_from_float": "{input!r} is no whole number.",
    "finite_number": "{input!r} is no number.",
    "greater_than_equal": "{input} is too little: at least {ge}.",
    "less_than_equal": "{input} is too much: at most {le}.",
}
"""What to say for the kinds of mistakes that the validator knows."""


_TYPE = re.compile(r"<(?:list\[)?([^\]>]+)\]?>$")
"""The type of an option without a metavar: `<list[a|b]>` is a|b."""


class PlainCommand(TyperCommand):
    """A command whose help shows its arguments by their names."""

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


class PlainGroup(TyperGroup):
    """A group of commands that tells mistakes in one style. Without a word it shows its help, which is no mistake."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take what was typed."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if error.message:  # what is missing has none, and is told well
                error.message = _sentence(error)
                error.param_hint = _name_of(error.param) or error.param_hint
            raise


def _sentence(error: typer.BadParameter) -> str:
    """What is wrong with what was typed."""
    told: Callable[[], list[dict[str, Any]]] | None = getattr(error.__cause__, "errors", None)
    mistake = told()[0] if callable(told) else {}
    sentence = _SENTENCES.get(mistake.get("type", ""))
    if sentence is not None:
        return sentence.format(input=mistake["input"], **mistake.get("ctx", {}))
    text = error.message.removeprefix("Value error, ")
    found = re.fullmatch(r"(.+ is not one of )('.+')\.?", text)
    return f"{found[1]}{found[2].replace(chr(39), '')}." if found else text


def _name_of(parameter: Any) -> str | None:
    """The option as it is typed, or the argument as the help has it."""
    if parameter is None:
        return None
    return next((name for name in parameter.opts if name.startswith("--")), parameter.metavar or parameter.name)
