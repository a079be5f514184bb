"""Everything below one agent's URL: its bindings, its cards, and the pages for people.

Paths are looked up in this order: JSON-RPC at the URL itself, the pages in the table, the deliveries to webhooks, and
then the REST routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from email.utils import format_datetime
from urllib.parse import quote

from parley.dialects.registry import DIALECTS
from parley.keys.signing_key import SigningKeys
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.errors import ExtendedCardNotConfiguredError, MethodNotFoundError
from parley.protocol.negotiation import read_version
from parley.protocol.operations import GET_EXTENDED_CARD
from parley.protocol.requests import GetExtendedCardRequest
from parley.protocol.versions import Version
from parley.server.bindings.failures import Header, as_wire_error
from parley.server.bindings.http import JSON, AsgiRequest, reply_error
from parley.server.bindings.jsonrpc import JsonRpcEndpoint
from parley.server.bindings.push_deliveries import PushDeliveriesEndpoint
from parley.server.bindings.rest import NO_STORE, RestEndpoint
from parley.server.pages import docs_page, openapi
from parley.server.pages.cards import PUBLIC_SECONDS, CardDocument, host_of
from parley.server.pages.owner_data import (
    DATA_PATH,
    VERBS,
    check_is_known,
    read_flag,
    read_selection,
    read_text,
    reply_deleted,
    reply_export,
)
from parley.server.pages.signer import KEYS_PATH, KEYS_SECONDS
from parley.server.service import Service
from parley.wire.rest import MethodNotAllowedError

HTML = b"text/html; charset=utf-8"

Page = Callable[["Site", AsgiRequest], Awaitable[None]]


class Site:
    """One agent's URL space."""

    __slots__ = ("_deliveries", "_jsonrpc", "_rest", "service")

    def __init__(self, service: Service) -> None:
        self.service = service
        self._jsonrpc = JsonRpcEndpoint(service)
        self._rest = RestEndpoint(service)
        self._deliveries = PushDeliveriesEndpoint(service)

    def __call__(self, request: AsgiRequest, path: str) -> Awaitable[None]:
        """Answer a request; `path` is relative to the agent's URL, which is the request's `base_url`."""
        if path in ("", "/"):
            return (self._jsonrpc if request.verb == "POST" else self._root)(request)
        page = PAGES.get(path)
        if path == DATA_PATH and self.service.shared.owner_data is not None:
            if request.verb not in VERBS:
                return reply_error(request, Version.V1_0, MethodNotAllowedError(VERBS))
            return self._show(Site.answer_owner_data, request)
        if page is None:
            return (self._deliveries if self._deliveries.has(path) else self._rest)(request, path)
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
        await self.service.cards.prepare(request.base_url)
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
        """The keys that verify the card's signatures."""
        await reply_keys(request, self.service.shared.signer)

    async def answer_owner_data(self, request: AsgiRequest) -> None:
        """Export or delete the caller's data with this agent."""
        service, operations = self.service, self.service.shared.owner_data
        assert operations is not None, "Only an app with an engine has this page"
        identity = await service.shared.authenticate(request.credentials, request.address)
        with service.shared.throttle.admit(identity.name, request.address):
            check_is_known(identity)
            caller = service.caller_of(identity, read_text(request.query, "tenant"))
            selection = read_selection(request.query, service.agent_id)
            if request.verb == "GET":
                await reply_export(request, operations.export(caller, selection))
            else:
                cancels = read_flag(request.query, "cancel")
                await reply_deleted(request, await operations.delete(caller, selection, cancels=cancels))

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
        document, _ = await self._cached_pages()
        await request.reply(200, _with_url(document, request.base_url))

    async def show_docs(self, request: AsgiRequest) -> None:
        headers = [
            (b"content-security-policy", docs_page.CONTENT_SECURITY_POLICY.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        _, page = await self._cached_pages()
        await request.reply(200, _with_url(page, request.base_url), HTML, headers)

    async def _cached_pages(self) -> tuple[bytes, bytes]:
        """The OpenAPI document and the documentation page. They take milliseconds to build, so all hosts share them."""
        shared = self.service.shared
        key = (self.service, shared.grpc_target(PLACEHOLDER_URL), shared.card_revision)
        if key not in shared.pages:
            await self.service.cards.prepare(PLACEHOLDER_URL)
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


async def reply_keys(request: AsgiRequest, signer: SigningKeys | None) -> None:
    """Reply with the public keys of a server. Raises MethodNotFoundError if it has none."""
    if signer is None:
        raise MethodNotFoundError("The card is not signed")
    headers = [(b"cache-control", b"public, max-age=%d" % KEYS_SECONDS)]
    await request.reply(200, signer.published(), JSON, headers)


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
