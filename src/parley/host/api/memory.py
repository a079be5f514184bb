"""Structured memory: entries, links between them, and searching them, as the `/mem` commands of agents do."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from parley.host.access.scopes import Scope
from parley.host.api.agents import Deleted
from parley.host.api.query_parameters import LimitParameter, NumberParameter, TextParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.data.memory import DEFAULT_PAGE, MAX_HITS, MAX_PAGE
from parley.host.data.memory_entry import ENTRY_TYPES, MemoryEntry, MemoryFullError, MemoryLink, check_type
from parley.host.data.memory_graph import MAX_DEPTH, Expansion
from parley.host.data.memory_search import MemoryHit, SearchPreferences
from parley.host.errors import BadRequest, Conflict

LIMIT = LimitParameter(default=DEFAULT_PAGE, most=MAX_PAGE)
HIT_LIMIT = LimitParameter(default=MAX_HITS, most=MAX_HITS)
DEPTH = LimitParameter(name="depth", about="How many links to follow.", default=1, most=MAX_DEPTH)
BEFORE_ID = NumberParameter("before_id", "Entries with smaller ids.")
AS_OF = NumberParameter("as_of", "Entries that were valid at this second since 1970.")
TYPE = TextParameter("type", f"Types, separated by commas: {', '.join(ENTRY_TYPES)}.")
TAG = TextParameter("tag", "Entries with this tag.")
QUERY = TextParameter("q", "The words to search for.")
CONVERSATION = NumberParameter("conversation_id", "Entries of this conversation come first.")


class NewMemoryEntry(Struct, frozen=True):
    """An entry to add. Those that it supersedes are invalid from then on."""

    type: str
    title: str
    content: str = ""
    source: str = ""
    tags: tuple[str, ...] = ()
    artifact_id: int | None = None
    conversation_id: int | None = None
    supersedes: tuple[int, ...] = ()


class NewMemoryLink(Struct, frozen=True):
    """A link from one entry to another."""

    source_id: int
    relation: str
    target_id: int


class MemoryEntryList(Struct, frozen=True):
    """The newest entries first."""

    count: int
    entries: Sequence[MemoryEntry]


class MemoryHits(Struct, frozen=True):
    """The entries that fit best first."""

    count: int
    hits: Sequence[MemoryHit]


class MemoryLinkList(Struct, frozen=True):
    """The links of an entry in both directions, oldest first."""

    count: int
    links: Sequence[MemoryLink]


async def list_entries(call: ApiCall[None]) -> Answer:
    """A page of the valid entries."""
    found = await call.host.memory.list(
        call.tenant.id,
        types=_types(call),
        tag=call.query(TAG) or None,
        as_of=call.query(AS_OF),
        before_id=call.query(BEFORE_ID),
        limit=call.query(LIMIT),
    )
    return Answer(MemoryEntryList(len(found), found))


async def add_entry(call: ApiCall[NewMemoryEntry]) -> Answer:
    """Add an entry."""
    tenant, body = call.tenant, call.body
    with _full_as_conflict():
        entry = await call.host.memory.add(
            tenant.id,
            type=body.type,
            title=body.title,
            content=body.content,
            source=body.source,
            tags=body.tags,
            artifact_id=body.artifact_id,
            conversation_id=body.conversation_id,
            supersedes=body.supersedes,
            quota=call.host.storage_limit(tenant),
        )
    return Answer(entry, 201)


async def get_entry(call: ApiCall[None]) -> Answer:
    """One entry, also one that is not valid any more."""
    return Answer(await call.host.memory.get(call.tenant.id, call.number("id"), include_invalid=True))


async def delete_entry(call: ApiCall[None]) -> Answer:
    """Delete an entry and its links."""
    await call.host.memory.delete(call.tenant.id, call.number("id"))
    return Answer(Deleted())


async def invalidate_entry(call: ApiCall[None]) -> Answer:
    """Make an entry invalid from now on. It stays readable."""
    return Answer(await call.host.memory.invalidate(call.tenant.id, call.number("id")))


async def expand_entry(call: ApiCall[None]) -> Answer:
    """The entries around one."""
    return Answer(await call.host.memory.expand(call.tenant.id, call.number("id"), depth=call.query(DEPTH)))


async def search(call: ApiCall[None]) -> Answer:
    """The entries that fit a query."""
    words = call.query(QUERY)
    if not words.strip():
        raise BadRequest("q: is required")
    preferences = SearchPreferences(_types(call), call.query(CONVERSATION))
    hits = await call.host.memory.search(call.tenant.id, words, preferences=preferences, limit=call.query(HIT_LIMIT))
    return Answer(MemoryHits(len(hits), hits))


async def list_links(call: ApiCall[None]) -> Answer:
    """The links of an entry."""
    entry = await call.host.memory.get(call.tenant.id, call.number("id"), include_invalid=True)
    links = await call.host.memory.links(call.tenant.id, entry.id)
    return Answer(MemoryLinkList(len(links), links))


async def add_link(call: ApiCall[NewMemoryLink]) -> Answer:
    """Link one entry to another."""
    body = call.body
    with _full_as_conflict():
        link = await call.host.memory.add_link(
            call.tenant.id, body.source_id, relation=body.relation, target_id=body.target_id
        )
    return Answer(link, 201)


@contextmanager
def _full_as_conflict() -> Generator[None]:
    """Refuse what exceeds a number with 409: the request itself is not too large."""
    try:
        yield
    except MemoryFullError as error:
        raise Conflict(error.message) from None


def _types(call: ApiCall[None]) -> tuple[str, ...]:
    """The types in the query. Raises InvalidMemoryError if there is no such type."""
    types = tuple(name for name in call.query(TYPE).split(",") if name)
    for name in types:
        check_type(name)
    return types


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/memory/entries",
        handler=list_entries,
        summary="List memory entries",
        query=[TYPE, TAG, AS_OF, BEFORE_ID, LIMIT],
        replies=[ApiReply(MemoryEntryList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/memory/entries",
        handler=add_entry,
        scope=Scope.CALL,
        summary="Add a memory entry",
        body=BodyReader(NewMemoryEntry),
        replies=[ApiReply(MemoryEntry, 201)],
        errors=[404, 409, 413],
    ),
    ApiRoute(
        method="GET",
        path="/v1/memory/entries/{id:int}",
        handler=get_entry,
        summary="Read a memory entry",
        replies=[ApiReply(MemoryEntry)],
        errors=[404],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/memory/entries/{id:int}",
        handler=delete_entry,
        scope=Scope.CALL,
        summary="Delete a memory entry and its links",
        replies=[ApiReply(Deleted)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/memory/entries/{id:int}/invalidate",
        handler=invalidate_entry,
        scope=Scope.CALL,
        summary="Invalidate a memory entry",
        description="It is not listed or found any more, and stays readable.",
        replies=[ApiReply(MemoryEntry)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/memory/entries/{id:int}/expand",
        handler=expand_entry,
        summary="Read the memory entries around one",
        query=[DEPTH],
        replies=[ApiReply(Expansion)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/memory/entries/{id:int}/links",
        handler=list_links,
        summary="List the links of a memory entry",
        replies=[ApiReply(MemoryLinkList)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/memory/links",
        handler=add_link,
        scope=Scope.CALL,
        summary="Link two memory entries",
        body=BodyReader(NewMemoryLink),
        replies=[ApiReply(MemoryLink, 201)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/memory/search",
        handler=search,
        summary="Search the memory",
        query=[QUERY, TYPE, CONVERSATION, HIT_LIMIT],
        replies=[ApiReply(MemoryHits)],
    ),
)
