"""Everything below one agent's URL: its bindings, its cards, and the pages for people.

Paths are looked up in this order: JSON-RPC at the URL itself, the pages in the table, and then the REST routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from email.utils import format_datetime
from urllib.parse import quote

from parley.dialects.registry import DIALECTS
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.errors import ExtendedCardNotConfiguredError, MethodNotFoundError
from parley.protocol.negotiation import read_version
from parley.protocol.operations import GET_EXTENDED_CARD
from parley.protocol.requests import GetExtendedCardRequest
from parley.protocol.versions import Version
from parley.server.bindings.failures import Header, as_wire_error
from parley.server.bindings.http import JSON, AsgiRequest, reply_error
from parley.server.bindings.jsonrpc import JsonRpcEndpoint
from parley.server.bindings.rest import NO_STORE, RestEndpoint
from parley.server.pages import docs_page, openapi
from parley.server.pages.cards import PUBLIC_SECONDS, CardDocument, host_of
from parley.server.pages.signer import KEYS_PATH
from parley.server.service import Service
from parley.wire.rest import MethodNotAllowedError

HTML = b"text/html; charset=utf-8"

Page = Callable[["Site", AsgiRequest], Awaitable[None]]


class Site:
    """One agent's URL space."""

    __slots__ = ("_jsonrpc", "_rest", "service")

    def __init__(self, service: Service) -> None:
        self.service = service
        self._jsonrpc = JsonRpcEndpoint(service)
        self._rest = RestEndpoint(service)

    def __call__(self, request: AsgiRequest, path: str) -> Awaitable[None]:
        """Answer a request; `path` is relative to the agent's URL, which is the request's `base_url`."""
        if path in ("", "/"):
            return (self._jsonrpc if request.verb == "POST" else self._root)(request)
        page = PAGES.get(path)
        if page is None:
            return self._rest(request, path)
        if request.verb not in ("GET", "HEAD"):
            return reply_error(request, Version.V1_0, MethodNotAllowedError(["GET", "HEAD"]))
        return self._show(page, request)

    async def _show(self, page: Page, request: AsgiRequest) -> None:
        try:
            await page(self, request)
        except Exception as error:  # here a request ends
            failure = as_wire_error(error)
            self.service.refused(Binding.HTTP_JSON, failure)
            await reply_error(request, Version.V1_0, failure)

    # --- cards --------------------------------------------------------------------------------------------------------

    async def show_card(self, request: AsgiRequest) -> None:
        await self._reply_card(request, read_version(request.version_header))

    async def show_card_for_0_2(self, request: AsgiRequest) -> None:
        await self._reply_card(request, read_version(request.version_header) or Version.V0_2)

    async def _reply_card(self, request: AsgiRequest, version: Version | None) -> None:
        document = self.service.cards.document(request.base_url, version)
        await reply_card(request, document, cache=b"public, max-age=%d" % PUBLIC_SECONDS, vary=b"A2A-Version, Host")

    async def show_extended_card(self, request: AsgiRequest) -> None:
        """The extended card at a URL of its own, as in 0.2. a2a-sdk 0.3 still uses it."""
        if not self.service.cards.has_extended:
            raise ExtendedCardNotConfiguredHere
        identity = await self.service.shared.authenticate(request.credentials, request.address)
        version = read_version(request.version_header) or Version.V0_3
        call = request.call(self.service.agent_id, GET_EXTENDED_CARD, version, Binding.HTTP_JSON, identity)
        card = await self.service.answer(call, GetExtendedCardRequest())
        assert isinstance(card, AgentCard)
        await request.reply(200, DIALECTS[version].encode_card(card), JSON, [NO_STORE])

    async def show_keys(self, request: AsgiRequest) -> None:
        """The key that verifies the card's signature."""
        if self.service.shared.signer is None:
            raise MethodNotFoundError("The card is not signed")
        headers = [(b"cache-control", b"public, max-age=%d" % PUBLIC_SECONDS)]
        await request.reply(200, self.service.shared.signer.public_keys(), JSON, headers)

    # --- pages for people ---------------------------------------------------------------------------------------------

    async def _root(self, request: AsgiRequest) -> None:
        if request.verb not in ("GET", "HEAD"):
            await reply_error(request, Version.V1_0, MethodNotAllowedError(["GET", "HEAD", "POST"]))
        elif request.accepts_html():
            await self._show(Site.show_docs, request)
        else:
            card = f"{request.base_url}/.well-known/agent-card.json"
            error = MethodNotFoundError(f"This URL accepts JSON-RPC with POST; the agent card is at {card}")
            await reply_error(request, Version.V1_0, error)

    async def show_openapi(self, request: AsgiRequest) -> None:
        await request.reply(200, _with_url(self._cached_pages()[0], request.base_url))

    async def show_docs(self, request: AsgiRequest) -> None:
        headers = [
            (b"content-security-policy", docs_page.CONTENT_SECURITY_POLICY.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        await request.reply(200, _with_url(self._cached_pages()[1], request.base_url), HTML, headers)

    def _cached_pages(self) -> tuple[bytes, bytes]:
        """The OpenAPI document and the documentation page. They take milliseconds to build, so all hosts share them."""
        shared = self.service.shared
        key = (self.service, shared.grpc_target(PLACEHOLDER_URL))
        return shared.pages.get(key, lambda: _made_pages(self.service.cards.card(PLACEHOLDER_URL)))


async def reply_card(request: AsgiRequest, document: CardDocument, *, cache: bytes, vary: bytes) -> None:
    """Reply with a card, or say that the caller has it. `cache` and `vary` are the headers that say who may keep it."""
    headers: list[Header] = [
        (b"etag", document.etag.encode()),
        (b"last-modified", format_datetime(document.modified, usegmt=True).encode()),
        (b"cache-control", cache),
        (b"vary", vary),
    ]
    if document.is_known(request.headers.get("if-none-match"), request.headers.get("if-modified-since")):
        await request.start_reply(304, headers)  # without a length: RFC 9110 section 8.6
        await request.send_chunk(b"", is_last=True)
    else:
        await request.reply(200, document.body, JSON, headers)


def _made_pages(card: AgentCard) -> tuple[bytes, bytes]:
    document = openapi.document(card, base_url=PLACEHOLDER_URL)
    return document, docs_page.render(card, document, PLACEHOLDER_URL)


PAGES: Mapping[str, Page] = {
    "/.well-known/agent-card.json": Site.show_card,
    "/.well-known/agent.json": Site.show_card_for_0_2,
    "/agent/authenticatedExtendedCard": Site.show_extended_card,
    KEYS_PATH: Site.show_keys,
    "/openapi.json": Site.show_openapi,
    "/docs": Site.show_docs,
}


PLACEHOLDER_URL = "https://agent.invalid"
"""The agent's URL in cached pages; it is replaced with the URL of the request."""


def _with_url(page: bytes, base_url: str) -> bytes:
    url = quote(base_url, safe=":/[]")
    page = page.replace(PLACEHOLDER_URL.encode(), url.encode())
    return page.replace(host_of(PLACEHOLDER_URL).encode(), host_of(url).encode())


class ExtendedCardNotConfiguredHere(ExtendedCardNotConfiguredError):
    """The agent has no extended card"""

    row = MethodNotFoundError.row
