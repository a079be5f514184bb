"""What a caller can prove, and how much of it an agent gets to see.

    credentials = Credentials({"bearer": token})
    credentials = Credentials({"company": OAuthClient("parley", secret, issuer="https://login.example")})
    async with Client("https://agents.example", credentials=credentials) as agent: …

A card lists alternatives, each a set of schemes that are needed together. The first alternative that the caller can
meet in full is met, and nothing of the others is sent. Secrets are bound to the origin of the URL that the caller gave,
and to those it adds; they are in no text, log or error. Spec: 1.0 sections 4.5 and 7; OpenAPI 3.1 section 4.8.30.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec import structs

from parley.client.connecting import Tls
from parley.client.errors import CredentialsError
from parley.client.http import HttpChannel
from parley.client.oauth import AuthorizationServer, Endpoints, RefusedError, find_endpoints, flow_of
from parley.client.oauth_client import Flow, OAuthClient
from parley.client.origins import origin_of
from parley.client.token_store import Login, LoginStore, Tokens
from parley.client.transport import Sent
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    ApiKeyLocation,
    ApiKeyScheme,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)
from parley.protocol.errors import UnauthenticatedError

EARLY_SECONDS = 30.0
"""A token is renewed so long before it ends: a request takes its time, and clocks differ."""
ANY_ORIGIN = "*"
"""Among `origins`: the caller vouches for whatever the card names."""

Secret: TypeAlias = str | tuple[str, str] | OAuthClient | Tls
"""A key, token or password; a name and a password; a client of an authorization server; a certificate."""

# What a header or cookie may be called and hold, so that a card cannot have a secret written into another header.
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED = frozenset(
    {
        *("accept", "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an agent demands: asked of the caller's own function where nothing else has it."""

    name: str
    scheme: SecurityScheme
    scopes: tuple[str, ...]
    origin: str
    was_refused: bool
    """Whether the last answer was sent and did not help."""


SecretSource: TypeAlias = Callable[[Wanted], Awaitable[Secret | None]]
"""Gives secrets from elsewhere, before each request; None if it has none."""


class Credentials:
    """Secrets by the name of a card's scheme, or by their kind.

    Kinds are `bearer`, `basic`, `api-key`, `oauth2`, `openid-connect`, `mutual-tls`, and any other scheme of HTTP. A
    bearer token also serves OAuth2 and OpenID Connect. `source` is asked for what is not among them, `store` holds
    what a person has logged in with. `headers` go along whatever the card says, and in place of what it demands if
    nothing else is there. `origins` are further ones that may see the secrets, `"*"` for all that the card
    names. One object may serve many clients, which then share their tokens.
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
        """Raises CredentialsError if an origin is none, or a header cannot be sent."""
        self._secrets = dict(secrets or {})
        self._kinds = {_folded(name): secret for name, secret in self._secrets.items()}
        self.source = source
        self.store = store
        self.headers = {name.lower(): _sendable(name, value) for name, value in (headers or {}).items()}
        self.origins = frozenset(origin if origin == ANY_ORIGIN else origin_of(origin) for origin in origins)
        self.now = now
        self.tokens = TokenCache(now)

    def __repr__(self) -> str:
        return f"Credentials({sorted(self._secrets)})"

    @property
    def has_some(self) -> bool:
        """Whether there can be anything to send."""
        return bool(self._secrets) or self.source is not None or self.store is not None

    @property
    def tls(self) -> Tls | None:
        """The client certificate for mutual TLS, for the connections to show."""
        return next((secret for secret in self._secrets.values() if isinstance(secret, Tls)), None)

    @property
    def issuers(self) -> tuple[str, ...]:
        """The authorization servers that the caller has named itself."""
        clients = (secret for secret in self._secrets.values() if isinstance(secret, OAuthClient))
        return tuple(client.issuer for client in clients if client.issuer)

    def get(self, name: str, scheme: SecurityScheme) -> Secret | None:
        """The secret for a scheme, by its name or else by its kind."""
        if name in self._secrets:
            return self._secrets[name]
        return next((self._kinds[kind] for kind in kinds_of(scheme) if kind in self._kinds), None)

    def bound(
        self,
        card: AgentCard,
        *,
        given: str | None,
        channel: HttpChannel,
        check: Callable[[str], None] = lambda url: None,
        trust: Callable[[str], None] = lambda url: None,
    ) -> BoundCredentials:
        """The credentials for one agent. `given` is the URL that the caller named, or `"*"` if it vouches for all.

        A caller that gave a card vouches for the first of its interfaces. `channel` is the way to authorization
        servers, `check` refuses those that a card must not name, and `trust` is told of those that the caller named.
        """
        first = given or (card.interfaces[0].url if card.interfaces else None)
        origins = self.origins
        if first is not None:
            origins |= {first if first == ANY_ORIGIN else origin_of(first)}
        for issuer in self.issuers:
            trust(issuer)
        return BoundCredentials(self, card, origins, channel, check, trust)


class TokenCache:
    """Tokens by what they are for. Whoever needs one that is being fetched waits for it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: dict[tuple[str, ...], Tokens] = {}
        self._locks: dict[tuple[str, ...], asyncio.Lock] = {}

    async def get(
        self, key: tuple[str, ...], fetch: Callable[[Tokens | None], Awaitable[Tokens]], *, refused: str | None
    ) -> Tokens:
        """A token that is still good and is not the one that was refused."""
        found = self._tokens.get(key)
        if found is not None and self.is_good(found, refused):
            return found
        async with self._locks.setdefault(key, asyncio.Lock()):
            found = self._tokens.get(key)
            if found is None or not self.is_good(found, refused):
                found = self._tokens[key] = await fetch(found)
            return found

    def is_good(self, tokens: Tokens, refused: str | None) -> bool:
        """Whether a token can be sent now."""
        lives = tokens.expires_at is None or tokens.expires_at - EARLY_SECONDS > self._now()
        return lives and tokens.access_token != refused


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one scheme adds to a request, and whether it could be had anew after a refusal."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    query: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    used: tuple[str, str] | None = field(default=None, repr=False)
    """The scheme and the token, if it came from an authorization server; the scheme and nothing, if from `source`."""


class _Lacking(Exception):
    """An alternative cannot be met; the text says what is missing."""


# What the last request of this task was sent with: a refusal is about that, not about what has been fetched since.
_sent_with: ContextVar[tuple[object, tuple[tuple[str, str], ...]]] = ContextVar("_sent_with", default=(None, ()))


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
        """By scheme, the token that the agent did not take; empty text for what `source` gave."""

    def __repr__(self) -> str:
        return f"BoundCredentials({self._credentials!r}, {sorted(self._origins)})"

    async def apply(self, sent: Sent, interface: AgentInterface) -> Sent:
        """The same request with the credentials that the card demands.

        Raises:
            CredentialsError: they are not there, or not for the interface's origin.
        """
        _sent_with.set((self, ()))
        if not self.may_see(interface.url):
            return self._unseen(sent, interface)
        sent = replace(sent, headers={**sent.headers, **self._credentials.headers})
        lacking: list[str] = []
        failures: list[CredentialsError] = []
        for requirement in self._alternatives():
            try:
                pieces = [await self._prove(name, scopes, interface) for name, scopes in requirement.items()]
                combined = _combined(sent, pieces)
            except _Lacking as reason:
                lacking.append(str(reason))
                continue
            except CredentialsError as error:
                failures.append(error)
                continue
            _sent_with.set((self, tuple(piece.used for piece in pieces if piece.used is not None)))
            return combined
        if failures:
            raise failures[0]  # the caller has something, and it does not work: that says more than what else there is
        if not self._is_demanded or self._credentials.headers:
            return sent
        raise CredentialsError(f"The agent demands {', or '.join(dict.fromkeys(lacking))}")

    async def renew(self, error: UnauthenticatedError) -> bool:
        """Get new tokens in place of those that were refused; whether there is anything new to try.

        Raises:
            CredentialsError: the authorization server gives no more.
        """
        whose, used = _sent_with.get()
        if whose is not self:  # another agent was called meanwhile
            return False
        self._refused.update(used)
        try:
            for name, token in used:
                if token:
                    await self._token(name, self._scopes_of(name))
        except _Lacking:
            return False
        return bool(used)

    def may_see(self, url: str) -> bool:
        """Whether secrets may go to a URL."""
        if ANY_ORIGIN in self._origins:
            return True
        # A bare gRPC target is as encrypted as the URL that was given for its host: see `Guard.encrypts`.
        spellings = [url] if "://" in url else [f"http://{url}", f"https://{url}"]
        return any(origin_of(spelling) in self._origins for spelling in spellings)

    # --- what is demanded ---------------------------------------------------------------------------------------------

    @property
    def _is_demanded(self) -> bool:
        return bool(self._card.security) and {} not in self._card.security

    def _alternatives(self) -> Sequence[SecurityRequirement]:
        """What the card accepts. Where it demands nothing, whatever the caller has for its schemes is offered."""
        demanded = [requirement for requirement in self._card.security if requirement]
        if demanded or not self._credentials.has_some:
            return demanded
        declared: list[SecurityRequirement] = [{name: ()} for name in self._card.security_schemes]
        # Cards often say nothing at all. A bearer token or a password that was given for the agent is sent then too.
        return declared or [{"bearer": ()}, {"basic": ()}]

    def _unseen(self, sent: Sent, interface: AgentInterface) -> Sent:
        if not self._is_demanded:
            return sent
        given = " and ".join(sorted(self._origins)) or "no origin"
        raise CredentialsError(
            f"The credentials are for {given}, and the card has them sent to {origin_of(interface.url)}. "
            f"If that is right, add it to origins"
        )

    def _scheme(self, name: str) -> SecurityScheme:
        declared = self._card.security_schemes.get(name)
        if declared is None and not self._card.security_schemes and not self._is_demanded:
            return HttpAuthScheme(name)
        if declared is None:
            raise _Lacking(f"“{name}”, which the card does not explain")
        return _plainer(declared)

    def _scopes_of(self, name: str) -> tuple[str, ...]:
        return next((scopes for requirement in self._alternatives() if (scopes := requirement.get(name))), ())

    # --- what there is ------------------------------------------------------------------------------------------------

    async def _prove(self, name: str, scopes: tuple[str, ...], interface: AgentInterface) -> _Piece:
        """What satisfies a scheme. Raises _Lacking if there is nothing."""
        scheme = self._scheme(name)
        if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
            secret = self._credentials.get(name, scheme)
            login = self._login(name)
            if isinstance(secret, OAuthClient) or (secret is None and login is not None and login.tokens is not None):
                token = (await self._token(name, scopes)).access_token
                return _Piece(_authorization(name, "Bearer", token), used=(name, token))
        secret, is_from_source = await self._secret(name, scheme, scopes)
        piece = _piece(name, scheme, secret, interface)
        return replace(piece, used=(name, "")) if is_from_source else piece

    async def _secret(self, name: str, scheme: SecurityScheme, scopes: tuple[str, ...]) -> tuple[Secret, bool]:
        """The secret for a scheme, and whether it comes from the caller's function."""
        secret = self._credentials.get(name, scheme)
        login = self._login(name)
        if secret is None and login is not None:
            secret = login.secret
        if secret is not None:
            return secret, False
        if self._credentials.source is not None:
            origin = min(self._origins - {ANY_ORIGIN}, default=ANY_ORIGIN)
            wanted = Wanted(name, scheme, scopes, origin, name in self._refused)
            secret = await self._credentials.source(wanted)
        if secret is None:
            raise _Lacking(described(name, scheme))
        return secret, True

    def _login(self, name: str) -> Login | None:
        store = self._credentials.store
        if store is None:
            return None
        return next((login for origin in sorted(self._origins) if (login := store.get(origin, name))), None)

    async def _token(self, name: str, scopes: tuple[str, ...]) -> Tokens:
        """A good token for a scheme of an authorization server."""
        scheme = self._scheme(name)
        assert isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme)
        secret = self._credentials.get(name, scheme)
        refused = self._refused.get(name) or None
        login = self._login(name)
        if (
            login is not None
            and login.tokens is not None
            and not (isinstance(secret, OAuthClient) and _is_machine(secret))
        ):
            key = ("login", login.origin, name)
            return await self._credentials.tokens.get(key, lambda old: self._renewed(name, refused), refused=refused)
        if not isinstance(secret, OAuthClient) or not _is_machine(secret):
            raise _Lacking(f"{described(name, scheme)}: log in first")
        client = secret
        wanted = tuple(dict.fromkeys((*scopes, *client.scopes)))
        place = scheme.url if isinstance(scheme, OpenIdConnectScheme) else repr(scheme.flows)
        key = ("client", *sorted(self._origins), name, place, client.client_id, *wanted)
        return await self._credentials.tokens.get(
            key, lambda old: self._granted(name, scheme, client, wanted), refused=refused
        )

    async def _granted(
        self, name: str, scheme: OAuth2Scheme | OpenIdConnectScheme, client: OAuthClient, scopes: tuple[str, ...]
    ) -> Tokens:
        """A token by client credentials."""
        flow = Flow.CLIENT_CREDENTIALS
        if isinstance(scheme, OAuth2Scheme) and flow_of(scheme, flow) is None and not scheme.metadata_url:
            raise _Lacking(f"{described(name, scheme)}, which a person must log in for")
        endpoints = await find_endpoints(
            self._channel, scheme, flow, client=client, trusted=self._origins - {ANY_ORIGIN}, check=self._check
        )
        server = AuthorizationServer(self._channel, client, endpoints, now=self._credentials.now)
        return await server.client_credentials(scopes)

    async def _renewed(self, name: str, refused: str | None) -> Tokens:
        """The tokens of a login, renewed if they must be; other processes may do the same at the same time."""
        store, login = self._credentials.store, self._login(name)
        if store is None or login is None or login.tokens is None or login.token_url is None:
            raise CredentialsError(f"There is no login for “{name}” any more; log in again")
        if self._credentials.tokens.is_good(login.tokens, refused):
            return login.tokens
        self._trust(login.token_url)
        client = OAuthClient(login.client_id or "", login.client_secret, resource=login.resource)
        endpoints = Endpoints(login.token_url, secret_in_body=login.secret_in_body)
        server = AuthorizationServer(self._channel, client, endpoints, now=self._credentials.now)
        try:
            if login.tokens.refresh_token is None and login.client_secret is not None:
                tokens = await server.client_credentials(login.tokens.scopes)
            else:
                tokens = await server.refresh(login.tokens)
        except RefusedError as error:
            # Whoever was quicker has used up the refresh token, and left a new one.
            newer = store.get(login.origin, name)
            if newer and newer.tokens and newer.tokens != login.tokens:
                return newer.tokens
            raise CredentialsError(f"The login for {login.origin} has ended ({error.error}); log in again") from error
        store.put(structs.replace(login, tokens=tokens))
        return tokens


# --- how a secret travels ---------------------------------------------------------------------------------------------


def kinds_of(scheme: SecurityScheme) -> tuple[str, ...]:
    """The kinds of secrets that serve a scheme, the most fitting first."""
    match scheme:
        case ApiKeyScheme():
            return ("apikey",)
        case HttpAuthScheme():
            return (_folded(scheme.scheme),)
        case OAuth2Scheme():
            return ("oauth2", "oauth", "bearer")
        case OpenIdConnectScheme():
            return ("openidconnect", "oidc", "oauth2", "bearer")
        case MutualTlsScheme():
            return ("mutualtls", "mtls")


def described(name: str, scheme: SecurityScheme) -> str:
    """A scheme in words, for somebody who has no secret for it: `an API key (scheme “key”, header X-Key)`."""
    match scheme:
        case ApiKeyScheme():
            return f"an API key (scheme “{name}”, {scheme.location.value} {scheme.name})"
        case HttpAuthScheme():
            return f"HTTP {scheme.scheme} authentication (scheme “{name}”)"
        case OAuth2Scheme():
            return f"an OAuth 2.0 token (scheme “{name}”)"
        case OpenIdConnectScheme():
            return f"an OpenID Connect token (scheme “{name}”)"
        case MutualTlsScheme():
            return f"a client certificate (scheme “{name}”)"


def _plainer(scheme: SecurityScheme) -> SecurityScheme:
    """Cards of 0.1 name schemes and nothing more, and are read as HTTP's; this is what those names mean."""
    if not isinstance(scheme, HttpAuthScheme):
        return scheme
    match _folded(scheme.scheme):
        case "apikey":
            return ApiKeyScheme(ApiKeyLocation.HEADER, "X-API-Key")
        case "oauth2" | "openidconnect":
            return HttpAuthScheme("Bearer")
        case "mutualtls":
            return MutualTlsScheme()
        case _:
            return scheme


def _piece(name: str, scheme: SecurityScheme, secret: Secret, interface: AgentInterface) -> _Piece:
    match scheme, secret:
        case MutualTlsScheme(), Tls() if secret.certificate is not None:
            return _Piece()  # the connection shows it
        case ApiKeyScheme(), str():
            return _api_key(name, scheme, secret, interface)
        case HttpAuthScheme(), str() | (str(), str()) if _folded(scheme.scheme) == "basic":
            pair = secret if isinstance(secret, str) else ":".join(secret)
            return _Piece(_authorization(name, "Basic", b64encode(pair.encode()).decode()))
        case HttpAuthScheme(), str():
            word = "Bearer" if _folded(scheme.scheme) == "bearer" else scheme.scheme
            return _Piece(_authorization(name, word, secret))
        case ((OAuth2Scheme() | OpenIdConnectScheme()), str()):
            return _Piece(_authorization(name, "Bearer", secret))
        case _:
            raise CredentialsError(
                f"What was given for “{name}” does not fit: the agent demands {described(name, scheme)}"
            )


def _authorization(name: str, word: str, secret: str) -> dict[str, str]:
    if not _NAME.fullmatch(word):
        raise CredentialsError(f"The card's scheme “{name}” is no scheme of HTTP")
    return {"authorization": f"{word} {_sendable(name, secret)}"}


def _api_key(name: str, scheme: ApiKeyScheme, secret: str, interface: AgentInterface) -> _Piece:
    if scheme.location is ApiKeyLocation.QUERY:
        if interface.binding == Binding.GRPC:
            raise _Lacking(f"{described(name, scheme)}, which gRPC cannot carry")
        return _Piece(query={scheme.name: secret})
    if not _NAME.fullmatch(scheme.name) or scheme.name.lower() in _RESERVED:
        raise CredentialsError(f"The card wants the key of “{name}” where none can be")
    value = _sendable(name, secret)
    if scheme.location is ApiKeyLocation.HEADER:
        return _Piece({scheme.name.lower(): value})
    if re.search(r'[\s",;\\]', value):  # RFC 6265 section 4.1.1
        raise CredentialsError(f"The key for “{name}” has a character that no cookie can hold")
    return _Piece(cookies={scheme.name: value})


def _sendable(name: str, secret: str) -> str:
    # httpx and gRPC would quote it in their errors.
    if not secret or not secret.isascii() or not secret.isprintable() or secret != secret.strip():
        raise CredentialsError(f"The secret for “{name}” is empty or has a character that no header can hold")
    return secret


def _combined(sent: Sent, pieces: Sequence[_Piece]) -> Sent:
    headers, query, cookies = dict(sent.headers), dict(sent.query), dict[str, str]()
    added = dict[str, str]()
    for piece in pieces:
        for name, value in piece.headers.items():
            if added.setdefault(name, value) != value:
                raise _Lacking(f"two secrets in one header ({name}), which nobody can send")
        query |= piece.query
        cookies |= piece.cookies
    if cookies:
        added["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return replace(sent, headers=headers | added, query=query)


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _is_machine(client: OAuthClient) -> bool:
    """Whether a client can get tokens without a person."""
    return client.client_secret is not None
