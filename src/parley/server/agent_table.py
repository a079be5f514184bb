"""The agents of an app: where each is served, and its site, which is made when it is first called.

An app that begins with one agent serves it at the root, for as long as the app lives: no URL changes when another agent
is added. All others are served at `/agents/{id}`, with a directory at `/agents`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

import msgspec

from parley.agents.agent import Agent
from parley.protocol.errors import InvalidParamsError
from parley.server.site import Site

DIRECTORY_PATHS = ("/agents", "/agents/")
DIRECTORY_PAGE = 100
"""Default and maximum page size of the directory: some 20 KB."""

MakeSite = Callable[[Agent, datetime, str | None], Site]
"""Makes the site of an agent that was added at the given time; the string is its tenant over gRPC, if it needs one."""


@dataclass(slots=True)
class _Entry:
    agent: Agent
    since: datetime
    site: Site | None = None


class AgentTable:
    """Agents by id. `root` is the id of the agent at the root, which may have been removed."""

    def __init__(self, root: str | None, make_site: MakeSite) -> None:
        self.root = root
        self._make_site = make_site
        self._entries: dict[str, _Entry] = {}
        self._sorted: list[str] | None = None
        self.version = 0
        """Counts the changes of the table."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, agent_id: object) -> bool:
        return agent_id in self._entries

    @property
    def agents(self) -> tuple[Agent, ...]:
        """All agents, in the order in which they were added."""
        return tuple([entry.agent for entry in self._entries.values()])

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all agents, sorted."""
        if self._sorted is None:
            self._sorted = sorted(self._entries)
        return self._sorted

    def agent(self, agent_id: str) -> tuple[Agent, datetime]:
        """An agent that is there, and when it was added or replaced."""
        entry = self._entries[agent_id]
        return entry.agent, entry.since

    def put(self, agent: Agent) -> None:
        """Add or replace an agent."""
        if agent.id not in self._entries:
            self._sorted = None
        self.version += 1
        self._entries[agent.id] = _Entry(agent, datetime.now(UTC).replace(microsecond=0))

    def remove(self, agent_id: str) -> None:
        """Remove an agent that is there."""
        del self._entries[agent_id]
        self._sorted = None
        self.version += 1

    # --- URLs ---------------------------------------------------------------------------------------------------------

    def url_of(self, agent_id: str, base_url: str) -> str:
        """The URL of an agent of an app at this URL."""
        return base_url if agent_id == self.root else f"{base_url}/agents/{quote(agent_id, safe='')}"

    def site(self, agent_id: str | None) -> Site | None:
        """The site of an agent, if the agent is there."""
        entry = None if agent_id is None else self._entries.get(agent_id)
        if entry is None:
            return None
        if entry.site is None:
            tenant = None if entry.agent.id == self.root else entry.agent.id
            entry.site = self._make_site(entry.agent, entry.since, tenant)
        return entry.site

    def find(self, path: str) -> tuple[Site, str] | None:
        """The site that a path belongs to, and the rest of the path."""
        if path.startswith("/agents/") and len(self._entries) > (self.root in self._entries):
            segment, slash, rest = path.removeprefix("/agents/").partition("/")
            agent_id = unquote(segment)
            site = self.site(agent_id) if agent_id != self.root else None
            if site is not None:
                return site, slash + rest
        site = None if self.is_directory(path) else self.site(self.root)
        return None if site is None else (site, path)

    def is_directory(self, path: str) -> bool:
        """True if the directory of agents is at this path: `/agents`, also `/` if no agent is served there."""
        if self.root in self._entries:
            return path in DIRECTORY_PATHS and len(self._entries) > 1
        return path in ("", "/", *DIRECTORY_PATHS)

    def directory(self, base_url: str, query: Mapping[str, Sequence[str]]) -> bytes:
        """A page of the agents by id, with the URLs of their cards, as JSON. Raises InvalidParamsError."""
        ids = self.ids
        size, after = _page_size(query.get("pageSize", ())), "".join(query.get("pageToken", ()))
        begin = bisect_right(ids, after) if after else 0
        shown = ids[begin : begin + size]
        page: dict[str, object] = {"agents": [self._directory_entry(agent_id, base_url) for agent_id in shown]}
        if begin + size < len(ids):
            page["nextPageToken"] = shown[-1]
        return msgspec.json.encode(page)

    def _directory_entry(self, agent_id: str, base_url: str) -> dict[str, str]:
        agent, url = self._entries[agent_id].agent, self.url_of(agent_id, base_url)
        return {
            "id": agent_id,
            "name": agent.name,
            "description": agent.description,
            "url": url,
            "card": f"{url}/.well-known/agent-card.json",
        }


def check_agent(agent: Agent) -> None:
    """Check that an agent can be served. Raises ValueError if it has no handler or its id cannot be part of a URL."""
    agent.check()
    if "/" in agent.id or agent.id in (".", "..") or not agent.id.isprintable():
        raise ValueError(f"Invalid agent id: {agent.id!r}. It must be printable, without a slash, and not '.' or '..'.")


def _page_size(values: Sequence[str]) -> int:
    if not values:
        return DIRECTORY_PAGE
    if values[0].isascii() and values[0].isdigit() and len(values[0]) < 5 and 1 <= int(values[0]) <= DIRECTORY_PAGE:
        return int(values[0])
    raise InvalidParamsError(f"Must be between 1 and {DIRECTORY_PAGE}", path="$.pageSize")
