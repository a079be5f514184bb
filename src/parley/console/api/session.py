"""Sessions: who the page acts as, logging in and out, and the tenant that an operator acts for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from parley import __version__
from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleAnswer, ConsoleCall, ConsoleRoute
from parley.console.backend import ConsoleCaller
from parley.console.scheme_views import SchemeView, credentials_from_form, view_scheme
from parley.console.session_cookie import delete_cookie, set_cookie
from parley.console.sessions import Session, SessionContent, SessionCredentials
from parley.protocol.errors import UnauthenticatedError
from parley.server.bindings.failures import Header


class ServerView(Struct, frozen=True):
    """The server that the console is part of."""

    kind: str
    name: str
    version: str
    url: str


class SessionCallerView(Struct, frozen=True):
    """Who the page acts as. An anonymous caller of an open server has no name."""

    name: str
    tenant: str
    tenant_name: str
    scopes: Sequence[str]
    is_operator: bool


class SessionView(Struct, frozen=True):
    """The session as the page sees it."""

    csrf: str
    server: ServerView
    is_logged_in: bool
    needs_login: bool
    caller: SessionCallerView | None
    schemes: Sequence[SchemeView]
    features: Sequence[str]
    build: str


class SessionLoginBody(Struct, frozen=True):
    """The code of a link, or a scheme with the values of its form.

    `tenant` is for people who have access to several tenants of a host.
    """

    once: str | None = None
    scheme: str | None = None
    values: dict[str, str] = {}
    tenant: str | None = None


class TenantBody(Struct, frozen=True):
    """The tenant that an operator acts for from now on."""

    tenant: str | None = None


class NewLinkBody(Struct, frozen=True):
    """The tenant that a link logs in as; without one, the first."""

    tenant: str | None = None


class NewLinkView(Struct, frozen=True):
    """A link that logs a browser in, once."""

    url: str
    expires_in_seconds: int


async def show_session(call: ConsoleCall) -> ConsoleAnswer:
    """The session, which is begun if there is none."""
    session, headers = call.session, list[Header]()
    if session.secret is None:
        session = call.console.sessions.begin()
        headers.append(_cookie(call, session))
    return _answer(call, session, call.caller_or_none, headers)


async def log_in(call: ConsoleCall) -> ConsoleAnswer:
    """Log in with a link or a scheme. The session gets a new secret."""
    body = await call.read(SessionLoginBody)
    before = call.session
    if before.secret is None:
        raise ConsoleError("forbidden", "Logging in needs a session: ask for GET /console/api/session first")
    credentials = await _credentials(call, body)
    try:
        caller = await _authenticated(call, credentials, body.tenant)
    except Exception:
        await call.backend.forget(credentials)  # those that a link has made are of no more use
        raise
    # What one caller has kept is not for the next one.
    values = before.content.values if not before.content.credentials else {}
    content = SessionContent(credentials, body.tenant, values, caller=caller.identity.name)
    session = await call.console.sessions.renew(before, content)
    await _forget(call, before)
    return _answer(call, session, caller, [_cookie(call, session)])


async def log_out(call: ConsoleCall) -> ConsoleAnswer:
    """End the session. The credentials of a link are revoked."""
    await call.console.sessions.end(call.session)
    await _forget(call, call.session)
    return ConsoleAnswer({}, headers=(delete_cookie(call.request),))


async def choose_tenant(call: ConsoleCall) -> ConsoleAnswer:
    """Let an operator act for a tenant, or for none."""
    body = await call.read(TenantBody)
    if not call.caller.is_operator:
        raise ConsoleError("forbidden", "Only operators choose a tenant")
    caller = await _authenticated(call, call.session.content.credentials, body.tenant)
    await call.session.set_tenant(body.tenant)
    return _answer(call, call.session, caller, [])


async def create_link(call: ConsoleCall) -> ConsoleAnswer:
    """A link that logs a browser in as a tenant, for an operator."""
    body = await call.read(NewLinkBody)
    if not call.caller.is_operator:
        raise ConsoleError("forbidden", "Only operators create links")
    code = await call.console.create_link(body.tenant or call.caller.tenant or None)
    return ConsoleAnswer(NewLinkView(f"{call.request.base_url}/console/#once={code}", call.console.link_seconds), 201)


async def _credentials(call: ConsoleCall, body: SessionLoginBody) -> SessionCredentials:
    """The credentials that a body stands for, not verified yet. Wrong codes count like wrong credentials."""
    if body.once is not None:
        shared = call.backend.app.shared
        shared.throttle.check_address(call.request.address)
        try:
            return await call.backend.redeem_link(await call.console.once_links.use(body.once))
        except ConsoleError as error:
            if error.code == "unauthenticated":
                shared.throttle.count_refusal(call.request.address)
            raise
    scheme = call.backend.schemes.get(body.scheme or "")
    if scheme is None:
        raise ConsoleError("bad_request", "The server has no such scheme", path="$.scheme")
    return credentials_from_form(body.scheme or "", scheme, body.values)


async def _authenticated(call: ConsoleCall, credentials: SessionCredentials, tenant: str | None) -> ConsoleCaller:
    """The caller that credentials stand for. Raises as `ConsoleBackend.authenticate` does."""
    probe = call.request.repeated()
    call.console.present(probe, credentials, tenant)
    try:
        caller = await call.backend.authenticate(probe)
    except UnauthenticatedError:
        raise ConsoleError("unauthenticated", "The server does not accept these credentials") from None
    if caller.is_anonymous:
        raise ConsoleError("unauthenticated", "The server does not accept these credentials")
    if tenant is not None and caller.tenant != tenant:
        raise ConsoleError("not_found", "There is no such tenant, or it is disabled", path="$.tenant")
    return caller


async def _forget(call: ConsoleCall, session: Session) -> None:
    """Revoke the credentials that a link has made."""
    if session.content.credentials:
        await call.backend.forget(session.content.credentials)


def _cookie(call: ConsoleCall, session: Session) -> Header:
    assert session.secret is not None
    return set_cookie(call.request, session.secret)


def _answer(
    call: ConsoleCall, session: Session, caller: ConsoleCaller | None, headers: Sequence[Header]
) -> ConsoleAnswer:
    backend = call.backend
    assert session.secret is not None
    view = SessionView(
        csrf=session.secret.csrf,
        server=ServerView(backend.kind, backend.name, __version__, call.request.base_url),
        is_logged_in=caller is not None and not caller.is_anonymous,
        needs_login=backend.needs_login,
        caller=None if caller is None else _view_caller(caller),
        schemes=[view_scheme(name, scheme) for name, scheme in backend.schemes.items()],
        features=backend.features(caller),
        build=call.console.files.build,
    )
    return ConsoleAnswer(view, headers=tuple(headers))


def _view_caller(caller: ConsoleCaller) -> SessionCallerView:
    return SessionCallerView(caller.name, caller.tenant, caller.tenant_name, sorted(caller.scopes), caller.is_operator)


ROUTES = [
    ConsoleRoute("GET", "/session", show_session, needs_caller=False, reads_cookie=True),
    ConsoleRoute("POST", "/session/login", log_in, needs_caller=False),
    ConsoleRoute("POST", "/session/logout", log_out, needs_caller=False),
    ConsoleRoute("POST", "/session/tenant", choose_tenant),
    ConsoleRoute("POST", "/links", create_link),
]
