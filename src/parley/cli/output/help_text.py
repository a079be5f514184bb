"""The style of help texts and of messages about invalid arguments.

Typer shows Python types and the words of its validator: `<list[str]>`, `Input should be a valid number`. Here an
argument is shown by its name, and a message says which value is invalid, where it was set and what is expected. A
command with many options shows them in sections.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

_MESSAGES: Mapping[str, str] = {
    "bool_parsing": "Invalid value: {input!r}. Write true or false.",
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


_SWITCH = re.compile(r"--(\S+) / --no-\1")
"""An option that can be turned on and off."""

_OFF = re.compile(r" *\[default: no-\S+\]$")
"""The default of one that is off, which needs no words."""


class Section(StrEnum):
    """The sections of a help text, in their order. An option names its own as `rich_help_panel`."""

    ARGUMENTS = "Arguments"
    OPTIONS = "Options"
    AGENTS = "Agents"
    MODELS = "Models and tools"
    TENANTS = "Tenants"
    NETWORK = "Network"
    TASKS = "Tasks"
    CLUSTER = "Several processes"
    CARDS = "Cards"
    SECURITY = "Security"
    WEBHOOKS = "Webhooks"
    LOGS = "Logs and metrics"
    CALLER_LIMITS = "Limits for callers"
    STREAM_LIMITS = "Limits for streams"
    CONNECTION_LIMITS = "Limits for connections"
    RUN_LIMITS = "Limits for runs"
    TASK_LIMITS = "Limits for tasks"
    WEBHOOK_LIMITS = "Limits for webhooks"


LIMITS = frozenset(section for section in Section if section.startswith("Limits "))
"""Sections that only `--help-limits` shows."""

SHOW_LIMITS = "parley.help.limits"
"""The key in a context's `meta` under which the help is told to show the limits instead of the other sections."""


class InvalidSettingError(typer.BadParameter):
    """A setting is missing, or invalid and not from the command line; the message says which, and where it was set."""

    def format_message(self) -> str:
        """What follows `Error: `."""
        return self.message


class ParleyCommand(TyperCommand):
    """A command whose help shows arguments by their names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name."""
        return [re.sub(r"^\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The sections of arguments and of options."""
        rows: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if isinstance(parameter, TyperArgument):
                rows[Section.ARGUMENTS].append((parameter.metavar or parameter.name or "", record[1]))
            else:
                name = _SWITCH.sub(r"--[no-]\1", _TYPE.sub(r"\1", record[0]))
                section = getattr(parameter, "rich_help_panel", None) or Section.OPTIONS
                rows[section].append((name, _OFF.sub("", record[1])))
        for section in Section:
            if rows[section] and (section in LIMITS) == (SHOW_LIMITS in ctx.meta):
                with formatter.section(section):
                    formatter.write_dl(rows[section])

    def where_set(self, ctx: Any, parameter: Any) -> str | None:
        """Where a value was set, if not on the command line: the name of a variable."""
        source = ctx.get_parameter_source(parameter.name)
        return parameter.envvar if source is not None and source.name == "ENVIRONMENT" else None


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
            if not error.message or isinstance(error, InvalidSettingError):
                raise  # a missing argument has no message, and Typer describes it well
            error.message = _message_of(error)
            if (source := _source_of(error)) is not None:
                raise InvalidSettingError(f"{source}: {error.message}") from None
            error.param_hint = _name_of(error.param) or error.param_hint
            raise


def _source_of(error: typer.BadParameter) -> str | None:
    """Where the invalid value was set, if not on the command line."""
    command = error.ctx.command if error.ctx is not None else None
    if not isinstance(command, ParleyCommand):
        return None
    named = [option for option in command.params if error.param_hint in option.opts]
    parameters: list[Any] = named if error.param is None else [error.param]
    for parameter in parameters:
        where = command.where_set(error.ctx, parameter)
        key = f": `{parameter.name.replace('_', '-')}`" if where != parameter.envvar else ""
        return where and f"{where}{key}"
    return None


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
