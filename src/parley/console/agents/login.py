"""Logging in at an agent for a session, with what its card declares: a form, a redirect, a device code.

`parley.client.credentials` does what OAuth is; here are only the steps, which are requests of the page. Secrets go to
the agent's origin and to the authorization server that its card, that server's metadata or the person names, and are in
no reply.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import uuid4

from msgspec import Struct, structs

from parley.client.client import Client
from parley.client.credentials.oauth import (
    UNKNOWN_SERVER,
    AuthorizationServer,
    Endpoints,
    RefusedError,
    UnansweredError,
    find_endpoints,
)
from parley.client.credentials.oauth_client import Flow as OAuthFlowName
from parley.client.credentials.oauth_client import OAuthClient
from parley.client.credentials.origins import origin_of
from parley.client.credentials.schemes import accepts_tokens, fields_for, kinds_of, normalized_kind
from parley.client.credentials.token_store import Login, Tokens
from parley.client.errors import ClientError, CredentialsError
from parley.client.guard import read_target
from parley.client.options import Timeouts
from parley.client.transports.connections import Connections
from parley.console.agents.added import RemoteAgentEntry
from parley.console.agents.connection import TIMEOUTS, session_credentials
from parley.console.agents.connections import RemoteConnections
from parley.console.agents.logins import forget_logins, in_memory, keep_login, logins_of
from parley.console.agents.pending import (
    REDIRECT_SECONDS,
    PendingLogin,
    drop_pending,
    find_device,
    keep_pending,
    take_redirect,
)
from parley.console.agents.schemes import FLOWS, MUTUAL_TLS, oauth_flows, schemes_of
from parley.console.api.errors import ConsoleError
from parley.console.scheme_views import Flow
from parley.console.sessions import Session
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityScheme,
)
from parley.protocol.errors import ParleyError, PermissionDeniedError, TaskNotFoundError, UnauthenticatedError
from parley.protocol.requests import GetTaskRequest

if TYPE_CHECKING:
    from parley.console.console import Console

MOST_VALUE = 16_384
VERIFY_SECONDS = 15.0


class LoginBody(Struct, frozen=True):
    """What the page sends to log in."""

    scheme: str
    values: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    flow: Flow | None = None
    """Which way to take, of those that the scheme has; by default the first."""
    poll: bool = False


class LoginReply(Struct, frozen=True, omit_defaults=True):
    """What the page has to do next."""

    state: Literal["done", "redirect", "device", "waiting"]
    url: str | None = None
    code: str | None = None
    interval: float | None = None


class OAuthAnswer(Struct, frozen=True):
    """The query with which an authorization server has sent the browser back."""

    state: str
    code: str | None = None
    iss: str | None = None
    error: str | None = None
    error_description: str | None = None


class LoginView(Struct, frozen=True):
    """Whether an agent needs a login, and whether the session has one."""

    is_required: bool
    is_logged_in: bool
    scheme: str


TokenScheme: TypeAlias = OAuth2Scheme | OpenIdConnectScheme


class AgentLogins:
    """Logs sessions of a console in at agents."""

    def __init__(self, console: Console) -> None:
        self._connections = console.shared(RemoteConnections)

    async def login(
        self, session: Session, entry: RemoteAgentEntry, card: AgentCard | None, body: LoginBody, *, redirect_uri: str
    ) -> LoginReply:
        """Log in, or begin to.

        Raises:
            ConsoleError: a value is wrong (`bad_request`), or the agent or its authorization server refuses.
        """
        scheme = schemes_of(card).get(body.scheme)
        if scheme is None:
            raise ConsoleError("bad_request", "The agent has no such scheme", path="$.scheme")
        if isinstance(scheme, MutualTlsScheme):
            raise ConsoleError("unsupported", MUTUAL_TLS, path="$.scheme")
        _check_values(body.values)
        with _translated():
            if body.poll:
                return await self._poll(session, entry, body.scheme)
            if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme) and not body.values.get("token"):
                return await self._begin(session, entry, card, scheme, body, redirect_uri)
            issuer_named = accepts_tokens(scheme) and body.values.get("client_id")
            if issuer_named and not body.values.get("token"):
                return await self._begin(session, entry, card, UNKNOWN_SERVER, body, redirect_uri)
            secret = _secret(scheme, body.values)
            fields_for(body.scheme, scheme, secret, AgentInterface(entry.url, Binding.JSONRPC, ""))
            kind = kinds_of(scheme)[0]
            login = Login(origin=origin_of(entry.url), scheme=body.scheme, kind=kind, secret=secret)
            return await self._finish(session, entry, login)

    async def _begin(
        self,
        session: Session,
        entry: RemoteAgentEntry,
        card: AgentCard | None,
        scheme: TokenScheme,
        body: LoginBody,
        redirect_uri: str,
    ) -> LoginReply:
        """Get tokens, or begin what a person must finish."""
        flow = _chosen_flow(scheme, body)
        client = _client(body.values)
        if flow is OAuthFlowName.CLIENT_CREDENTIALS and client.client_secret is None:
            raise ConsoleError("bad_request", "The client secret is missing", path="$.values.client_secret")
        async with self._authorization_connections(entry, client) as connections:
            endpoints = await find_endpoints(
                connections.channel,
                scheme,
                flow,
                client=client,
                trusted=frozenset({origin_of(entry.url)}),
                check=lambda url: connections.guard.check_interface(url, card_url=entry.url),
            )
            scopes = _scopes(scheme, endpoints, card, body, flow)
            server = AuthorizationServer(connections.channel, client, endpoints)
            pending = PendingLogin(
                agent=entry.id,
                url=entry.url,
                scheme=body.scheme,
                client=client,
                endpoints=endpoints,
                scopes=scopes,
                expires_at=time.time() + REDIRECT_SECONDS,
            )
            match flow:
                case OAuthFlowName.CLIENT_CREDENTIALS:
                    tokens = await server.client_credentials(scopes)
                    return await self._finish(session, entry, _login_with(pending, tokens, flow))
                case OAuthFlowName.AUTHORIZATION_CODE:
                    request = server.start_authorization(redirect_uri, scopes)
                    await keep_pending(session, structs.replace(pending, redirect=request))
                    return LoginReply("redirect", request.url)
                case OAuthFlowName.DEVICE_CODE:
                    code = await server.start_device(scopes)
                    await keep_pending(session, structs.replace(pending, device=code, expires_at=code.expires_at))
                    return LoginReply(
                        "device", code.complete_url or code.verification_url, code.user_code, code.interval
                    )

    async def _poll(self, session: Session, entry: RemoteAgentEntry, scheme: str) -> LoginReply:
        """Ask once whether the person has confirmed the device code."""
        pending = find_device(session, entry.id, scheme)
        if pending is None or pending.device is None or pending.url != entry.url:
            raise ConsoleError("conflict", "There is no login to wait for: it has expired, or was never begun")
        code, now = pending.device, time.time()
        if now < pending.next_poll:  # RFC 8628: not more often than the interval
            return LoginReply("waiting", interval=code.interval)
        async with self._authorization_connections(entry, pending.client) as connections:
            server = AuthorizationServer(connections.channel, pending.client, pending.endpoints)
            try:
                tokens = await server.redeem_device(code, pending.scopes)
            except RefusedError as error:
                if error.error == "slow_down":
                    code = replace(code, interval=code.interval + 5)
                elif error.error != "authorization_pending":
                    await drop_pending(session, pending)
                    raise
            except UnansweredError:
                pass
            else:
                await drop_pending(session, pending)
                return await self._finish(session, entry, _login_with(pending, tokens, OAuthFlowName.DEVICE_CODE))
        # Half a second less: pages count the interval from the reply.
        later = structs.replace(pending, device=code, next_poll=time.time() + code.interval - 0.5)
        await keep_pending(session, later)
        return LoginReply("waiting", interval=code.interval)

    async def redeem(self, session: Session, answer: OAuthAnswer) -> PendingLogin:
        """Finish the login that this session has begun with a state. The entry of its agent is still to be found.

        Raises:
            ConsoleError: this session has begun no such login, or it has expired or was finished.
        """
        pending = await take_redirect(session, answer.state)
        if pending is None:
            message = "This login was not begun in this session, has expired, or is finished; begin it again"
            raise ConsoleError("conflict", message, path="$.state")
        return pending

    async def finish_redirect(
        self, session: Session, entry: RemoteAgentEntry, pending: PendingLogin, answer: OAuthAnswer
    ) -> LoginReply:
        """Exchange the code of a redirect for tokens. Raises ConsoleError if the authorization server refuses."""
        assert pending.redirect is not None
        given = {name: value for name, value in structs.asdict(answer).items() if isinstance(value, str)}
        with _translated():
            async with self._authorization_connections(entry, pending.client) as connections:
                server = AuthorizationServer(connections.channel, pending.client, pending.endpoints)
                tokens = await server.finish_authorization(pending.redirect, given, pending.scopes)
            login = _login_with(pending, tokens, OAuthFlowName.AUTHORIZATION_CODE)
            return await self._finish(session, entry, login)

    async def logout(self, session: Session, entry: RemoteAgentEntry) -> None:
        """Forget what the session has for the agent's origin."""
        await forget_logins(session, origin_of(entry.url))
        await self._connections.drop(session, entry.id)

    def view(self, session: Session, entry: RemoteAgentEntry, *, is_required: bool) -> LoginView:
        """Whether the session has a login for an agent."""
        logins = logins_of(session, origin_of(entry.url))
        return LoginView(is_required, bool(logins), logins[-1].scheme if logins else "")

    async def _finish(self, session: Session, entry: RemoteAgentEntry, login: Login) -> LoginReply:
        """Keep a login, unless the agent refuses it."""
        others = [one for one in logins_of(session, login.origin) if one.scheme != login.scheme]
        await self._verify(entry, (*others, login))
        await keep_login(session, login)
        await self._connections.drop(session, entry.id)
        return LoginReply("done")

    async def _verify(self, entry: RemoteAgentEntry, logins: Sequence[Login]) -> None:
        """Make a call that changes nothing. Raises ConsoleError if the agent refuses the credentials."""
        timeouts = Timeouts(reply=VERIFY_SECONDS, read=VERIFY_SECONDS, card=TIMEOUTS.card)
        client = Client(
            entry.url,
            credentials=session_credentials(in_memory(logins)),
            guard=self._connections.guard(entry),
            timeouts=timeouts,
        )
        try:
            async with client:
                if client.card.capabilities.extended_card:
                    await client.get_extended_card()
                else:
                    await client.get_task(GetTaskRequest(str(uuid4())))
        except UnauthenticatedError as error:
            raise ConsoleError("agent_error", f"The agent refused the login: {error.message[:300]}") from error
        except (PermissionDeniedError, TaskNotFoundError):
            return  # the caller is authenticated
        except ParleyError:
            return  # it is unknown; the next call will show it

    @asynccontextmanager
    async def _authorization_connections(
        self, entry: RemoteAgentEntry, client: OAuthClient
    ) -> AsyncGenerator[Connections]:
        """Connections to authorization servers, which the guard of the agent allows."""
        connections = Connections(guard=self._connections.guard(entry), timeouts=TIMEOUTS)
        try:
            connections.trust(entry.url)
            if client.issuer:
                # A person names it, also where the operator has named the agent.
                by_person = self._connections.policy.guard()
                by_person.check_named(client.issuer)
                if by_person.trust_named:
                    connections.trust_address(read_target(client.issuer).host)
            yield connections
        finally:
            await connections.close()


# --- values -----------------------------------------------------------------------------------------------------------


class _translated:
    """Turns errors of the agent and of authorization servers into errors of the console. They hold no secrets."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RefusedError | UnansweredError):
            raise ConsoleError("agent_error", error.message) from error
        if isinstance(error, CredentialsError):
            raise ConsoleError("bad_request", error.message, path="$.values") from error
        if isinstance(error, ClientError):
            raise ConsoleError("agent_error", error.message) from error


def _check_values(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if len(value) > MOST_VALUE:
            raise ConsoleError(
                "bad_request", f"A value may have up to {MOST_VALUE} characters", path=f"$.values.{name}"
            )


def _secret(scheme: SecurityScheme, values: Mapping[str, str]) -> str:
    """The secret in the values of a form. Raises ConsoleError if it is missing."""
    if isinstance(scheme, HttpAuthScheme) and normalized_kind(scheme.scheme) == "basic":
        user, password = values.get("username", ""), values.get("password", "")
        if not user or not password:
            raise ConsoleError("bad_request", "The user name or the password is missing", path="$.values")
        return f"{user}:{password}"
    secret = (values.get("token") or values.get("key") or "").strip()
    if not secret:
        raise ConsoleError("bad_request", "The value is missing", path="$.values")
    return secret


def _client(values: Mapping[str, str]) -> OAuthClient:
    client_id = values.get("client_id", "").strip()
    if not client_id:
        message = "Give the id of a client that the authorization server knows, or an access token"
        raise ConsoleError("bad_request", message, path="$.values.client_id")
    return OAuthClient(client_id, values.get("client_secret") or None, values.get("issuer", "").strip() or None)


def _chosen_flow(scheme: TokenScheme, body: LoginBody) -> OAuthFlowName:
    offered = list(FLOWS) if scheme is UNKNOWN_SERVER else oauth_flows(scheme)
    wanted = [one for one in offered if body.flow in (None, FLOWS[one])]
    if not wanted:
        raise ConsoleError("unsupported", "The agent offers no such flow of OAuth 2.0", path="$.flow")
    return wanted[0]


def _scopes(
    scheme: TokenScheme, endpoints: Endpoints, card: AgentCard | None, body: LoginBody, flow: OAuthFlowName
) -> tuple[str, ...]:
    """The scopes to request: those chosen or demanded, and for a person a refresh token where the server has some."""
    demanded = () if card is None else next((one[body.scheme] for one in card.security if body.scheme in one), ())
    extra: list[str] = []
    if flow is not OAuthFlowName.CLIENT_CREDENTIALS:
        extra += ["openid"] if isinstance(scheme, OpenIdConnectScheme) else []
        extra += ["offline_access"] if "offline_access" in endpoints.scopes_supported else []
    return tuple(dict.fromkeys((*(body.scopes or demanded), *extra)))


def _login_with(pending: PendingLogin, tokens: Tokens, flow: OAuthFlowName) -> Login:
    return Login(
        origin=origin_of(pending.url),
        scheme=pending.scheme,
        kind=flow.value,
        tokens=tokens,
        token_url=pending.endpoints.token_url,
        client_id=pending.client.client_id,
        client_secret=pending.client.client_secret,
        secret_in_body=pending.endpoints.secret_in_body,
        resource=pending.client.resource,
    )
