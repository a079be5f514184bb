"""The AI Catalog of an app at `/.well-known/ai-catalog.json`: all its agents, whose cards are public anyway.

A catalogue of more than a thousand agents consists of pages, at the same path with `?page=1` and so on. It changes with
the table of agents only, so it is made once for each URL that callers use.
"""

from __future__ import annotations

from urllib.parse import quote

from parley.ai_catalog.card_entries import agent_identifier, entry_of_card
from parley.ai_catalog.documents import CatalogDocument, catalog_document
from parley.ai_catalog.model import CATALOG_TYPE, WELL_KNOWN_PATH, AiCatalogEntry, AiCatalogHost
from parley.protocol.errors import MethodNotFoundError
from parley.protocol.versions import Version
from parley.server.agent_table import AgentTable
from parley.server.app_resources import Cache
from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest, reply_error
from parley.server.pages.cards import PUBLIC_SECONDS
from parley.wire.rest import MethodNotAllowedError

HOST_NAME = "Parley"


async def show_catalog(table: AgentTable, request: AsgiRequest, *, cache: Cache) -> None:
    """Answer a request for the catalogue of an app, or for a page of it."""
    if request.verb not in ("GET", "HEAD"):
        await reply_error(request, Version.V1_0, MethodNotAllowedError(["GET", "HEAD"]))
        return
    base_url = request.base_url
    documents = cache.get(("catalog", base_url, table.version), lambda: _Documents(table, base_url))
    document = documents.page(page_in("".join(request.query.get("page", ()))))
    if document is None:
        await reply_error(request, Version.V1_0, MethodNotFoundError("The catalogue has no such page"))
        return
    await reply_catalog(request, document, cache=b"public, max-age=%d" % PUBLIC_SECONDS, vary=b"Host")


def page_in(text: str) -> int:
    """The number of a page in a query; 0 for the catalogue itself, -1 for a text that is not such a number."""
    if not text:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 and text[0] != "0" else -1


class _Documents:
    """The documents of one catalogue for one URL."""

    def __init__(self, table: AgentTable, base_url: str) -> None:
        self._base_url = base_url
        self._entries = [_entry(table, agent_id, base_url) for agent_id in table.ids]
        self._pages: dict[int, CatalogDocument | None] = {}

    def page(self, number: int) -> CatalogDocument | None:
        if number not in self._pages:
            url = f"{self._base_url}{WELL_KNOWN_PATH}"
            made = catalog_document(self._entries, host=host_info(self._base_url), url=url, page=number)
            if made is None:
                return None
            self._pages[number] = made
        return self._pages[number]


def _entry(table: AgentTable, agent_id: str, base_url: str) -> AiCatalogEntry:
    agent, since = table.agent(agent_id)
    return entry_of_card(
        agent.card(),
        identifier=agent_identifier(base_url, quote(agent_id, safe="")),
        url=f"{table.url_of(agent_id, base_url)}/.well-known/agent-card.json",
        updated_at=since,
    )


def host_info(base_url: str) -> AiCatalogHost:
    """The operator of a catalogue, as far as a server knows it: its URL."""
    return AiCatalogHost(HOST_NAME, base_url)


async def reply_catalog(request: AsgiRequest, document: CatalogDocument, *, cache: bytes, vary: bytes) -> None:
    """Reply with a document, or say that the caller has it. `cache` and `vary` say who may keep it."""
    headers: list[Header] = [(b"etag", document.etag.encode()), (b"cache-control", cache), (b"vary", vary)]
    if document.is_known(request.headers.get("if-none-match")):
        await request.start_reply(304, headers)  # without a length: RFC 9110 section 8.6
        await request.send_chunk(b"", is_last=True)
    else:
        await request.reply(200, document.body, CATALOG_TYPE.encode(), headers)
