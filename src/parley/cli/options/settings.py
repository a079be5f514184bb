"""Settings of a command from four sources: the command line, variables, `parley.toml` and the defaults.

Each option `--send-window` is also the variable `PARLEY_SEND_WINDOW` and the key `send-window` in the table of the file
that is named after the command, such as `[serve]`. Typer reads the variables, and the file as its `default_map`; so the
sources count in this order. This module tells Typer the names, checks the types of the file, and shows all settings.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer

from parley.cli.options.groups import OptionGroup
from parley.cli.options.settings_file import FILE, SettingsFile, read_settings_file, suggestion
from parley.cli.output.help_text import SHOW_LIMITS, ParleyCommand, Section
from parley.cli.output.store_text import has_password

logger = logging.getLogger(__name__)

PREFIX = "PARLEY_"
CONFIG_VARIABLE = "PARLEY_CONFIG"
TABLES = ("serve", "up", "proxy", "console")
"""The commands that have a table in the file."""

_OTHER_VARIABLES = {
    CONFIG_VARIABLE,
    "PARLEY_CLIENT_SECRET",
    "PARLEY_ADMIN_TOKEN",
    "PARLEY_HOOK_TOKEN",
    "PARLEY_HOOK_AUTH",
}
"""Variables that are not named after an option: of `parley login`, `parley up`, and the last two of `parley push`."""

_NOT_SETTINGS = {"help", "config", "show_config", "help_limits"}

_WITHOUT_VARIABLE = {"header"}
"""Lists in variables are separated by spaces, which headers contain."""

_SECRETS = {"token", "header"}

_NUMERIC = re.compile(r"N|TIME|SIZE|PORT")
"""The metavars of options that take a number, among others."""

_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
"""Kubernetes sets PARLEY_PORT to such a value, and variables like those below, in a cluster with a service `parley`."""

_SERVICE_LINK_NAME = re.compile(r"PARLEY_(SERVICE_|PORT_\d)")


# --- options ----------------------------------------------------------------------------------------------------------


def _show_limits(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[SHOW_LIMITS] = True
        formatter = context.make_formatter()
        context.command.format_usage(context, formatter)
        context.command.format_options(context, formatter)
        typer.echo(formatter.getvalue(), nl=False)
        raise typer.Exit


def settings_options(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read settings from this TOML file.", show_default=f"{FILE}, if it exists"),
    ] = None,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings with their sources, as TOML, and exit.")
    ] = False,
    help_limits: Annotated[
        bool,
        typer.Option(
            "--help-limits", callback=_show_limits, is_eager=True, help="Show the options for limits and exit."
        ),
    ] = False,
) -> bool:
    """Whether to show the settings instead of using them; `ConfiguredCommand` reads the file."""
    return show_config


ShowConfig = Annotated[bool, OptionGroup(settings_options)]


# --- the command ------------------------------------------------------------------------------------------------------


class ConfiguredCommand(ParleyCommand):
    """A command whose options are also variables, and keys of a table of `parley.toml` with the command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and read the variables and the file."""
        if not ctx.resilient_parsing and not {*ctx.help_option_names, "--help-limits"}.intersection(args):
            for setting in settings_of(self):
                _name_variable(setting)
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            path = given.get("config") or os.environ.get(CONFIG_VARIABLE) or FILE
            if path != FILE or FILE.exists():
                ctx.obj = read_settings_file(Path(path))
                ctx.default_map = dict(self._values(ctx.obj))
        return super().parse_args(ctx, args)

    def where_set(self, ctx: Any, parameter: Any) -> str | None:
        """Where a value was set, if not on the command line: the name of a variable, or a file and a line."""
        source = ctx.get_parameter_source(parameter.name)
        if source is not None and source.name == "DEFAULT_MAP":
            return ctx.obj.where(self.name, key_of(parameter))
        return super().where_set(ctx, parameter)

    def _values(self, file: SettingsFile) -> Iterator[tuple[str, Any]]:
        """The values of the file by the names of their parameters."""
        settings = {key_of(setting): setting for setting in settings_of(self)}
        assert self.name is not None
        for key, value in file.table(self.name, tables=TABLES, keys=settings).items():
            setting = settings[key]
            if (expected := _mismatch(setting, value)) is not None:
                raise file.error(f"`{key}` must be {expected}.", self.name, key)
            # An option that takes numbers and words, such as off, reads text.
            yield setting.name, str(value) if isinstance(value, int | float) and _takes_text(setting) else value


def settings_of(command: Any) -> list[Any]:
    """The parameters of a command that are settings: all but those that are for this invocation only."""
    return [one for one in command.params if one.name not in _NOT_SETTINGS and not getattr(one, "hidden", False)]


def is_default(context: Any, name: str) -> bool:
    """Whether a parameter has its default, because no source sets it."""
    return context.get_parameter_source(name).name == "DEFAULT"


def key_of(setting: Any) -> str:
    """The name of a setting in the file: `send-window`."""
    return setting.name.replace("_", "-")


def variable_of(setting: Any) -> str:
    """The variable of a setting: `PARLEY_SEND_WINDOW`."""
    return PREFIX + setting.name.upper()


def _name_variable(setting: Any) -> None:
    name = variable_of(setting)
    is_usable = setting.name not in _WITHOUT_VARIABLE and not _SERVICE_LINK.match(os.environ.get(name, ""))
    setting.envvar = name if is_usable else None
    setting.show_envvar = False  # the help explains the rule once


def _takes_text(setting: Any) -> bool:
    return setting.type_descriptor.annotation not in (bool, int, float)


def _takes_number(setting: Any) -> bool:
    return _NUMERIC.match(setting.metavar or "") is not None


def _mismatch(setting: Any, value: Any) -> str | None:
    """What a value in the file must be, if it has another type."""
    annotation = setting.type_descriptor.annotation
    if setting.type_descriptor.is_list:
        return (
            None
            if isinstance(value, list) and all(map(_is_text, cast(list[Any], value)))
            else 'a list of strings: ["…"]'
        )
    if annotation is bool:
        return None if isinstance(value, bool) else "true or false"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return None if is_number and isinstance(value, int) else "a whole number"
    if annotation is float:
        return None if is_number else "a number"
    if _takes_number(setting):
        return None if is_number or _is_text(value) else 'a number or a string: "…"'
    return None if _is_text(value) else 'a string: "…"'


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


# --- what is set ------------------------------------------------------------------------------------------------------


def log_settings(context: Any) -> None:
    """Log which file was read, and variables that are not used."""
    if context.obj is not None:
        logger.info("Settings are read from %s", context.obj.path)
    for warning in unknown_variables(context):
        logger.warning(warning)


def show_settings(context: Any) -> NoReturn:
    """Print all settings of a command with their sources, and end the command."""
    for warning in unknown_variables(context):
        typer.echo(f"Warning: {warning}", err=True)
    typer.echo(settings_as_toml(context))
    raise typer.Exit


def settings_as_toml(context: Any) -> str:
    """All settings of a command, with the source of each, as a file that sets them."""
    command = context.command
    sections: dict[str, list[str]] = {section: [] for section in Section}
    for setting in settings_of(command):
        section = getattr(setting, "rich_help_panel", None) or Section.OPTIONS
        sections[section].append(_line(context, setting))
    lines = [f"[{command.name}]", *sections.pop(Section.OPTIONS)]
    for section, settings in sections.items():
        lines += ["", f"# {section}", *settings] if settings else []
    return "\n".join(lines)


def _line(context: Any, setting: Any) -> str:
    key, value = key_of(setting), context.params[setting.name]
    if value in (None, [], ()):
        return f"# {key} is not set"
    otherwise = "default" if is_default(context, setting.name) else "command line"
    origin = context.command.where_set(context, setting) or otherwise
    if key in _SECRETS or (isinstance(value, str) and has_password(value)):
        return f"# {key} is secret  # {origin}"
    is_number = _takes_number(setting) and isinstance(value, str) and value.isdecimal()
    return f"{key} = {value if is_number else _toml(value)}  # {origin}"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, cast(list[Any], value)))}]"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def unknown_variables(context: Any) -> list[str]:
    """A warning for each variable that looks like a setting and is none of any command."""
    known = {*_OTHER_VARIABLES, *_variables(context.find_root().command)}
    names = [name for name in sorted(os.environ) if name.startswith(PREFIX) and not _SERVICE_LINK_NAME.match(name)]
    endings = [name.removeprefix(PREFIX) for name in known]
    return [
        f"{name} is not a setting. {suggestion(name.removeprefix(PREFIX), endings, PREFIX)}".rstrip()
        for name in names
        if name not in known
    ]


def _variables(command: Any) -> Iterator[str]:
    yield from (variable_of(one) for one in command.params if one.name not in _WITHOUT_VARIABLE)
    for other in getattr(command, "commands", {}).values():
        yield from _variables(other)
