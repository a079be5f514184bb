"""A host's reply for people: rows of a list as a table, and members of an object as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard, cast

import msgspec
from rich.table import Table

from parley.cli.output.transcript import console
from parley.safe_text import printable, printable_line

MAX_CELL = 80
PIPED_WIDTH = 2_000
"""The width of tables that are not for a terminal: lines are whole, so that programs can search them."""

NOTHING = "–"

LAST_MOMENT = 253_402_300_800
"""The end of the year 9999, in seconds since 1970: what is larger is not shown as a time."""


def show_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows as a table, without columns in which there is nothing; or print that there are no rows."""
    out = console()
    if not rows:
        out.print("None.")
        return
    if not out.is_terminal:
        out.width = PIPED_WIDTH
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    cells = {column: [_cell(member_at(row, column), column) for row in rows] for column in columns}
    used = [column for column in columns if any(cell != NOTHING for cell in cells[column])]
    for column in used:
        table.add_column(column.rpartition(".")[2].replace("_", " "), overflow="fold")
    for number in range(len(rows)):
        table.add_row(*[cells[column][number] for column in used])
    out.print(table)


def show_members(value: Any) -> None:
    """Print an object member by member."""
    out = console()
    if not isinstance(value, Mapping):
        out.print(printable(msgspec.json.format(msgspec.json.encode(value)).decode()))
        return
    for line in _lines(cast("Mapping[str, Any]", value)):
        out.print(line)


def _lines(value: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, member in value.items():
        label = f"{printable_line(name).replace('_', ' ')}:"
        if isinstance(member, Mapping) and member:
            lines += [label, *_indented(_lines(cast("Mapping[str, Any]", member)))]
        elif _is_list_of_objects(member):
            lines.append(label)
            for item in member:
                first, *rest = _lines(item) or [NOTHING]
                lines += [f"  - {first}", *_indented(_indented(rest))]
        elif isinstance(member, str) and "\n" in member:
            lines += [label, *_indented(printable(member).splitlines())]
        else:
            lines.append(f"{label} {_text(member, name)}")
    return lines


def _is_list_of_objects(value: Any) -> TypeGuard[list[Mapping[str, Any]]]:
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return bool(items) and all(isinstance(item, Mapping) for item in items)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def member_at(row: Mapping[str, Any], path: str) -> Any:
    """The member that a path with dots leads to; None if there is none."""
    value: Any = row
    for name in path.split("."):
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
    return value


def _cell(value: Any, name: str) -> str:
    text = _text(value, name)
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


def _text(value: Any, name: str) -> str:
    match value:
        case None | "" | [] | {}:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case 0 if _is_moment(name):
            return NOTHING
        case int() if _is_moment(name) and 0 < value < LAST_MOMENT:
            return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case str():
            return printable_line(value)
        case list() if all(isinstance(item, str | int) for item in value):  # pyright: ignore[reportUnknownVariableType]
            return printable_line(", ".join(map(str, value)))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return printable_line(msgspec.json.encode(value).decode())


def _is_moment(name: str) -> bool:
    return name in ("at", "ts") or name.endswith("_at")
