"""OAuth 2.0 for clients: finds the endpoints of an authorization server and gets tokens from it.

Client credentials, device code (RFC 8628), authorization code with PKCE (RFC 7636, always S256), refresh; metadata by
RFC 8414 and OpenID Connect discovery. Cards are not trusted: a card may name an authorization server, but a client's
secret goes only where the caller or that server's own metadata says, and a code only to the server whose page the
person saw. Errors are CredentialsErrors, without secrets, or ForbiddenTargetErrors.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qsl, quote, quote_plus, urlencode

import msgspec

from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.credentials.origins import may_carry_secrets, origin_of
from parley.client.credentials.token_store import Tokens
from parley.client.errors import ClientError, CredentialsError, ForbiddenTargetError
from parley.client.guard import read_target
from parley.client.transports.http import HttpChannel
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import OAuth2Scheme, OAuthFlow, OAuthFlows, OpenIdConnectScheme
from parley.protocol.errors import PeerProtocolError, quoted
from parley.protocol.jsonvalue import JsonObject
from parley.safe_text import printable_line

TIMEOUT_SECONDS = 30.0
"""For one request to an authorization server."""
MAX_ANSWER = 512 * 1024
"""Bytes of an answer; metadata has a few kilobytes."""
PAUSES = (0.5, 1.5)
"""Between attempts to reach a server that does not answer."""
LONGEST_LIFE = 10 * 365 * 86_400.0
"""Seconds that a token may be valid; a longer life counts as ten years."""

_BUSY = frozenset({408, 429})
_SECRETS = ("client_secret", "refresh_token", "code", "code_verifier", "device_code")
"""Fields of a form that must not appear in errors."""

_OIDC = "/.well-known/openid-configuration"
_RFC_8414 = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of an authorization server, and how it takes a client's secret."""

    token_url: str
    authorization_url: str | None = None
    device_url: str | None = None
    issuer: str | None = None
    secret_in_body: bool = False
    names_issuer: bool = False
    """Whether its redirects carry `iss`: RFC 9207."""
    scopes_supported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The code that a person enters at a URL to authorize a device."""

    user_code: str
    verification_url: str
    complete_url: str | None
    expires_at: float
    interval: float
    device_code: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The URL that a person opens in a browser, and what is needed to redeem the returned code."""

    url: str
    redirect_uri: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)


class RefusedError(CredentialsError):
    """The authorization server refuses; `error` is its error code, such as `invalid_grant`."""

    def __init__(self, message: str, *, error: str) -> None:
        super().__init__(message)
        self.error = error


class UnansweredError(CredentialsError):
    """The authorization server cannot be reached, or gives no valid answer; it may later."""


# --- endpoints --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an authorization server, and the origin it was read from."""

    origin: str
    issuer: str
    facts: JsonObject

    def url(self, name: str) -> str | None:
        """The URL of an endpoint."""
        value = self.facts.get(name)
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.facts.get(name)
        return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()

    def lists(self, url: str) -> bool:
        """Whether the URL is one of its endpoints."""
        return url in self.facts.values()


async def read_metadata(channel: HttpChannel, url: str) -> Metadata:
    """The metadata at a URL. Raises CredentialsError if there is none, or its issuer has another origin."""
    status, facts = await _exchange(channel, "GET", url, {}, {})
    issuer = facts.get("issuer")
    if status != 200 or not isinstance(issuer, str):
        raise CredentialsError(f"No metadata of an authorization server at {_shown(url)} (status {status})")
    if origin_of(issuer) != origin_of(url):
        raise CredentialsError(f"The metadata at {_shown(url)} is about another server: {_shown(issuer)}")
    return Metadata(origin_of(url), issuer, facts)


async def get_json(channel: HttpChannel, url: str) -> tuple[int, JsonObject]:
    """The status and the JSON object at a URL, an empty one if it is something else. Raises UnansweredError."""
    return await _exchange(channel, "GET", url, {}, {})


async def discover(channel: HttpChannel, issuer: str) -> Metadata | None:
    """The metadata of an issuer from its well-known URLs, or None if it has none.

    Raises:
        UnansweredError: the server does not answer.
    """
    parts = read_target(issuer)
    unanswered: UnansweredError | None = None
    origin, path = parts.origin, parts.path.rstrip("/")
    for url in dict.fromkeys((f"{origin}{_RFC_8414}{path}", f"{origin}{path}{_OIDC}", f"{origin}{_OIDC}{path}")):
        try:
            found = await read_metadata(channel, url)
        except UnansweredError as error:  # some servers answer 500 for unknown paths
            unanswered = error
        except (CredentialsError, ForbiddenTargetError):  # the latter for a redirect, or a forbidden address
            pass
        else:
            if found.issuer.rstrip("/") == issuer.rstrip("/"):
                return found
    if unanswered is not None:
        raise unanswered
    return None


UNKNOWN_SERVER = OAuth2Scheme(OAuthFlows())
"""The scheme of a card that demands tokens but names no authorization server: the caller must name the issuer."""


def flow_of(scheme: OAuth2Scheme | OpenIdConnectScheme, flow: Flow) -> OAuthFlow | None:
    """A flow as the card declares it."""
    return None if isinstance(scheme, OpenIdConnectScheme) else getattr(scheme.flows, flow.replace("-", "_"))


async def find_endpoints(
    channel: HttpChannel,
    scheme: OAuth2Scheme | OpenIdConnectScheme,
    flow: Flow,
    *,
    client: OAuthClient,
    trusted: frozenset[str] = frozenset(),
    check: Callable[[str], None] = lambda url: None,
) -> Endpoints:
    """The endpoints for a flow of a scheme.

    `trusted` are the origins that the caller knows: its agent's. `check` raises for URLs that must not be called.

    Raises:
        CredentialsError: the endpoints are unknown or unsafe.
    """
    # If the caller names an issuer, only that server gets its secret, not even the agent.
    vouching = frozenset({origin_of(client.issuer)}) if client.issuer else trusted
    trusted |= vouching
    of_issuer, unanswered = await _issuers_metadata(channel, client.issuer)
    url = scheme.url if isinstance(scheme, OpenIdConnectScheme) else scheme.metadata_url
    of_card = None
    if of_issuer is None and url:
        _check(url, trusted, check)
        of_card = await read_metadata(channel, url)
    metadata = of_issuer or of_card
    declared = flow_of(scheme, flow) or OAuthFlow()
    if metadata is None and declared.token_url is None and client.issuer:
        raise unanswered or CredentialsError(
            f"The issuer {_shown(client.issuer)} has no metadata, and the card names no token endpoint"
        )
    endpoints = _merged(declared, metadata, prefers_metadata=of_issuer is not None)
    for url in (endpoints.token_url, endpoints.authorization_url, endpoints.device_url):
        if url:
            _check(url, trusted, check)
    login_url = {Flow.AUTHORIZATION_CODE: endpoints.authorization_url, Flow.DEVICE_CODE: endpoints.device_url}.get(flow)
    if flow is not Flow.CLIENT_CREDENTIALS and login_url is None:
        raise CredentialsError(f"The authorization server names no endpoint for the {flow} flow")
    is_particular = client.issuer is not None or client.client_secret is not None
    if is_particular and not _is_vouched(endpoints.token_url, vouching, metadata):
        raise unanswered or _unvouched(endpoints.token_url, client)
    if login_url is not None and not await _belongs(endpoints.token_url, login_url, vouching, metadata, channel):
        raise CredentialsError(
            f"The card has people log in at {_shown(login_url)} and sends the code to {_shown(endpoints.token_url)}, "
            "but the former does not list the latter as its token endpoint"
        )
    return endpoints


async def _issuers_metadata(channel: HttpChannel, issuer: str | None) -> tuple[Metadata | None, UnansweredError | None]:
    """The metadata of the issuer that the caller named, or why there is none."""
    try:
        return (await discover(channel, issuer) if issuer else None), None
    except UnansweredError as error:
        return None, error


def _unvouched(token_url: str, client: OAuthClient) -> CredentialsError:
    shown = _shown(token_url)
    if client.issuer:
        return CredentialsError(f"The card's token endpoint is {shown}, which the issuer {client.issuer} does not list")
    return CredentialsError(
        f"The card's token endpoint, which would get the client's secret, is {shown}. "
        f"If that is its authorization server, say so with issuer={shown!r}"
    )


def _merged(declared: OAuthFlow, metadata: Metadata | None, *, prefers_metadata: bool) -> Endpoints:
    """The endpoints from the card and from the metadata."""

    def pick(by_card: str | None, name: str) -> str | None:
        by_server = metadata.url(name) if metadata else None
        return by_server or by_card if prefers_metadata else by_card or by_server

    token_url = pick(declared.token_url, "token_endpoint")
    if token_url is None:
        raise CredentialsError("Neither the card nor its authorization server names a token endpoint")
    authorization_url = pick(declared.authorization_url, "authorization_endpoint")
    device_url = pick(declared.device_authorization_url, "device_authorization_endpoint")
    if metadata is None:
        return Endpoints(token_url, authorization_url, device_url)
    methods = metadata.texts("token_endpoint_auth_methods_supported")
    return Endpoints(
        token_url,
        authorization_url,
        device_url,
        metadata.issuer,
        "client_secret_post" in methods and "client_secret_basic" not in methods,
        metadata.facts.get("authorization_response_iss_parameter_supported") is True,
        metadata.texts("scopes_supported"),
    )


def _is_vouched(url: str, vouching: frozenset[str], metadata: Metadata | None) -> bool:
    """Whether secrets may go to a URL: an origin that the caller trusts, or an endpoint that such a server lists."""
    if origin_of(url) in vouching:
        return True
    return metadata is not None and metadata.origin in vouching and metadata.lists(url)


async def _belongs(
    token_url: str, login_url: str, vouching: frozenset[str], metadata: Metadata | None, channel: HttpChannel
) -> bool:
    """Whether the token endpoint belongs to the server whose page the person sees: RFC 9700 section 4.4, mix-up."""
    if origin_of(token_url) == origin_of(login_url):
        return True
    if _is_vouched(token_url, vouching, metadata) and _is_vouched(login_url, vouching, metadata):
        return True
    origin = origin_of(login_url)
    own = metadata if metadata and metadata.origin == origin else await discover(channel, origin)
    return own is not None and own.lists(token_url)


def _check(url: str, trusted: frozenset[str], check: Callable[[str], None]) -> None:
    if origin_of(url) in trusted and url.startswith(("http://", "https://")) and "#" not in url:
        return  # the caller named it, also where it is not encrypted
    if not may_carry_secrets(url):
        raise CredentialsError(f"{_shown(url)} is not safe for secrets: it must be https")
    check(url)


# --- tokens -----------------------------------------------------------------------------------------------------------


class AuthorizationServer:
    """One authorization server, for one client. Every method raises CredentialsError."""

    def __init__(
        self,
        channel: HttpChannel,
        client: OAuthClient,
        endpoints: Endpoints,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._channel = channel
        self._client = client
        self._endpoints = endpoints
        self._now = now
        self._sleep = sleep

    async def client_credentials(self, scopes: Sequence[str]) -> Tokens:
        """A token for the client itself."""
        if self._client.client_secret is None:
            raise CredentialsError("Client credentials need a client_secret")
        form = {"grant_type": "client_credentials", **_scope(scopes)}
        for pause in PAUSES:  # the only grant that can be repeated: the others use up a code or a token
            try:
                return await self._token(form, scopes)
            except UnansweredError:
                await self._sleep(pause)
        return await self._token(form, scopes)

    async def refresh(self, tokens: Tokens) -> Tokens:
        """New tokens for old ones. The refresh token stays the same if the server sends no other."""
        if tokens.refresh_token is None:
            raise CredentialsError("The token cannot be renewed; log in again")
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        fresh = await self._token(form, tokens.scopes)
        return msgspec.structs.replace(fresh, refresh_token=fresh.refresh_token or tokens.refresh_token)

    async def start_device(self, scopes: Sequence[str]) -> DeviceCode:
        """Begin the login of a device."""
        assert self._endpoints.device_url is not None, "find_endpoints checks it"
        answer = await self._ask(self._endpoints.device_url, {**_scope(scopes), **self._resource()})
        device_code, user_code = _text(answer, "device_code"), _text(answer, "user_code")
        url = _text(answer, "verification_uri") or _text(answer, "verification_url")  # Google sends the latter
        if not (device_code and user_code and url):
            raise CredentialsError(f"{_shown(self._endpoints.device_url)} sends no device code")
        return DeviceCode(
            quoted(user_code),
            _web_page(url),
            _web_page(complete) if (complete := _text(answer, "verification_uri_complete")) else None,
            self._now() + min(_seconds(answer, "expires_in") or 600.0, 3600.0),
            min(max(_seconds(answer, "interval") or 5.0, 1.0), 60.0),
            device_code,
        )

    async def finish_device(self, code: DeviceCode, scopes: Sequence[str]) -> Tokens:
        """Wait until the person has authorized the device."""
        interval = code.interval
        while self._now() < code.expires_at:
            await self._sleep(interval)
            try:
                return await self.redeem_device(code, scopes)
            except RefusedError as error:
                if error.error == "slow_down":
                    interval += 5  # RFC 8628 section 3.5
                elif error.error != "authorization_pending":
                    raise
            except UnansweredError:
                interval = min(interval * 2, 60.0)
        raise CredentialsError("The code expired before it was confirmed; log in again")

    async def redeem_device(self, code: DeviceCode, scopes: Sequence[str]) -> Tokens:
        """The tokens of a device that the person has authorized, without waiting.

        Raises:
            RefusedError: not yet (`authorization_pending`), not so often (`slow_down`), or never.
        """
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": code.device_code}
        return await self._token(form, scopes)

    def start_authorization(self, redirect_uri: str, scopes: Sequence[str]) -> AuthorizationRequest:
        """The URL for a person to open in a browser."""
        assert self._endpoints.authorization_url is not None, "find_endpoints checks it"
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            **_scope(scopes),
            **self._resource(),
        }
        base = self._endpoints.authorization_url
        own = read_target(base).query
        if any(name in query for name, _ in parse_qsl(own, keep_blank_values=True)):
            # Of two values the server may use the card's, and send the code to a URL of the card's choice.
            raise CredentialsError(f"The card's {_shown(base)} already has parameters that only the client may set")
        url = f"{base}{'&' if own else '?'}{urlencode(query)}"
        return AuthorizationRequest(url, redirect_uri, state, verifier)

    async def finish_authorization(
        self, request: AuthorizationRequest, answer: Mapping[str, str], scopes: Sequence[str]
    ) -> Tokens:
        """The tokens for the query of the redirect."""
        if not secrets.compare_digest(answer.get("state", "").encode(), request.state.encode()):
            raise CredentialsError("The redirect belongs to another login")
        # RFC 9207: `iss` must name the server that was used. Without metadata its name is not known.
        issuer, expected = answer.get("iss"), self._endpoints.issuer
        if (issuer is None and self._endpoints.names_issuer) or (issuer and expected and issuer != expected):
            raise CredentialsError("The redirect comes from another authorization server")
        if "error" in answer:
            raise _refusal(self._endpoints.authorization_url or "", answer, ())
        code = answer.get("code")
        if not code:
            raise CredentialsError("The authorization server sent the browser back without a code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.verifier,
        }
        return await self._token(form, scopes)

    def _resource(self) -> dict[str, str]:
        named = {"resource": self._client.resource, "audience": self._client.audience}
        return {name: value for name, value in named.items() if value}

    async def _token(self, form: Mapping[str, str], scopes: Sequence[str]) -> Tokens:
        url = self._endpoints.token_url
        answer = await self._ask(url, {**form, **self._resource()})
        token = _text(answer, "access_token")
        kind = _text(answer, "token_type") or "Bearer"
        if not token or not token.isascii() or not token.isprintable():
            raise CredentialsError(f"{_shown(url)} sends no usable token")
        if kind.lower() != "bearer":
            raise CredentialsError(f"{_shown(url)} sends a token of type {quoted(kind)!r}, not Bearer")
        life = _seconds(answer, "expires_in")
        granted = tuple((_text(answer, "scope") or "").split()) or tuple(scopes)
        now = self._now()
        return Tokens(token, None if life is None else now + life, _text(answer, "refresh_token"), granted, now)

    async def _ask(self, url: str, form: Mapping[str, str]) -> JsonObject:
        client = self._client
        headers: dict[str, str] = {}
        if client.client_secret is None:
            form = {**form, "client_id": client.client_id}
        elif self._endpoints.secret_in_body:
            form = {**form, "client_id": client.client_id, "client_secret": client.client_secret}
        else:
            # RFC 6749 section 2.3.1: both are form-encoded first.
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        status, answer = await _exchange(self._channel, "POST", url, form, headers)
        if status != 200 or "error" in answer:
            options = (
                *(form[name] for name in _SECRETS if name in form),
                client.client_secret or "",
                *headers.values(),
            )
            raise _refusal(url, answer, options, status)
        return answer


async def _exchange(
    channel: HttpChannel, verb: str, url: str, form: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[int, JsonObject]:
    """The status and the JSON object of the answer; anything but a JSON object counts as an empty one."""
    headers = {"accept": "application/json", **headers}
    if verb == "POST":
        headers["content-type"] = "application/x-www-form-urlencoded"
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            options = CallOptions(headers, {}, TIMEOUT_SECONDS)
            reply = await channel.exchange(verb, url, urlencode(form).encode(), options, limit=MAX_ANSWER)
    except ForbiddenTargetError:
        raise
    except (ClientError, PeerProtocolError, TimeoutError) as error:
        # Translated, or the call would be tried at the agent's next interface.
        text = f"The authorization server at {_shown(url)} does not answer: {error or 'too slow'}"
        raise UnansweredError(text) from error
    if reply.status >= 500 or reply.status in _BUSY:
        raise UnansweredError(f"The authorization server at {_shown(url)} fails (status {reply.status})")
    try:
        return reply.status, msgspec.json.decode(reply.body, type=JsonObject)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return reply.status, {}


def _refusal(
    url: str, answer: Mapping[str, object], secret_texts: Sequence[str], status: int | None = None
) -> RefusedError:
    error = answer.get("error")
    word = error if isinstance(error, str) and re.fullmatch(r"[\w.:-]{1,60}", error) else f"status {status}"
    description = answer.get("error_description")
    text = quoted(_without(description, secret_texts)) if isinstance(description, str) else ""
    return RefusedError(f"{_shown(url)} refuses: {word}{f' ({text})' if text else ''}", error=word)


def _without(text: str, secret_texts: Sequence[str]) -> str:
    """The text of a server without the secrets that it was sent, which it may quote plainly or encoded."""
    secrets = {secret.removeprefix("Basic ") for secret in secret_texts}
    spellings = {spelling for secret in secrets for spelling in (secret, quote(secret, safe=""), quote_plus(secret))}
    for spelling in sorted(spellings, key=len, reverse=True):
        if len(spelling) > 3:
            text = text.replace(spelling, "…")
    return text


def _scope(scopes: Sequence[str]) -> dict[str, str]:
    return {"scope": " ".join(dict.fromkeys(scopes))} if scopes else {}


def _text(answer: JsonObject, name: str) -> str | None:
    value = answer.get(name)
    return value if isinstance(value, str) and value else None


def _seconds(answer: JsonObject, name: str) -> float | None:
    """A number of seconds. Some servers send it as text."""
    value = answer.get(name)
    try:
        seconds = float(cast(str, value))
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, LONGEST_LIFE) if seconds >= 0 else None


def _web_page(url: str) -> str:
    if may_carry_secrets(url.partition("#")[0]):
        return printable_line(url[:1_000])
    raise CredentialsError("The authorization server's login page is not https")


def _shown(url: str) -> str:
    """A URL for an error message: without its query."""
    return quoted(url.partition("?")[0].partition("#")[0])
