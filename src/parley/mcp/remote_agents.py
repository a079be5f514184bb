"""The agents at some URLs: A2A agents, and the agents of a tenant if a URL is that of a Parley host.

Cards are read when they are needed, and again after a while. The client of an agent that was called stays open.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from parley.client.client import Client
from parley.client.errors import DiscoveryError
from parley.client.transports.connections import Connections
from parley.dialects.cards import encode_superset_card
from parley.mcp.callable_agents import NamedAgent
from parley.mcp.hosted_listing import HostedAgent, hosted_agents, is_host
from parley.protocol.cards import AgentCard
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
"""How old a card or a list of agents may be. Agents change a few times a day."""

CARDS_AT_ONCE = 10
"""Cards that are read at the same time, for a page of tools."""

MAX_TOOL_NAME = 64
"""Characters of a tool's name that all models accept."""


class AgentConnections(Protocol):
    """How agents at URLs are called: with which credentials, over which connections."""

    def client(self, url: str) -> Client:
        """A client of the agent at a URL, to be opened."""
        ...

    def connections(self) -> Connections:
        """Connections for what is not A2A, to be closed."""
        ...


@dataclass(slots=True)
class _Known:
    """Where an agent is and when it was changed, as far as that is known, and its card if that was read."""

    url: str
    revision: object
    card: AgentCard | None = None
    read_at: float = 0.0


class AgentsAtUrls:
    """The agents at some URLs. Entering finds them; leaving closes their clients."""

    is_stopping = False
    """A client of MCP that leaves cancels its calls, and their tasks with them."""

    def __init__(
        self, urls: Sequence[str], connections: AgentConnections, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._urls = urls
        self._connections = connections
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._found_at = 0.0
        self._open: dict[str, asyncio.Task[Client]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Find the agents. Raises ParleyError if one of the URLs has none."""
        await self.refresh()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opening in self._open.values():
            opening.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)
        await self._stack.aclose()

    async def refresh(self) -> bool:
        """Find the agents again, and say whether there are others now. Raises ParleyError."""
        found: dict[str, _Known] = {}
        for url in self._urls:
            async with self._connections.client(url) as client:
                if is_host(client.card):
                    for agent in await self._hosted(client):
                        found[_unused(_tool_name(agent.id), found)] = _Known(agent.url, agent.revision)
                else:
                    card = client.card
                    found[_unused(_tool_name(card.name.lower()), found)] = _Known(url, card, card, self._clock())
        before, self._known = self._known, found
        self._found_at = self._clock()
        for name, known in found.items():
            was = before.get(name)
            if known.card is None and was is not None and (was.url, was.revision) == (known.url, known.revision):
                known.card, known.read_at = was.card, was.read_at
        return _revisions(before) != _revisions(found)

    async def _hosted(self, client: Client) -> Sequence[HostedAgent]:
        connections = self._connections.connections()
        try:
            return await hosted_agents(client, connections)
        finally:
            await connections.close()

    async def page(self, *, after: str, limit: int) -> Sequence[NamedAgent]:
        """Agents in the order of their names. One whose card cannot be read is left out."""
        if not after and self._is_old(self._found_at):
            await self._try_to_refresh()
        names = sorted(self._known)
        names = names[bisect_right(names, after) :]
        found: list[NamedAgent] = []
        while names and len(found) < limit:
            tried = min(CARDS_AT_ONCE, limit - len(found))
            read = await asyncio.gather(*[self._try_to_find(name) for name in names[:tried]])
            found += [agent for agent in read if agent is not None]
            names = names[tried:]
        return found

    async def _try_to_refresh(self) -> None:
        """Find the agents again; if that fails, the known ones are listed."""
        try:
            await self.refresh()
        except ParleyError as error:
            logger.warning("The agents cannot be listed: %s", error)

    async def _try_to_find(self, name: str) -> NamedAgent | None:
        try:
            return await self.find(name)
        except ParleyError as error:
            logger.warning("The card of %s cannot be read: %s", name, error)
            return None

    async def find(self, name: str) -> NamedAgent | None:
        """The agent with a name, with a card that is not old."""
        known = self._known.get(name)
        if known is None:
            return None
        if known.card is None or self._is_old(known.read_at):
            async with self._connections.client(known.url) as client:
                known.card, known.read_at = client.card, self._clock()
        return NamedAgent(name, known.card)

    def card_document(self, agent: NamedAgent) -> bytes:
        """The card in a form that readers of every version accept."""
        return encode_superset_card(agent.card)

    def connect(self, agent: NamedAgent) -> AbstractAsyncContextManager[Client]:
        """The client of an agent, which stays open for the next call."""
        return self._connected(agent)

    @asynccontextmanager
    async def _connected(self, agent: NamedAgent) -> AsyncGenerator[Client]:
        known = self._known.get(agent.name)
        if known is None:
            raise DiscoveryError("The agent is not there any more")
        opening = self._open.get(known.url)
        if opening is None or not _is_usable(opening, agent.card):
            opening = self._open[known.url] = asyncio.create_task(self._opened(known.url))
        yield await asyncio.shield(opening)

    async def _opened(self, url: str) -> Client:
        client = self._connections.client(url)
        await client.__aenter__()
        self._stack.push_async_exit(client)
        return client

    def _is_old(self, then: float) -> bool:
        return self._clock() - then > REFRESH_SECONDS


def _is_usable(opening: asyncio.Task[Client], card: AgentCard) -> bool:
    """Whether a client is open, or being opened, and calls the agent where its card says that it is now."""
    if not opening.done():
        return True
    return opening.exception() is None and opening.result().card.interfaces == card.interfaces


def _revisions(known: Mapping[str, _Known]) -> Mapping[str, object]:
    return {name: (one.url, one.revision) for name, one in known.items()}


def _tool_name(text: str) -> str:
    """A name as a tool's: `trip planner` → `trip_planner`."""
    return re.sub(r"[^\w-]+", "_", text, flags=re.ASCII).strip("_")[:MAX_TOOL_NAME] or "agent"


def _unused(name: str, taken: Mapping[str, object]) -> str:
    """The name, with a number if another agent has it."""
    number, found = 2, name
    while found in taken:
        end = f"_{number}"
        number, found = number + 1, f"{name[: MAX_TOOL_NAME - len(end)]}{end}"
    return found
