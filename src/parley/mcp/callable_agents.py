"""The agents that an MCP server offers: by name, in pages, and each with a client to call it.

Nothing here knows MCP. The implementation decides which agents a caller sees; what a caller may do with them is
decided where the client's calls arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from parley.client.client import Client
from parley.protocol.cards import AgentCard


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """An agent with the name of its tool: letters, digits, hyphens and underscores, at most 64."""

    name: str
    card: AgentCard


class CallableAgents(Protocol):
    """The agents that one caller may use."""

    @property
    def is_stopping(self) -> bool:
        """Whether this process is about to end: the tasks of calls that break off then go on and are not canceled."""
        ...

    async def page(self, *, after: str, limit: int) -> Sequence[NamedAgent]:
        """The agents whose names follow `after`, in the order of their names, at most `limit` of them.

        Raises:
            ParleyError: they cannot be read.
        """
        ...

    async def find(self, name: str) -> NamedAgent | None:
        """The agent with a name. Raises as `page` does."""
        ...

    def card_document(self, agent: NamedAgent) -> bytes:
        """The card of an agent as JSON."""
        ...

    def connect(self, agent: NamedAgent) -> AbstractAsyncContextManager[Client]:
        """A client of an agent, open within the block. Entering raises ParleyError if the agent cannot be called."""
        ...
