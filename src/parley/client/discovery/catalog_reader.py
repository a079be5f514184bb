"""Reads an AI Catalog and the catalogues that it names, within bounds on depth, documents, entries, bytes and time.

The first URL is the caller's. All others come from catalogues and are checked as the URLs of cards are: they lead to
the same host, or to a public one over TLS. Redirects are not followed. A catalogue is read once, however often it is
named, so that loops end. What is wrong with a nested catalogue or an entry is reported; the rest is read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from parley.ai_catalog.decoding import InvalidCatalogError, ReadCatalog, bounded_problems, decode_catalog
from parley.ai_catalog.model import CATALOG_TYPE, WELL_KNOWN_PATH, AiCatalogEntry
from parley.ai_catalog.trust import is_vouched_for
from parley.client.errors import ClientError, DiscoveryError, TimedOutError
from parley.client.guard import read_target
from parley.client.transports.connections import Connections
from parley.client.transports.transport import CallOptions
from parley.network.urls import with_scheme
from parley.protocol.errors import PeerProtocolError, SignatureInvalidError
from parley.protocol.signing import CardKey

UNAUTHENTICATED = frozenset({401, 403})
LARGE_BYTES = 256 * 1024
"""Documents from this size on are decoded beside the event loop."""

AuthenticateFor: TypeAlias = Callable[[str, CallOptions], Awaitable[CallOptions]]
"""Adds the caller's credentials to a request for a URL, if they are for its origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogBounds:
    """How much is read, with the reason for each default."""

    depth: int = 3
    """Catalogues within catalogues: departments, teams and their pages."""
    documents: int = 30
    """Documents in all; a host with 30,000 agents has as many pages."""
    entries: int = 10_000
    """Entries in all. A search in more takes longer than people wait."""
    document_bytes: int = 8 * 1024 * 1024
    """One document: some ten thousand entries."""
    total_bytes: int = 32 * 1024 * 1024
    seconds: float = 30.0
    """For all documents together."""


class FoundEntry(Struct, frozen=True):
    """An entry, the catalogue that has it, and whether its trust manifest is signed with a key of the reader."""

    entry: AiCatalogEntry
    catalog_url: str
    is_vouched_for: bool = False


class CatalogListing(Struct, frozen=True):
    """Everything that was read, and what was not."""

    found: tuple[FoundEntry, ...]
    problems: tuple[str, ...]
    documents: int
    is_complete: bool
    """Whether no bound cut the listing short."""

    @property
    def entries(self) -> tuple[AiCatalogEntry, ...]:
        """The entries alone, without the nested catalogues that were read."""
        return tuple([one.entry for one in self.found])


def catalog_url(text: str) -> str:
    """The URL of a catalogue as people type it: that of a server means its well-known catalogue.

    `"agents.example"` → `"https://agents.example/.well-known/ai-catalog.json"`

    Raises:
        ForbiddenTargetError: it is not a URL.
    """
    target = read_target(with_scheme(text))
    return f"{target.origin}{WELL_KNOWN_PATH}" if target.path in ("", "/") and not target.query else target.text


class CatalogReader:
    """Reads catalogues over the connections of one client."""

    def __init__(
        self,
        connections: Connections,
        bounds: CatalogBounds | None = None,
        *,
        authenticate: AuthenticateFor | None = None,
        keys: Mapping[str, CardKey] | None = None,
    ) -> None:
        """`keys` verify the signatures of trust manifests, by their ids; without keys, none is verified."""
        self._connections = connections
        self._bounds = bounds or CatalogBounds()
        self._authenticate = authenticate
        self._keys = keys or {}

    async def read(self, url: str) -> CatalogListing:
        """The entries of the catalogue at a URL, and of those that it names.

        Raises:
            DiscoveryError: there is no catalogue.
            InvalidCatalogError: the document is not a catalogue.
            ForbiddenTargetError: the URL must not be called, or redirects.
            UnreachableError: the server cannot be reached, or does not answer in time.
        """
        url = catalog_url(url)
        self._connections.trust(url)
        reading = _CatalogReading(self._bounds)
        try:
            async with asyncio.timeout(self._bounds.seconds):
                reading.add(url, await self._fetch(url, reading), depth=1, keys=self._keys)
                while (nested := reading.next_document()) is not None:
                    await self._read_nested(url, *nested, reading)
        except TimeoutError:
            if not reading.documents:
                origin = read_target(url).origin
                raise TimedOutError(f"No catalogue of {origin} within {self._bounds.seconds:g} seconds") from None
            reading.stop(f"{_shown(url)}: The catalogues were not read within {self._bounds.seconds:g} seconds")
        return reading.listing()

    async def _read_nested(self, root: str, entry: AiCatalogEntry, depth: int, reading: _CatalogReading) -> None:
        where = _shown(entry.url) if entry.url is not None else entry.identifier[:200]
        try:
            if entry.url is None:
                read = await _decoded(entry.data or b"", reading.entries_left)
            else:
                if not self._connections.is_in_process:
                    self._connections.guard.check_interface(entry.url, card_url=root, named_by="It")
                read = await self._fetch(entry.url, reading)
        except (ClientError, PeerProtocolError) as error:
            reading.problems.append(f"{where}: {error}")
            return
        reading.add(entry.url or entry.identifier, read, depth=depth, keys=self._keys)

    async def _fetch(self, url: str, reading: _CatalogReading) -> ReadCatalog:
        channel = self._connections.channel
        options = CallOptions({"accept": f"{CATALOG_TYPE}, application/json"}, timeout=self._bounds.seconds)
        limit = max(1, min(self._bounds.document_bytes, reading.bytes_left))
        reply = await channel.exchange("GET", url, b"", options, limit=limit)
        if reply.status in UNAUTHENTICATED and self._authenticate is not None:
            options = await self._authenticate(url, options)
            reply = await channel.exchange("GET", url, b"", options, limit=limit)
        if reply.status != 200:
            raise DiscoveryError(f"No AI Catalog is at {_shown(url)}: it answers {reply.status}")
        reading.bytes_left -= len(reply.body)
        return await _decoded(reply.body, reading.entries_left)


async def _decoded(body: bytes, most: int) -> ReadCatalog:
    if len(body) < LARGE_BYTES:
        return decode_catalog(body, max_entries=most)
    return await asyncio.to_thread(decode_catalog, body, max_entries=most)


@dataclass(slots=True)
class _CatalogReading:
    """What was read so far, and what is left to read."""

    bounds: CatalogBounds
    found: dict[tuple[str, str | None], FoundEntry] = field(default_factory=dict[tuple[str, str | None], FoundEntry])
    problems: list[str] = field(default_factory=list[str])
    documents: int = 0
    bytes_left: int = 0
    is_complete: bool = True
    _requested: int = 1
    """How many documents were asked for, whether they were there or not."""
    _waiting: deque[tuple[AiCatalogEntry, int]] = field(default_factory=deque[tuple[AiCatalogEntry, int]])
    _seen: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.bytes_left = self.bounds.total_bytes

    @property
    def entries_left(self) -> int:
        return self.bounds.entries - len(self.found)

    def add(self, url: str, read: ReadCatalog, *, depth: int, keys: Mapping[str, CardKey]) -> None:
        """Take the entries of a document; its nested catalogues wait, if they are not too deep."""
        self.documents += 1
        self._seen.add(url)
        self.problems += [f"{_shown(url)} {problem}" for problem in read.problems]
        for entry in read.catalog.entries:
            try:
                is_vouched = is_vouched_for(entry, keys)
            except SignatureInvalidError as error:
                self.problems.append(f"{_shown(url)} {entry.identifier[:200]}: {error.message}")
                continue
            if entry.is_catalog:
                self._add_nested(entry, depth + 1)
            elif self.entries_left > 0:
                self.found.setdefault((entry.identifier, entry.version), FoundEntry(entry, url, is_vouched))
            else:
                self.stop(f"{_shown(url)}: Only {self.bounds.entries} entries are read")
                break

    def _add_nested(self, entry: AiCatalogEntry, depth: int) -> None:
        where = read_target(entry.url).text if entry.url is not None else entry.identifier
        if where in self._seen:
            self.problems.append(f"{_shown(where)}: This catalogue is named more than once, and read once")
        elif depth > self.bounds.depth:
            self.stop(f"{_shown(where)}: Catalogues are nested deeper than {self.bounds.depth}")
        else:
            self._seen.add(where)
            self._waiting.append((entry, depth))

    def next_document(self) -> tuple[AiCatalogEntry, int] | None:
        """The nested catalogue to read next, with its depth; None if there is none, or a bound is reached."""
        if not self._waiting:
            return None
        if self._requested >= self.bounds.documents:
            self.stop(f"{len(self._waiting)} more catalogues: Only {self.bounds.documents} documents are read")
        elif self.bytes_left <= 0:
            self.stop(f"{len(self._waiting)} more catalogues: Only {self.bounds.total_bytes} bytes are read")
        elif self.entries_left <= 0:
            self.stop(f"{len(self._waiting)} more catalogues: Only {self.bounds.entries} entries are read")
        else:
            self._requested += 1
            return self._waiting.popleft()
        return None

    def stop(self, problem: str) -> None:
        """Report a bound that was reached."""
        self.is_complete = False
        if problem not in self.problems:
            self.problems.append(problem)

    def listing(self) -> CatalogListing:
        found = tuple(self.found.values())
        return CatalogListing(found, bounded_problems(self.problems), self.documents, self.is_complete)


def _shown(url: str) -> str:
    """A URL as problems show it: without a query, which may hold a key."""
    return url.partition("?")[0][:200]


__all__ = ["CatalogBounds", "CatalogListing", "CatalogReader", "FoundEntry", "InvalidCatalogError", "catalog_url"]
