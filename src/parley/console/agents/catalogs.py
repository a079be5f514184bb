"""Catalogues of agents: read through the guard, bounded, and cached for a short time for all sessions.

They are read without credentials, so that what is cached is public. What a catalogue names is trusted as little as what
a card names: an agent on another host than the catalogue's must be public.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.ai_catalog.model import WELL_KNOWN_PATH, AiCatalogEntry
from parley.client.discovery.catalog_reader import CatalogBounds, CatalogReader, catalog_url
from parley.client.discovery.discovery import Discovery
from parley.client.errors import DiscoveryError, ForbiddenTargetError
from parley.client.guard import Guard, is_same_host, read_target
from parley.client.options import Retries
from parley.client.transports.connections import Connections
from parley.console.agents.added import MOST_DESCRIPTION, MOST_NAME, RemoteAgentEntry
from parley.console.agents.connection import TIMEOUTS
from parley.console.agents.policy import RemotePolicy
from parley.protocol.cards import AgentCard
from parley.protocol.errors import ParleyError, PeerProtocolError
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.console.console import Console

BOUNDS = CatalogBounds(
    documents=10, entries=500, document_bytes=2 * 1024 * 1024, total_bytes=8 * 1024 * 1024, seconds=10.0
)
"""A person looks at the list: more than some hundred agents are found by searching in the catalogue itself."""

FRESH_SECONDS = 60.0
FAILED_SECONDS = 10.0
MOST_CACHED = 64
WAIT_SECONDS = 3.0
"""How long the list of agents waits for catalogues; what comes later is in the next list."""

RETRIES = Retries(attempts=2)


@dataclass(frozen=True, slots=True)
class CatalogReading:
    """The agents of a catalogue, or why it could not be read."""

    entries: tuple[RemoteAgentEntry, ...] = ()
    error: str | None = None
    until: float = 0.0


UNANSWERED = CatalogReading((), "It has not answered yet")


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """What is at a URL: an agent, or a catalogue."""

    agent: RemoteAgentEntry | None = None
    catalog: str | None = None


class Catalogs:
    """The catalogues of a console."""

    def __init__(self, console: Console) -> None:
        self._policy = RemotePolicy.of(console.settings)
        self._unknown = list(console.settings.agents)
        self.configured = tuple(RemoteAgentEntry(url, is_configured=True) for url in self._unknown)
        """The agents that the operator names."""
        self.configured_catalogs: tuple[str, ...] = ()
        self._next_try = 0.0
        self._preparing: asyncio.Task[None] | None = None
        self._cache: OrderedDict[tuple[str, bool], CatalogReading] = OrderedDict()
        self._reading: dict[tuple[str, bool], asyncio.Task[CatalogReading]] = {}

    async def prepare(self) -> None:
        """Find out what is at the URLs that the operator names. Only the first time, and for a short while, it waits.

        Until it is known, and if nothing answers, such a URL counts as that of an agent.
        """
        if self._preparing is None and self._unknown and time.monotonic() >= self._next_try:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())
        if self._preparing is not None and not self._next_try:
            await asyncio.wait([self._preparing], timeout=WAIT_SECONDS)

    async def _prepare(self) -> None:
        try:
            urls = tuple(self._unknown)
            found = await asyncio.gather(*(self._configured(url) for url in urls))
            targets = dict(zip(urls, found, strict=True))
            self._unknown = [url for url, target in targets.items() if target is None]
            kept = {one.url: one for one in self.configured}
            for url, target in targets.items():
                if target is None:
                    continue
                kept.pop(url, None)
                if target.agent is not None:
                    kept[url] = target.agent
                elif target.catalog is not None:
                    self.configured_catalogs = (*self.configured_catalogs, target.catalog)
            self.configured = tuple(kept.values())
        finally:
            self._next_try = time.monotonic() + FAILED_SECONDS
            self._preparing = None

    async def _configured(self, url: str) -> FoundTarget | None:
        try:
            return await find_target(url, self._policy.operators_guard(), is_configured=True)
        except ParleyError:
            return None

    async def read(self, url: str, *, is_configured: bool = False) -> CatalogReading:
        """The agents of a catalogue. Sessions that ask at the same time wait for one reading."""
        key = (url, is_configured)
        cached = self._cache.get(key)
        if cached is not None and cached.until > time.monotonic():
            return cached
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(url, is_configured=is_configured))
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        done, _ = await asyncio.wait([reading], timeout=WAIT_SECONDS)
        return reading.result() if done else cached or UNANSWERED

    async def _read(self, url: str, *, is_configured: bool) -> CatalogReading:
        guard = self._policy.operators_guard() if is_configured else self._policy.guard()
        try:
            entries = await read_catalog(url, guard, is_configured=is_configured)
            reading = CatalogReading(entries, None, time.monotonic() + FRESH_SECONDS)
        except ParleyError as error:
            reading = CatalogReading((), error.message[:500], time.monotonic() + FAILED_SECONDS)
        self._cache[url, is_configured] = reading
        if len(self._cache) > MOST_CACHED:
            self._cache.popitem(last=False)
        return reading

    async def close(self) -> None:
        """Stop reading."""
        tasks = [*self._reading.values(), *([] if self._preparing is None else [self._preparing])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def find_target(url: str, guard: Guard, *, is_configured: bool = False) -> FoundTarget:
    """What is at a URL that a person or the operator has named.

    Raises:
        ParleyError: there is neither an agent nor a catalogue, or it cannot be reached.
    """
    if read_target(url).path.endswith(WELL_KNOWN_PATH):
        await read_catalog(url, guard)
        return FoundTarget(catalog=url)
    connections = Connections(guard=guard, timeouts=TIMEOUTS)
    try:
        card = await Discovery(connections, retries=RETRIES).card(url)
    except (DiscoveryError, PeerProtocolError) as error:
        try:
            await read_catalog(url, guard)
        except ParleyError:
            if _is_private(error):
                return FoundTarget(agent=RemoteAgentEntry(url, is_configured=is_configured))
            raise error from None
        return FoundTarget(catalog=catalog_url(url))
    finally:
        await connections.close()
    return FoundTarget(agent=entry_for_card(url, card, is_configured=is_configured))


def entry_for_card(url: str, card: AgentCard, *, is_configured: bool = False) -> RemoteAgentEntry:
    """The entry of an agent whose card was read."""
    return RemoteAgentEntry(
        url,
        name=printable_line(card.name[:MOST_NAME]),
        description=printable_line(card.description[:MOST_DESCRIPTION]),
        is_configured=is_configured,
        skills=len(card.skills),
    )


def _is_private(error: ParleyError) -> bool:
    """Whether there may be a card that needs credentials."""
    return any(f"answers {status} at" in error.message for status in (401, 403))


async def read_catalog(url: str, guard: Guard, *, is_configured: bool = False) -> tuple[RemoteAgentEntry, ...]:
    """The agents of the catalogue at a URL, and of those that it names; see `CatalogReader.read` for errors.

    If the operator has named the catalogue, it has named the agents on the same host.
    """
    connections = Connections(guard=guard, timeouts=TIMEOUTS)
    try:
        url = catalog_url(url)
        listing = await CatalogReader(connections, BOUNDS).read(url)
    finally:
        await connections.close()
    found = [_entry(entry, url, guard, is_configured=is_configured) for entry in listing.entries if entry.is_agent]
    return tuple(entry for entry in found if entry is not None)


def _entry(entry: AiCatalogEntry, catalog: str, guard: Guard, *, is_configured: bool) -> RemoteAgentEntry | None:
    """An agent of a catalogue; None if it has no URL, or one that must not be called."""
    if entry.url is None:
        return None
    try:
        guard.check_interface(entry.url, card_url=catalog, named_by="The catalogue")
    except ForbiddenTargetError:
        return None
    is_named = is_same_host(read_target(entry.url).host, read_target(catalog).host)
    return RemoteAgentEntry(
        entry.url,
        name=printable_line(entry.display_name[:MOST_NAME]),
        description=printable_line(entry.description[:MOST_DESCRIPTION]),
        catalog=catalog.partition("?")[0],
        is_named=is_named,
        is_configured=is_configured and is_named,
        skills=len(entry.skills),
    )
