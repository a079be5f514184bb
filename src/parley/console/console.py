"""The console of a server: it answers everything below `/console`, and resolves sessions for all other requests.

`App` calls it through `parley.server.contracts.ServerConsole`. A session is a cookie together with a CSRF token in a
header: the credentials that the session keeps are put into the request, which is then authenticated like any other.

What belongs to one part of the console, such as the remote agents of all sessions, is kept by `shared`: it is made when
it is first needed, and closed with the console.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from parley.console.api.errors import ConsoleError, reply_console_error
from parley.console.api.matching import ConsoleRouteTable
from parley.console.api.route import ConsoleAnswer, ConsoleCall, Handler
from parley.console.api.table import MOUNTS, ROUTES
from parley.console.backend import ConsoleBackend, ConsoleCaller
from parley.console.once_links import VALID_SECONDS, OnceLinks
from parley.console.recent_failures import RecentFailures
from parley.console.same_origin import check_same_origin
from parley.console.session_cookie import read_cookie, remove_cookie
from parley.console.sessions import Session, SessionCredentials, Sessions
from parley.console.settings import ConsoleSettings
from parley.console.static_files import SECURITY_HEADERS, StaticFiles
from parley.console.streams.pages import Pages
from parley.engine.store_errors import translated
from parley.protocol.errors import UnauthenticatedError
from parley.server.bindings.failures import ClientDisconnected
from parley.server.bindings.http import AsgiRequest
from parley.server.contracts import CONSOLE_PATH, CSRF_HEADER

S = TypeVar("S")

API_PATH = "/api/"

logger = logging.getLogger(__name__)

_encoder = msgspec.json.Encoder()


class Console:
    """The console of one server. Its parts keep what all sessions share with `shared(Kind)`."""

    def __init__(
        self,
        backend: ConsoleBackend,
        settings: ConsoleSettings | None = None,
        *,
        files: StaticFiles | None = None,
    ) -> None:
        app = backend.app
        self.backend = backend
        self.settings = settings or ConsoleSettings()
        self.files = files or StaticFiles()
        self.sessions = Sessions(app.store.records, app.local_engine.clock)
        self.once_links = OnceLinks(app.store.records, app.local_engine.clock)
        self.failures = RecentFailures()
        self.pages = Pages(self)
        self.link_seconds = VALID_SECONDS
        self._routes = ConsoleRouteTable(ROUTES)
        self._shared: dict[Callable[[Console], Any], Any] = {}

    async def __aenter__(self) -> Console:
        """Begin to serve pages."""
        self.pages.start()
        self.failures.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close what is shared, the last first."""
        self.pages.stop()
        self.failures.close()
        for one in reversed(tuple(self._shared.values())):
            close = getattr(one, "close", None)
            if close is not None and inspect.isawaitable(closing := close()):
                await closing
        self._shared.clear()

    def drain(self) -> None:
        """End the streams of all pages, and tell them to come back."""
        self.pages.drain()

    def shared(self, kind: Callable[[Console], S]) -> S:
        """What all sessions share of one kind: `kind(console)`, made when it is first needed.

        If it has a method `close`, that is called, and awaited, when the console stops.

        Example: `call.console.shared(Checks).start(agent)`
        """
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind(self)
        return cast("S", found)

    async def create_link(self, purpose: str | None) -> str:
        """The code of a link that logs a browser in, once. Raises ConsoleError if the server has no such links."""
        return await self.once_links.create(self.backend.check_link(purpose))

    # --- requests -----------------------------------------------------------------------------------------------------

    async def answer(self, request: AsgiRequest) -> bool:
        """Answer a request below `/console`, or put the credentials of its session into any other one."""
        path = request.path.removeprefix(CONSOLE_PATH)
        is_own = request.path.startswith(CONSOLE_PATH) and path[:1] in ("", "/")
        try:
            if not is_own:
                request.hide_challenges()
                await self._resolve_session(request)
                return False
            await self._answer_own(request, path)
        except ClientDisconnected:
            return True
        except Exception as error:  # here a request ends
            await reply_console_error(request, error)
        return True

    async def _answer_own(self, request: AsgiRequest, path: str) -> None:
        if not path:
            # Relative, because the app may be mounted anywhere.
            await request.reply(308, b"", b"text/plain", [(b"location", b"console/"), *SECURITY_HEADERS])
            return
        if path.startswith(API_PATH):
            check_same_origin(request)
            route, parameters = self._routes.find(request.verb, path.removeprefix("/api"))
            session = await self._session_of(request, reads_cookie=route.reads_cookie)
            caller = await self._caller_of(request, is_needed=route.needs_caller)
            call = ConsoleCall(self, request, parameters, session, caller)
            await self._call(call, route.handler, streams=route.streams)
            return
        for mount in MOUNTS:
            if path.startswith(mount.prefix):
                rest = {"rest": path.removeprefix(mount.prefix)}
                if mount.needs_no_csrf:
                    session, caller = self.sessions.for_program(), None
                else:
                    check_same_origin(request)
                    session = await self._session_of(request)
                    caller = await self._caller_of(request, is_needed=mount.needs_caller)
                await self._call(ConsoleCall(self, request, rest, session, caller), mount.handler, streams=True)
                return
        await self.files.answer(request, path.removeprefix("/"))

    async def _call(self, call: ConsoleCall, handler: Handler, *, streams: bool) -> None:
        """Call a handler within the limits of its caller. A stream does not count as a request while it is open."""
        shared, address = self.backend.app.shared, call.request.address
        name = "" if call.caller_or_none is None else call.caller_or_none.identity.name
        admit = shared.throttle.admit_stream if streams else shared.throttle.admit
        with admit(name, address), translated:
            answer = await handler(call)
        if answer is not None:
            await self._reply(call.request, answer)

    async def _reply(self, request: AsgiRequest, answer: ConsoleAnswer) -> None:
        """Send an answer. The memory of a long one is bounded."""
        body = answer.body if isinstance(answer.body, bytes) else _encoder.encode(answer.body)
        given = {name for name, _ in answer.headers}
        defaults = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
        headers = [*answer.headers, *[header for header in defaults if header[0] not in given]]
        if answer.status != 200:
            await request.reply(answer.status, body, answer.content_type.encode(), headers)
            return
        bodies = self.backend.app.shared.bodies
        reserved = request.reserve_reply(bodies, body)
        await request.reply_long(bodies, reserved, body, answer.content_type.encode(), headers)

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def identify(self, request: AsgiRequest) -> tuple[Session, ConsoleCaller]:
        """The session and the caller of a request, whose credentials are put into it.

        Raises:
            ConsoleError, UnauthenticatedError, PermissionDeniedError, RateLimitedError, UnavailableError: the caller is
                not admitted.
        """
        session = await self._session_of(request)
        return session, await self.backend.authenticate(request)

    async def _session_of(self, request: AsgiRequest, *, reads_cookie: bool = False) -> Session:
        """The session of a request to the console itself. One with a wrong token is refused, so that the page learns
        of it."""
        has_token = CSRF_HEADER in request.headers
        session = await self._resolve_session(request, reads_cookie=reads_cookie)
        if session is not None:
            return session
        if has_token and not reads_cookie:
            raise ConsoleError("unauthenticated", "The session has ended; ask for GET /console/api/session again")
        return self.sessions.for_program()

    async def _resolve_session(self, request: AsgiRequest, *, reads_cookie: bool = False) -> Session | None:
        """Put the credentials of the session into a request, if it has one; without its CSRF token, it has none."""
        given, secret = request.headers.get(CSRF_HEADER), read_cookie(request)
        if secret is None or not (reads_cookie or (given is not None and secret.has_csrf(given))):
            remove_cookie(request)
            return None
        check_same_origin(request)
        session = await self.sessions.find(secret)
        self.present(request, session.content.credentials, session.content.tenant)
        return session

    def present(self, request: AsgiRequest, credentials: SessionCredentials, tenant: str | None) -> None:
        """Put credentials into a request, and take the cookie out of it."""
        remove_cookie(request)
        headers = dict(credentials.headers)
        if tenant is not None:
            headers.update(self.backend.tenant_headers(tenant))
        if credentials.cookies:
            own = [request.headers["cookie"]] if "cookie" in request.headers else []
            headers["cookie"] = "; ".join([*own, *[f"{name}={text}" for name, text in credentials.cookies.items()]])
        request.present(headers, credentials.query)

    async def _caller_of(self, request: AsgiRequest, *, is_needed: bool) -> ConsoleCaller | None:
        try:
            return await self.backend.authenticate(request)
        except UnauthenticatedError:
            if is_needed:
                raise ConsoleError("unauthenticated", "Log in first") from None
            return None
