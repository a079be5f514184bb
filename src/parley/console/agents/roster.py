"""The agents that a session sees: own ones, those of catalogues, those that the operator names, and those it added."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from parley.console.agents.added import RemoteAgentEntry, added_in, catalog_id
from parley.console.agents.catalogs import Catalogs
from parley.console.agents.connections import RemoteConnections
from parley.console.agents.tenant_catalog import tenant_agents
from parley.console.backend import ConsoleCaller, OwnAgent
from parley.console.sessions import Session
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.console.console import Console

MOST_NAME = 200
MOST_DESCRIPTION = 2_000

REMOTE_PATH = "/console/remote/"


class ListedAgent(Struct, frozen=True):
    """An agent as the page shows it; see `docs/console-api.md`."""

    id: str
    name: str
    description: str
    kind: Literal["own", "catalog", "remote"]
    url: str
    address: str
    version: str
    binding: str
    state: Literal["ready", "stopped", "needs_login", "unreachable", "unknown"]
    error: str | None
    skills: int
    streams: bool
    is_added: bool = False
    """Whether it was added in this session, so that it can be removed."""


class ListedSource(Struct, frozen=True):
    """A catalogue whose agents are listed, and why it could not be read."""

    id: str
    url: str
    error: str | None
    is_added: bool = False


class ListedAgents(Struct, frozen=True):
    """All agents of a session, and the catalogues that they come from."""

    agents: list[ListedAgent]
    sources: list[ListedSource]


@dataclass(slots=True)
class RemoteList:
    """The agents elsewhere that a session may call, and the catalogues that were read for them."""

    entries: dict[str, RemoteAgentEntry] = field(default_factory=dict[str, RemoteAgentEntry])
    added: set[str] = field(default_factory=set[str])
    sources: list[ListedSource] = field(default_factory=list[ListedSource])


class Roster:
    """The agents of all sessions of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._catalogs = console.shared(Catalogs)
        self._connections = console.shared(RemoteConnections)

    async def list(self, session: Session, caller: ConsoleCaller, origin: str, text: str = "") -> ListedAgents:
        """All agents, those of this server first; only those with a text in their names or descriptions."""
        own = [self.view_own(agent, origin) for agent in self._console.backend.agents(caller)]
        remote = await self._remote(session, caller, origin)
        others = [self.view_remote(session, entry, is_added=id in remote.added) for id, entry in remote.entries.items()]
        wanted = text.strip().lower()
        shown = [one for one in (*own, *others) if wanted in f"{one.name}\n{one.description}\n{one.address}".lower()]
        return ListedAgents(shown, remote.sources)

    async def find_remote(
        self, session: Session, caller: ConsoleCaller, agent_id: str, origin: str
    ) -> RemoteAgentEntry | None:
        """An agent elsewhere that the session may call."""
        direct = {one.id: one for one in (*self._catalogs.configured, *added_in(session).agents)}
        if agent_id in direct:
            return direct[agent_id]
        return (await self._remote(session, caller, origin)).entries.get(agent_id)

    def is_added(self, session: Session, agent_id: str) -> bool:
        """Whether an agent was added in this session."""
        return any(one.id == agent_id for one in added_in(session).agents)

    async def _remote(self, session: Session, caller: ConsoleCaller, origin: str) -> RemoteList:
        await self._catalogs.prepare()
        added = added_in(session)
        found = RemoteList()
        found.entries.update({one.id: one for one in await tenant_agents(self._console.backend, caller, origin)})
        found.entries.update({one.id: one for one in self._catalogs.configured})
        configured = self._catalogs.configured_catalogs
        urls = [*configured, *(url for url in added.catalogs if url not in configured)]
        readings = await asyncio.gather(*(self._catalogs.read(url, is_configured=url in configured) for url in urls))
        for url, reading in zip(urls, readings, strict=True):
            source = ListedSource(catalog_id(url), url.partition("?")[0], reading.error, url in added.catalogs)
            found.sources.append(source)
            for entry in reading.entries:
                found.entries.setdefault(entry.id, entry)
        for entry in added.agents:
            found.entries[entry.id] = entry
            found.added.add(entry.id)
        return found

    # --- views --------------------------------------------------------------------------------------------------------

    def view_own(self, agent: OwnAgent, origin: str) -> ListedAgent:
        """An agent of this server."""
        return ListedAgent(
            id=agent.id,
            name=agent.name,
            description=agent.description,
            kind="own",
            url=agent.path,
            address=f"{origin}{agent.path}".rstrip("/"),
            version="1.0",
            binding="JSONRPC",
            state="ready" if agent.stop_reason is None else "stopped",
            error=agent.stop_reason,
            skills=agent.skills,
            streams=agent.streams,
        )

    def view_remote(self, session: Session, entry: RemoteAgentEntry, *, is_added: bool = False) -> ListedAgent:
        """An agent elsewhere, as far as it is known."""
        reachability = self._connections.reachability(session, entry.id)
        return ListedAgent(
            id=entry.id,
            name=_line(reachability.name or entry.name or entry.address, MOST_NAME),
            description=_line(reachability.description or entry.description, MOST_DESCRIPTION),
            kind="catalog" if entry.catalog else "remote",
            url=f"{REMOTE_PATH}{entry.id}",
            address=entry.address,
            version=reachability.version,
            binding=reachability.binding,
            state=reachability.state,
            error=None if reachability.error is None else _line(reachability.error, 1_000),
            skills=reachability.skills or entry.skills,
            streams=reachability.streams,
            is_added=is_added,
        )


def _line(text: str, most: int) -> str:
    """A text of a card on one line, without control characters, and not too long."""
    return printable_line(text[:most])
