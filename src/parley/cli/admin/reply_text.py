"""A host's reply for people: rows of a list as a table, and members of an object as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from rich.table import Table

from parley.cli.output.transcript import console
from parley.safe_text import printable, printable_line

MAX_CELL = 80


def show_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows as a table, or that there are none."""
    if not rows:
        console().print("None.")
        return
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for column in columns:
        table.add_column(column.rpartition(".")[2].replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*[_cell(member_at(row, column), column) for column in columns])
    console().print(table)


def show_members(value: Any, *, indent: str = "") -> None:
    """Print an object member by member."""
    out = console()
    if not isinstance(value, Mapping):
        out.print(printable(msgspec.json.format(msgspec.json.encode(value)).decode()))
        return
    for name, member in cast("Mapping[str, Any]", value).items():
        label = f"{indent}{printable_line(name).replace('_', ' ')}:"
        if isinstance(member, Mapping) and member:
            out.print(label)
            show_members(member, indent=f"{indent}  ")
        elif isinstance(member, str) and "\n" in member:
            out.print(label)
            out.print("\n".join([f"{indent}  {line}" for line in printable(member).splitlines()]))
        else:
            out.print(f"{label} {_text(member, name)}")


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
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith(("_at", "ts")) and value > 0:
            return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case str():
            return printable_line(value)
        case list() if all(isinstance(item, str | int) for item in value):  # pyright: ignore[reportUnknownVariableType]
            return printable_line(", ".join(map(str, value)))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return printable_line(msgspec.json.encode(value).decode())
