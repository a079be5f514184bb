"""Agents and catalogues that were added in a session, as the session keeps them.

The id of an agent follows from its URL, so that links to it stay valid when it is added again, and for other sessions
that add it. It gives no access: every session has a list of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct, structs

from parley.client.guard import read_target
from parley.console.api.errors import ConsoleError
from parley.console.sessions import Session
from parley.network.urls import with_scheme

SESSION_VALUE = "agents"

MOST_AGENTS = 100
MOST_CATALOGS = 10
MOST_URL = 2_000
MOST_NAME = 200
MOST_DESCRIPTION = 500


class RemoteAgentEntry(Struct, frozen=True, omit_defaults=True):
    """An agent elsewhere, as far as it is known without calling it."""

    url: str
    """Its URL, or the URL of its card."""
    name: str = ""
    description: str = ""
    catalog: str = ""
    """The catalogue that lists it; empty for one that a person added."""
    is_named: bool = True
    """Whether a person has named its host."""
    is_configured: bool = False
    """Whether the operator has named it."""
    skills: int = 0

    @property
    def id(self) -> str:
        """The id in paths."""
        return agent_id(self.url)

    @property
    def address(self) -> str:
        """Its URL as people are shown it: without a query, which may hold a key."""
        return self.url.partition("?")[0].rstrip("/")


class AddedAgents(Struct, frozen=True, omit_defaults=True):
    """What was added in a session."""

    agents: tuple[RemoteAgentEntry, ...] = ()
    catalogs: tuple[str, ...] = ()


def agent_id(url: str) -> str:
    """The id of the agent at a URL."""
    return f"r-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


def catalog_id(url: str) -> str:
    """The id of the catalogue at a URL."""
    return f"c-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


def read_url(text: str) -> str:
    """A URL as people type it. Raises ConsoleError, or ForbiddenTargetError if it cannot be one of an agent."""
    text = text.strip()
    if not text or len(text) > MOST_URL or not text.isprintable():
        raise ConsoleError("bad_request", f"Give a URL of up to {MOST_URL} characters", path="$.url")
    target = read_target(with_scheme(text))
    if target.scheme not in ("http", "https"):
        raise ConsoleError("bad_request", "Give the URL of the agent's card: it is fetched over HTTP", path="$.url")
    if target.fragment or "@" in text.partition("://")[2].partition("/")[0]:
        raise ConsoleError("bad_request", "A URL must not have a fragment or credentials", path="$.url")
    return target.text


def added_in(session: Session) -> AddedAgents:
    """What was added in a session."""
    return session.get(SESSION_VALUE, AddedAgents) or AddedAgents()


async def add_agent(session: Session, entry: RemoteAgentEntry) -> None:
    """Add an agent, or replace what is known of it. Raises ConsoleError if there are too many."""

    def change(added: AddedAgents | None) -> AddedAgents:
        added = added or AddedAgents()
        others = tuple(one for one in added.agents if one.id != entry.id)
        _check_number(others, MOST_AGENTS, "agents")
        return structs.replace(added, agents=(*others, entry))

    await session.update(SESSION_VALUE, AddedAgents, change)


async def add_catalog(session: Session, url: str) -> None:
    """Add a catalogue. Raises ConsoleError if there are too many."""

    def change(added: AddedAgents | None) -> AddedAgents:
        added = added or AddedAgents()
        others = tuple(one for one in added.catalogs if one != url)
        _check_number(others, MOST_CATALOGS, "catalogues")
        return structs.replace(added, catalogs=(*others, url))

    await session.update(SESSION_VALUE, AddedAgents, change)


async def remove(session: Session, id: str) -> bool:
    """Remove an agent or a catalogue that was added. Returns whether it was there."""
    found = False

    def change(added: AddedAgents | None) -> AddedAgents:
        nonlocal found
        added = added or AddedAgents()
        agents = tuple(one for one in added.agents if one.id != id)
        catalogs = tuple(url for url in added.catalogs if catalog_id(url) != id)
        found = (agents, catalogs) != (added.agents, added.catalogs)
        return AddedAgents(agents, catalogs)

    if session.is_stored:
        await session.update(SESSION_VALUE, AddedAgents, change)
    return found


def _check_number(others: Sequence[object], most: int, what: str) -> None:
    if len(others) >= most:
        raise ConsoleError("conflict", f"A session may have up to {most} {what}; remove one first")
