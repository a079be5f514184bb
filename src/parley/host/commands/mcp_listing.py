"""Tools of MCP servers as lines for models: `time get_time {"zone": string} — Tells the time.`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

MAX_LISTED = 12_000
"""Characters of all lines together: with the frame around them they fit into one result."""


class ListedTool(Protocol):
    """What a line says of a tool."""

    @property
    def server(self) -> str:
        """The name of its server."""
        ...

    @property
    def name(self) -> str:
        """Its own name."""
        ...

    @property
    def description(self) -> str:
        """What it does, on one line."""
        ...

    @property
    def takes(self) -> str:
        """Its arguments, on one line."""
        ...


def tools_text(tools: Sequence[ListedTool]) -> str:
    """A line for each tool, as many as fit; descriptions are cut first."""
    for longest in (400, 120, 40):
        lines = [_line(tool, longest) for tool in tools]
        if sum(map(len, lines)) + len(lines) <= MAX_LISTED:
            return "\n".join(lines)
    kept: list[str] = []
    room = MAX_LISTED
    for line in [f"{tool.server} {tool.name}" for tool in tools]:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    more = len(tools) - len(kept)
    return "\n".join([*kept, f"… and {more} more; name a server to see fewer"] if more else kept)


def _line(tool: ListedTool, longest: int) -> str:
    described = tool.description
    if len(described) > longest:
        described = f"{described[: longest - 1]}…"
    return f"{tool.server} {tool.name} {tool.takes}" + (f" — {described}" if described else "")
