"""Reads `parley.toml`: one table of settings per command, with the line of each.

It knows TOML, and neither options nor their values. Errors name the file and the line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, cast

from parley.cli.output.help_text import InvalidSettingError

FILE = Path("parley.toml")
"""The file that is read if no other one is named, from the working directory."""

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")

_REASONS = (
    (r"Cannot overwrite a value", "this key is set before"),
    (r"Cannot declare \('(\w+)',?.*\) twice", r"the table [\1] is defined before"),
)
"""What tomllib says of names that are used twice, and the same in words of the file."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file that was read."""

    path: Path
    text: str
    tables: Mapping[str, Any]

    def table(self, name: str, *, tables: Collection[str], keys: Collection[str]) -> Mapping[str, Any]:
        """The settings in a table.

        Raises:
            InvalidSettingError: the file has a table that is none of `tables`, or this one has a key that is none of
                `keys`.
        """
        for other, value in self.tables.items():
            if other in keys and other not in tables:
                raise self.error(f"`{other}` must be in the table [{name}].", other)
            if other not in tables:
                raise self.error(f"There is no table [{other}]. {suggestion(other, tables)}", other)
            if not isinstance(value, dict):
                raise self.error(f"`{other}` must be a table: [{other}]", other)
        settings: Mapping[str, Any] = self.tables.get(name, {})
        for key in settings:
            if key not in keys:
                raise self.error(f"There is no setting `{key}`. {suggestion(key, keys)}", name, key)
        return settings

    def where(self, *keys: str) -> str:
        """The file and the line of a key, for error messages."""
        return f"{self.path}, line {_lines(self.text)[keys]}"

    def error(self, message: str, *keys: str) -> InvalidSettingError:
        """The error that something is wrong with a key."""
        return InvalidSettingError(f"{self.where(*keys)}: {message.strip()}")


def read_settings_file(path: Path) -> SettingsFile:
    """Read a file.

    Raises:
        InvalidSettingError: it cannot be read, or it is not TOML.
    """
    try:
        text = path.read_text("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise InvalidSettingError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidSettingError(f"{path} cannot be read: it is not UTF-8 text.") from error
    try:
        return SettingsFile(path, text, tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise InvalidSettingError(_syntax_error(path, text, str(error))) from error


def _syntax_error(path: Path, text: str, message: str) -> str:
    found = _AT.search(message)
    if found is None:  # such as a number with thousands of digits
        return f"{path} is not valid TOML: {message}."
    reason = message[: found.start()]
    for theirs, ours in _REASONS:
        reason = re.sub(theirs, ours, reason)
    line = int(found[1]) if found[1] else len(text.rstrip("\n").split("\n"))
    return f"{path}, line {line}: Invalid TOML: {reason}."


@cache
def _lines(text: str) -> Mapping[tuple[str, ...], int]:
    """The lines on which tables and their keys are set.

    The file is parsed up to each line, so that strings and lists of several lines, dotted keys and inline tables are
    found as well. What is not valid yet continues on the next line.
    """
    lines, start = text.split("\n"), 1
    found: dict[tuple[str, ...], int] = {}
    for number in range(1, len(lines) + 1):
        try:
            tables = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        for name, table in tables.items():
            found.setdefault((name,), start)
            for key in cast(dict[str, Any], table) if isinstance(table, dict) else ():
                found.setdefault((name, key), start)
        start = number + 1
    return found


def suggestion(name: str, names: Collection[str], prefix: str = "") -> str:
    """The question whether the most similar of some names was meant; empty if none is similar."""
    close = get_close_matches(name, names, 1)
    return f"Did you mean {prefix}{close[0]}?" if close else ""
