"""Everything below the URL of a hosted agent: the documented dispatch, its card, and HTTP+JSON."""

from __future__ import annotations

from parley.host.a2a.cards import REST_PATH
from parley.host.a2a.dispatch import DispatchEndpoint
from parley.host.errors import MethodNotAllowed, PathNotFound
from parley.server.bindings.http import AsgiRequest
from parley.server.pages.owner_data import DATA_PATH
from parley.server.security.credentials import Identity
from parley.server.service import Service
from parley.server.site import Site, reply_card

CARD_PATHS = ("/agent-card.json", "/.well-known/agent-card.json")
"""The documented path, and the one that SDKs look at below the URL of an agent."""

PRIVATE_SECONDS = 60
"""How long a caller may use a card without asking again."""


class HostedSite:
    """The URL space of one agent of a tenant, for authenticated callers."""

    __slots__ = ("_dispatch", "site")

    def __init__(self, service: Service) -> None:
        self.site = Site(service)
        self._dispatch = DispatchEndpoint(service, service.shared)

    async def __call__(self, request: AsgiRequest, path: str, identity: Identity) -> None:
        """Answer a request; `path` is relative to the agent's URL.

        Raises:
            MethodNotAllowed, PathNotFound: the path has no such method, or there is no such path.
        """
        if path == "":
            if request.verb != "POST":
                raise MethodNotAllowed("POST")
            await self._dispatch(request, identity)
        elif path in CARD_PATHS:
            if request.verb not in ("GET", "HEAD"):
                raise MethodNotAllowed("GET", "HEAD")
            await self._show_card(request)
        elif path == DATA_PATH:
            await self.site(request, path)
        elif path.startswith(f"{REST_PATH}/"):
            await self.site(request, path.removeprefix(REST_PATH))
        else:
            raise PathNotFound

    async def _show_card(self, request: AsgiRequest) -> None:
        await self.site.service.cards.prepare(request.base_url)
        document = self.site.service.cards.document(request.base_url)
        await reply_card(request, document, cache=b"private, max-age=%d" % PRIVATE_SECONDS, vary=b"Authorization, Host")
