"""The secrets of a caller, and which of them go to which agent.

    credentials = Credentials({"bearer": token})
    credentials = Credentials({"company": OAuthClient("parley", secret, issuer="https://login.example")})
    async with Client("https://agents.example", credentials=credentials) as agent: …

A card lists alternatives, each a set of schemes that are needed together. The first alternative that the caller can
satisfy completely is used, and nothing of the others is sent. Secrets are bound to the origin of the URL that the
caller gave, and to the origins it adds; they never appear in texts, logs or errors. `schemes` puts secrets into
requests, `oauth` gets tokens. Spec: 1.0 sections 4.5 and 7; OpenAPI 3.1 section 4.8.30.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec import structs

from parley.client.credentials.challenges import RESOURCE_METADATA, missing_scopes
from parley.client.credentials.oauth import (
    UNKNOWN_SERVER,
    AuthorizationServer,
    Endpoints,
    RefusedError,
    find_endpoints,
    flow_of,
)
from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.credentials.origins import may_carry_secrets, origin_of
from parley.client.credentials.protected_resource import ProtectedResource, read_resource, scheme_of
from parley.client.credentials.schemes import (
    AuthFields,
    MissingSecret,
    Secret,
    accepts_tokens,
    bearer_fields,
    checked_header_name,
    checked_header_value,
    describe_scheme,
    fields_for,
    kinds_of,
    normalized_kind,
    resolve_scheme,
    with_fields,
)
from parley.client.credentials.token_cache import TokenCache
from parley.client.credentials.token_store import Login, LoginStore, Tokens
from parley.client.errors import CredentialsError, ForbiddenTargetError
from parley.client.transports.connections import Tls
from parley.client.transports.http import HttpChannel
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    HttpAuthScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)
from parley.protocol.errors import PermissionDeniedError, UnauthenticatedError

__all__ = ["ANY_ORIGIN", "BoundCredentials", "Credentials", "Secret", "SecretRequest", "SecretSource"]

ANY_ORIGIN = "*"
"""Among `origins`: secrets may go to every origin that the card names."""

MAX_DOCUMENTS = 3
"""Protected resource metadata that are read for one agent, whatever it answers."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SecretRequest:
    """A secret that an agent demands and the credentials do not hold; the caller's `source` is asked for it."""

    name: str
    scheme: SecurityScheme
    scopes: tuple[str, ...]
    origin: str
    """Where the secret will be sent."""
    was_refused: bool
    """Whether the agent refused the secret that the source gave last."""


SecretSource: TypeAlias = Callable[[SecretRequest], Awaitable[str | tuple[str, str] | OAuthClient | None]]
"""Called before each request for a secret that the credentials do not hold; None if it has none either."""


class Credentials:
    """Secrets by the name of a card's scheme, or by their kind.

    Kinds are `bearer`, `basic`, `api-key`, `oauth2`, `openid-connect`, `mutual-tls`, and any other HTTP scheme. A
    bearer token also serves OAuth2 and OpenID Connect. `source` is asked for secrets that are not among them; `store`
    holds logins of a person. `headers` are always sent, and replace what the card demands if there is nothing else.
    `origins` are further origins that may get the secrets, `"*"` for all that the card names. Several clients may
    share one object; they then share its tokens.
    """

    def __init__(
        self,
        secrets: Mapping[str, Secret] | None = None,
        *,
        source: SecretSource | None = None,
        store: LoginStore | None = None,
        headers: Mapping[str, str] | None = None,
        origins: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        """Raises CredentialsError if an origin is invalid, or a header cannot be sent."""
        self._secrets = dict(secrets or {})
        self._kinds = {normalized_kind(name): secret for name, secret in self._secrets.items()}
        self.source = source
        self.store = store
        self.headers = {
            checked_header_name(name): checked_header_value(name, value) for name, value in (headers or {}).items()
        }
        self.origins = frozenset(origin if origin == ANY_ORIGIN else origin_of(origin) for origin in origins)
        self.now = now
        self.tokens = TokenCache(now)

    def __repr__(self) -> str:
        return f"Credentials({sorted(self._secrets)})"

    @property
    def has_secrets(self) -> bool:
        """Whether there may be a secret for a scheme."""
        return bool(self._secrets) or self.source is not None or self.store is not None

    @property
    def tls(self) -> Tls | None:
        """The client certificate for mutual TLS, which the connections present."""
        return next((secret for secret in self._secrets.values() if isinstance(secret, Tls)), None)

    def get(self, name: str, scheme: SecurityScheme) -> Secret | None:
        """The secret for a scheme, by its name or else by its kind."""
        if name in self._secrets:
            return self._secrets[name]
        return next((self._kinds[kind] for kind in kinds_of(scheme) if kind in self._kinds), None)

    def bind(
        self,
        card: AgentCard,
        *,
        target_url: str | None,
        channel: HttpChannel,
        check: Callable[[str], None] = lambda url: None,
        trust: Callable[[str], None] = lambda url: None,
    ) -> BoundCredentials:
        """The credentials for one agent. `target_url` is the URL that the caller gave, or `"*"` to allow every origin.

        If the caller gave a card, the origin of its first interface is allowed. `channel` reaches authorization
        servers, `check` raises for URLs that a card must not name, `trust` is called with URLs that the caller named.
        """
        first = target_url or (card.interfaces[0].url if card.interfaces else None)
        origins = self.origins
        if first is not None:
            origins |= {first if first == ANY_ORIGIN else origin_of(first)}
        return BoundCredentials(self, card, origins, channel, check, trust)


@dataclass(frozen=True, slots=True)
class _UsedSecret:
    """A secret that can be replaced after a refusal: a token, or one from the caller's source."""

    name: str
    token: str | None = field(default=None, repr=False)
    """The token, or None if the secret came from the caller's source."""
    can_add_scopes: bool = False
    """Whether a token with more scopes could be fetched."""


@dataclass(frozen=True, slots=True)
class _LastRequest:
    """The secrets of a request, and which schemes were refused before it."""

    by: object = None
    used: tuple[_UsedSecret, ...] = ()
    refused: frozenset[str] = frozenset()
    url: str = ""
    """The interface that was called."""
    is_bare: bool = False
    """Whether it was sent without credentials, so that the refusal says where tokens come from."""


class UnknownServer(MissingSecret):
    """There is a client of an authorization server, but neither the caller nor the card says of which."""


# Of this asyncio task: a refusal concerns the request that was refused, not tokens that were fetched since.
_last: ContextVar[_LastRequest] = ContextVar("_last", default=_LastRequest())  # noqa: B039  it is frozen


class BoundCredentials:
    """Credentials for one agent: the `Authenticator` of its calls."""

    def __init__(
        self,
        credentials: Credentials,
        card: AgentCard,
        origins: frozenset[str],
        channel: HttpChannel,
        check: Callable[[str], None],
        trust: Callable[[str], None],
    ) -> None:
        self._credentials = credentials
        self._card = card
        self._origins = origins
        self._channel = channel
        self._check = check
        self._trust = trust
        self._refused: dict[str, str] = {}
        """By scheme, the token that the agent refused."""
        self._extra_scopes: dict[str, tuple[str, ...]] = {}
        """By scheme, scopes that the agent asked for beyond those of its card."""
        self._resource: ProtectedResource | None = None
        """What the agent has said of its tokens in a refusal, if the card says too little."""
        self._server: OAuth2Scheme | None = None
        """The authorization server that it has named then."""
        self._metadata_urls: set[str] = set()
        """The documents that were looked up: each once."""

    def __repr__(self) -> str:
        return f"BoundCredentials({self._credentials!r}, {sorted(self._origins)})"

    async def apply(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        """The same request with the credentials that the card demands.

        Raises:
            CredentialsError: they are missing, or not for the interface's origin.
            ForbiddenTargetError: the card names an authorization server that this client must not call.
        """
        last = _last.get()
        refused = last.refused if last.by is self else frozenset[str]()
        _last.set(_LastRequest(self, url=interface.url))
        if not self.may_send_to(interface.url):
            return self._without_credentials(options, interface)
        options = replace(options, headers={**options.headers, **self._credentials.headers})
        missing: list[str] = []
        is_server_unknown = False
        failures: list[CredentialsError | ForbiddenTargetError] = []
        for requirement in self._alternatives():
            try:
                proofs = [
                    await self._satisfy(name, scopes, interface, was_refused=name in refused)
                    for name, scopes in requirement.items()
                ]
                proven = with_fields(options, [piece for piece, _ in proofs])
            except MissingSecret as reason:
                missing.append(str(reason))
                is_server_unknown |= isinstance(reason, UnknownServer)
            except (CredentialsError, ForbiddenTargetError) as error:
                failures.append(error)
            else:
                used = tuple(used for _, used in proofs if used is not None)
                _last.set(_LastRequest(self, used, url=interface.url))
                return proven
        if failures:
            raise failures[0]  # why a secret does not work says more than which others are missing
        if is_server_unknown and not self._metadata_urls:
            _last.set(_LastRequest(self, url=interface.url, is_bare=True))
            return options
        if not self._is_demanded or self._credentials.headers:
            return options
        raise CredentialsError(f"The agent demands {', or '.join(dict.fromkeys(missing))}")

    async def renew(self, error: UnauthenticatedError | PermissionDeniedError) -> bool:
        """Learn from a refusal. Return True if another attempt with other credentials makes sense."""
        last = _last.get()
        if last.by is not self:  # another agent was called in between
            return False
        has_learned = await self._look_up(error, last)
        has_added = self._add_scopes(missing_scopes(error), last.used)
        if isinstance(error, PermissionDeniedError):
            return has_added
        self._refused.update({used.name: used.token for used in last.used if used.token is not None})
        _last.set(_LastRequest(self, refused=frozenset(used.name for used in last.used)))
        if last.is_bare and not has_learned:
            self._metadata_urls.add("")  # the next attempt fails with what is missing
        return bool(last.used) or last.is_bare

    async def _look_up(self, error: UnauthenticatedError | PermissionDeniedError, last: _LastRequest) -> bool:
        """Read the metadata that a refusal names, once. Return True if they name an authorization server."""
        url = error.details.get(RESOURCE_METADATA)
        if last.used and not missing_scopes(error):
            return False  # the token is the fault, and not where it comes from
        if url is None or url in self._metadata_urls or len(self._metadata_urls) >= MAX_DOCUMENTS:
            return False
        self._metadata_urls.add(url)
        try:
            if not self.may_send_to(url):
                if not may_carry_secrets(url):
                    return False
                self._check(url)
            self._resource = await read_resource(self._channel, url, last.url)
            self._server = await scheme_of(self._channel, self._resource, self._check)
        except (CredentialsError, ForbiddenTargetError) as problem:
            logger.warning("The agent's protected resource metadata cannot be used: %s", problem)
            return False
        return True

    def may_send_to(self, url: str) -> bool:
        """Whether secrets may be sent to a URL."""
        if ANY_ORIGIN in self._origins:
            return True
        # A bare gRPC target uses TLS if the URL that the caller gave for its host does: see `Guard.encrypts`.
        spellings = [url] if "://" in url else [f"http://{url}", f"https://{url}"]
        return any(origin_of(spelling) in self._origins for spelling in spellings)

    # --- what the card demands ----------------------------------------------------------------------------------------

    @property
    def _is_demanded(self) -> bool:
        return bool(self._card.security) and {} not in self._card.security

    def _alternatives(self) -> Sequence[SecurityRequirement]:
        """What the card accepts. If it demands nothing, every scheme that it declares is tried."""
        demanded = [requirement for requirement in self._card.security if requirement]
        if demanded or not self._credentials.has_secrets:
            return demanded
        declared: list[SecurityRequirement] = [{name: ()} for name in self._card.security_schemes]
        # Many cards declare no security at all. A bearer token or a password for the agent is sent anyway.
        return declared or [{"bearer": ()}, {"basic": ()}]

    def _without_credentials(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        if not self._is_demanded:
            return options
        allowed = " and ".join(sorted(self._origins)) or "no origin"
        raise CredentialsError(
            f"The credentials are for {allowed}, but the interface of the card is at {origin_of(interface.url)}. "
            f"If that is right, add it to origins"
        )

    def _scheme(self, name: str) -> SecurityScheme:
        declared = self._card.security_schemes.get(name)
        if declared is None and not self._card.security_schemes and not self._is_demanded:
            return HttpAuthScheme(name)
        if declared is None:
            raise MissingSecret(f"“{name}”, which the card does not declare")
        return resolve_scheme(declared)

    def _add_scopes(self, missing: Sequence[str], used: Sequence[_UsedSecret]) -> bool:
        """Request the missing scopes with the next token, if the card names them."""
        for one in used:
            known = self._extra_scopes.get(one.name, ())
            is_new = any(scope not in known for scope in missing)
            if one.can_add_scopes and is_new and self._declared_scopes(one.name).issuperset(missing):
                self._extra_scopes[one.name] = tuple(dict.fromkeys((*known, *missing)))
                return True
        return False

    def _declared_scopes(self, name: str) -> set[str]:
        """Every scope that the card names for a scheme: in its flow, its requirements and those of its skills."""
        scheme = self._card.security_schemes.get(name)
        flow = flow_of(scheme, Flow.CLIENT_CREDENTIALS) if isinstance(scheme, OAuth2Scheme) else None
        demanded = [*self._card.security, *(one for skill in self._card.skills for one in skill.security)]
        of_resource = self._resource.scopes if self._resource is not None else ()
        return {
            *of_resource,
            *(flow.scopes if flow else ()),
            *(scope for one in demanded for scope in one.get(name, ())),
        }

    # --- what the caller has ------------------------------------------------------------------------------------------

    async def _satisfy(
        self, name: str, scopes: tuple[str, ...], interface: AgentInterface, *, was_refused: bool
    ) -> tuple[AuthFields, _UsedSecret | None]:
        """What satisfies a scheme. Raises MissingSecret if there is no secret for it."""
        scheme = self._scheme(name)
        secret = self._credentials.get(name, scheme)
        is_person = isinstance(secret, OAuthClient) and secret.client_secret is None
        login = self._login(name) if secret is None or is_person else None
        if accepts_tokens(scheme) and login is not None and login.tokens is not None:
            token = (await self._token_of_login(login, login.tokens)).access_token
            return bearer_fields(name, token), _UsedSecret(name, token)
        if secret is None and login is not None:
            secret = login.secret
        is_from_source = secret is None
        if secret is None and self._credentials.source is not None:
            wanted = SecretRequest(name, scheme, scopes, origin_of(interface.url), was_refused)
            secret = await self._credentials.source(wanted)
        if secret is None:
            raise MissingSecret(describe_scheme(name, scheme))
        if accepts_tokens(scheme) and isinstance(secret, OAuthClient):
            token = (await self._token_for_client(name, scheme, secret, scopes)).access_token
            return bearer_fields(name, token), _UsedSecret(name, token, can_add_scopes=secret.scopes is None)
        return fields_for(name, scheme, secret, interface), _UsedSecret(name) if is_from_source else None

    def _login(self, name: str) -> Login | None:
        store = self._credentials.store
        if store is None:
            return None
        return next((login for origin in sorted(self._origins) if (login := store.get(origin, name))), None)

    # --- tokens for a client ------------------------------------------------------------------------------------------

    async def _token_for_client(
        self, name: str, declared: SecurityScheme, client: OAuthClient, scopes: tuple[str, ...]
    ) -> Tokens:
        """A valid token from client credentials. Raises MissingSecret if a person must log in."""
        flow = Flow.CLIENT_CREDENTIALS
        scheme = declared if isinstance(declared, OAuth2Scheme | OpenIdConnectScheme) else UNKNOWN_SERVER
        if client.client_secret is None:
            raise MissingSecret(f"{describe_scheme(name, declared)}: log in first")
        if client.issuer is None and scheme is UNKNOWN_SERVER and self._server is not None:
            scheme = self._server
        if client.issuer is None and scheme is UNKNOWN_SERVER:
            raise UnknownServer(
                f"{describe_scheme(name, declared)}, but no authorization server is known: name the issuer"
            )
        is_offered = not isinstance(scheme, OAuth2Scheme) or flow_of(scheme, flow) is not None or scheme.metadata_url
        if client.issuer is None and not is_offered:
            raise MissingSecret(f"{describe_scheme(name, declared)}, for which a person must log in")
        wanted = client.scopes
        if wanted is None:
            wanted = tuple(dict.fromkeys((*scopes, *self._extra_scopes.get(name, ()))))
            if not wanted and self._resource is not None and scheme is self._server:
                wanted = self._resource.scopes
        server_url = scheme.url if isinstance(scheme, OpenIdConnectScheme) else repr(scheme)
        key = ("client", *sorted(self._origins), name, server_url, client.issuer or "", client.client_id, *wanted)

        async def grant() -> Tokens:
            if client.issuer:
                self._trust(client.issuer)
            known = self._origins - {ANY_ORIGIN}
            endpoints = await find_endpoints(
                self._channel, scheme, flow, client=client, trusted=known, check=self._check
            )
            server = AuthorizationServer(self._channel, client, endpoints, now=self._credentials.now)
            return await server.client_credentials(wanted)

        try:
            return await self._credentials.tokens.get(key, grant, refused=self._refused.get(name))
        except RefusedError:
            self._extra_scopes.pop(name, None)  # calls that do not need those scopes continue
            raise

    # --- tokens of a person -------------------------------------------------------------------------------------------

    async def _token_of_login(self, login: Login, tokens: Tokens) -> Tokens:
        """A valid token of a person who has logged in."""
        refused = self._refused.get(login.scheme)
        # The key holds the token that is replaced: a later login does not use tokens of an earlier one.
        key = ("login", login.origin, login.scheme, tokens.access_token)
        return await self._credentials.tokens.get(
            key, lambda: self._refresh_login(login.origin, login.scheme, refused), refused=refused, old=tokens
        )

    async def _refresh_login(self, origin: str, scheme: str, refused: str | None) -> Tokens:
        """The tokens of a login, renewed unless another process has just done it."""
        store = self._credentials.store
        assert store is not None, "the login came from it"
        async with store.exclusive(origin, scheme):
            login = store.get(origin, scheme)
            if login is None or login.tokens is None or login.token_url is None:
                raise CredentialsError(f"The login for “{scheme}” was removed; log in again")
            if self._credentials.tokens.is_good(login.tokens, refused):
                return login.tokens
            try:
                tokens = await self._fetch_tokens(login, login.tokens, login.token_url)
            except RefusedError as error:
                if error.error != "invalid_grant":
                    raise
                # If the store has no locks, another process may have renewed them at the same time.
                newer = store.get(origin, scheme)
                if newer and newer.tokens and newer.tokens != login.tokens:
                    return newer.tokens
                raise CredentialsError(f"The login for {origin} has ended ({error.error}); log in again") from error
            self._save(login, tokens)
            return tokens

    async def _fetch_tokens(self, login: Login, tokens: Tokens, token_url: str) -> Tokens:
        self._trust(token_url)
        client = OAuthClient(login.client_id or "", login.client_secret, resource=login.resource)
        endpoints = Endpoints(token_url, secret_in_body=login.secret_in_body)
        server = AuthorizationServer(self._channel, client, endpoints, now=self._credentials.now)
        if login.kind == Flow.CLIENT_CREDENTIALS:
            return await server.client_credentials(tokens.scopes)
        return await server.refresh(tokens)

    def _save(self, login: Login, tokens: Tokens) -> None:
        store = self._credentials.store
        if store is None or store.get(login.origin, login.scheme) is None:
            return  # it was removed in between, and stays so
        try:
            store.put(structs.replace(login, tokens=tokens))
        except CredentialsError as error:
            # The token works for now, but its refresh token may have been for one use only.
            logger.warning("The renewed login for %s could not be saved: %s", login.origin, error)
