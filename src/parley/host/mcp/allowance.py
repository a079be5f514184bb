"""Which servers and tools an agent may use, as the member `mcp` of its constitution says.

`time` allows a whole server, `git/git_log` one tool, and `git/git_*` those that match. An empty list allows everything
that the tenant has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class ToolAllowance:
    """What one agent may use."""

    entries: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[str]) -> ToolAllowance:
        """The allowance that a constitution lists."""
        return cls(tuple(entries))

    def has_server(self, server: str) -> bool:
        """Whether some tool of a server may be used."""
        return not self.entries or any(entry.partition("/")[0] == server for entry in self.entries)

    def has_tool(self, server: str, tool: str) -> bool:
        """Whether a tool may be used."""
        if not self.entries:
            return True
        for entry in self.entries:
            name, slash, pattern = entry.partition("/")
            if name == server and (not slash or fnmatchcase(tool, pattern)):
                return True
        return False
