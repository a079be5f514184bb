"""Reads a catalogue that a tenant has added, and keeps of its entries what a search needs.

A card that an entry brings with it is replaced by the URL of the agent, where its card is fetched again when the agent
is registered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec
from msgspec import structs

from parley.ai_catalog.card_entries import entry_of_card
from parley.ai_catalog.model import SKILLS_KEY, AiCatalogEntry
from parley.client.credentials.origins import origin_of
from parley.client.discovery.catalog_reader import CatalogBounds, CatalogReader, catalog_url
from parley.client.guard import HINT, Guard
from parley.client.transports.connections import Connections
from parley.client.transports.transport import CallOptions
from parley.dialects.cards import decode_any_card
from parley.host.data.catalog_sources import MAX_SOURCE_ENTRIES
from parley.host.remote.known_card import ADVICE
from parley.protocol.errors import ParleyError, PeerProtocolError

BOUNDS = CatalogBounds(
    documents=10, entries=2 * MAX_SOURCE_ENTRIES, document_bytes=4 * 1024 * 1024, total_bytes=8 * 1024 * 1024
)
"""Less than a client reads for its own user: tenants make the host read."""

MOST_TEXT = 500
MOST_TAGS = 20
MOST_INLINE_BYTES = 4_096
MOST_CARD_BYTES = 256 * 1024
MOST_PROBLEMS = 20


class SourceUnreadableError(ParleyError):
    """The catalogue cannot be read."""


@dataclass(frozen=True, slots=True)
class SourceContents:
    """The entries of a catalogue, what was wrong with others, and whether all were read."""

    entries: tuple[AiCatalogEntry, ...]
    problems: tuple[str, ...]
    is_complete: bool

    @property
    def digest(self) -> str:
        """A hash of the entries."""
        return hashlib.sha256(msgspec.json.encode(self.entries)).hexdigest()


async def read_source(url: str, token: str | None, *, allowed_hosts: tuple[str, ...]) -> SourceContents:
    """The entries of a catalogue and of those that it names. The token goes to the origin of the URL alone.

    Raises:
        SourceUnreadableError: there is no catalogue, it cannot be reached or must not be called.
    """
    connections = Connections(guard=Guard(trust_named=False, allowed_hosts=allowed_hosts))
    try:
        url = catalog_url(url)

        async def authenticate(called: str, options: CallOptions) -> CallOptions:
            if token is None or origin_of(called) != origin_of(url):
                return options
            return replace(options, headers={**options.headers, "authorization": f"Bearer {token}"})

        listing = await CatalogReader(connections, BOUNDS, authenticate=authenticate).read(url)
    except ParleyError as error:
        raise SourceUnreadableError(error.message.replace(HINT, ADVICE)) from error
    finally:
        await connections.close()
    problems = list(listing.problems)
    entries = list(_kept(listing.entries, problems))
    is_complete = listing.is_complete and len(entries) <= MAX_SOURCE_ENTRIES
    if len(entries) > MAX_SOURCE_ENTRIES:
        problems.insert(0, f"Only the first {MAX_SOURCE_ENTRIES} of {len(entries)} entries are kept")
    shown = [problem[:MOST_TEXT].replace(HINT, ADVICE) for problem in problems]
    if len(shown) > MOST_PROBLEMS:
        shown = [*shown[: MOST_PROBLEMS - 1], f"and {len(shown) - MOST_PROBLEMS + 1} more problems"]
    return SourceContents(tuple(entries[:MAX_SOURCE_ENTRIES]), tuple(shown), is_complete)


def _kept(entries: Iterable[AiCatalogEntry], problems: list[str]) -> Iterator[AiCatalogEntry]:
    for entry in entries:
        try:
            yield _shortened(_with_url(entry))
        except PeerProtocolError as error:
            problems.append(f"{entry.identifier[:200]}: {error}")


def _with_url(entry: AiCatalogEntry) -> AiCatalogEntry:
    """The entry of an agent with its URL instead of its card. Raises PeerProtocolError."""
    if entry.data is None:
        return entry
    most = MOST_CARD_BYTES if entry.is_agent else MOST_INLINE_BYTES
    if len(entry.data) > most:
        raise PeerProtocolError(f"Its data has more than {most} bytes")
    if not entry.is_agent:
        return entry
    card, _ = decode_any_card(entry.data)
    if not card.interfaces:
        raise PeerProtocolError("Its card names no interface")
    of_card = entry_of_card(card, identifier=entry.identifier, url=card.interfaces[0].url)
    return structs.replace(
        entry,
        data=None,
        url=of_card.url,
        description=entry.description or of_card.description,
        tags=entry.tags or of_card.tags,
        version=entry.version or of_card.version,
        metadata={**of_card.metadata, **entry.metadata},
    )


def _shortened(entry: AiCatalogEntry) -> AiCatalogEntry:
    skills = [skill[:100] for skill in entry.skills[:MOST_TAGS]]
    return structs.replace(
        entry,
        display_name=entry.display_name[:MOST_TEXT],
        description=entry.description[:MOST_TEXT],
        tags=tuple([tag[:100] for tag in entry.tags[:MOST_TAGS]]),
        metadata={SKILLS_KEY: [*skills]} if skills else {},
        trust_manifest=None,
    )
