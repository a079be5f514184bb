"""Authenticates callers of a proxy, and forwards their credentials to the agent.

Unless the proxy has authentication of its own (`--auth`), it admits every caller and forwards the caller's credentials
to the agent, which checks them: the `Authorization` header and the API keys that the agent's card declares, and nothing
else. With `--auth`, callers' credentials are for the proxy and are not forwarded.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count

from msgspec import structs

from parley.client.calls import Attempt
from parley.client.credentials.origins import origin_of
from parley.client.errors import CredentialsError
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    ApiKeyScheme,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)
from parley.protocol.errors import PermissionDeniedError, UnauthenticatedError
from parley.protocol.negotiation import read_extensions
from parley.protocol.versions import Version
from parley.server.bindings.cursor import CURSOR
from parley.server.contracts import CONSOLE_COOKIE, CSRF_HEADER, CallerAuthenticator
from parley.server.security.credentials import ANONYMOUS, Identity, PresentedCredentials
from parley.server.security.schemes.scheme import Challenge

_numbers = count(1)
_secret = secrets.token_bytes(32)  # so that the names of callers do not reveal their credentials


@dataclass(frozen=True, slots=True)
class CallerRequest:
    """What a caller's request forwards to the agent; `number` is the number of the request in the trace."""

    number: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    extensions: tuple[str, ...] = ()


_NO_REQUEST = CallerRequest()
_current_request: ContextVar[CallerRequest] = ContextVar("parley.proxy.current_request")


def current_request() -> CallerRequest:
    """The request that this context serves."""
    return _current_request.get(_NO_REQUEST)


class ProxyAuthenticator:
    """Authenticates callers with `own`, if there is one; otherwise it admits all, and forwards credentials if told."""

    def __init__(self, card: AgentCard, *, own: CallerAuthenticator | None = None, forwards: bool = True) -> None:
        self._card = card
        self._own = own
        self._forwards = forwards and own is None

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the agent can be called through the proxy without credentials, as far as its card says."""
        is_protected = self._forwards and bool(self._card.security) and all(self._card.security)
        return self._own is None and not is_protected

    @property
    def schemes(self) -> Mapping[str, SecurityScheme]:
        """The schemes as the card shows them: those of the proxy, or of the agent."""
        if self._own is not None:
            return self._own.schemes
        return self._card.security_schemes if self._forwards else {}

    @property
    def requirements(self) -> tuple[SecurityRequirement, ...]:
        """The requirements as the card shows them."""
        if self._own is not None:
            return self._own.requirements
        return self._card.security if self._forwards else ()

    def requirements_for(self, scopes: Iterable[str]) -> tuple[SecurityRequirement, ...]:
        """The requirements with these scopes added."""
        return self._own.requirements_for(scopes) if self._own is not None else self.requirements

    async def authenticate(self, credentials: PresentedCredentials) -> Identity:
        """Identify the caller. Without authentication of the proxy's own, the credentials identify it.

        Raises:
            UnauthenticatedError: the proxy does not accept the credentials, or cannot forward them.
        """
        lists = [credentials.headers.get(name, "") for name in ("a2a-extensions", "x-a2a-extensions")]
        given, query = self._secrets(credentials) if self._forwards else ({}, {})
        extensions = tuple(filter(_is_printable, read_extensions(lists)))
        _current_request.set(CallerRequest(next(_numbers), given, query, extensions))
        if not all(map(_is_printable, given.values())):
            raise UnauthenticatedError("Credentials can contain printable ASCII only")
        if self._own is not None:
            return await self._own.authenticate(credentials)
        return Identity(_name_of(given, query)) if given or query else ANONYMOUS

    def authentication_required(self) -> UnauthenticatedError:
        """The error for an anonymous caller of an operation that always needs credentials."""
        if self._own is not None:
            return self._own.authentication_required()
        error = UnauthenticatedError()
        vars(error).update(challenges=challenges_for(self._card))
        return error

    async def close(self) -> None:
        """Release the resources of the proxy's own authentication."""
        if self._own is not None:
            await self._own.close()

    def _secrets(self, credentials: PresentedCredentials) -> tuple[dict[str, str], dict[str, str]]:
        """The headers and query parameters with the caller's credentials for the agent.

        The session of a console is not among them, although a card could name its cookie, or all cookies.
        """
        if CONSOLE_COOKIE in credentials.headers.get("cookie", ""):
            credentials = _without_session(credentials)
        return credentials.to_repeat(self._card.security_schemes.values())


def _without_session(credentials: PresentedCredentials) -> PresentedCredentials:
    """The credentials without the cookies of consoles."""
    pairs = credentials.headers["cookie"].split(";")
    kept = [pair.strip() for pair in pairs if CONSOLE_COOKIE not in pair.partition("=")[0]]
    others = {name: value for name, value in credentials.headers.items() if name not in ("cookie", CSRF_HEADER)}
    return structs.replace(credentials, headers={**others, **({"cookie": "; ".join(kept)} if kept else {})})


class ForwardedCredentials:
    """Sends the caller's credentials to the agent, if its origin is one of `origins`.

    An agent's card may name interfaces at other origins; those never get credentials.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(map(origin_of, origins))

    async def apply(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        """The options with the caller's credentials.

        Raises:
            CredentialsError: there are some, but the interface is at another origin.
        """
        caller = current_request()
        if not caller.headers and not caller.query:
            return options
        if not self._is_trusted(interface.url):
            raise CredentialsError(f"The proxy does not forward credentials to {interface.url}: not a trusted origin")
        return replace(options, headers={**options.headers, **caller.headers}, query={**options.query, **caller.query})

    async def renew(self, error: UnauthenticatedError | PermissionDeniedError) -> bool:
        """Nothing: the proxy has no other credentials than the caller's."""
        return False

    def _is_trusted(self, url: str) -> bool:
        # A gRPC target without a scheme may be encrypted or not; the guard checks that it is encrypted if it must be.
        urls = [url] if "://" in url else [f"http://{url}", f"https://{url}"]
        return any(origin_of(each) in self._origins for each in urls)


async def forward_extensions(attempt: Attempt) -> Attempt:
    """Activate the caller's extensions at the agent, except for cursors, which the client handles."""
    wanted = [uri for uri in current_request().extensions if uri != CURSOR.uri]
    if not wanted:
        return attempt
    name = "a2a-extensions" if attempt.version is Version.V1_0 else "x-a2a-extensions"
    all_wanted = ", ".join(read_extensions([attempt.options.headers.get(name, ""), *wanted]))
    return replace(attempt, options=replace(attempt.options, headers={**attempt.options.headers, name: all_wanted}))


def challenges_for(card: AgentCard) -> tuple[str, ...]:
    """The challenges for a 401, from the schemes in the agent's card. See `challenges_of`."""
    found: dict[str, Challenge] = {}
    for scheme in card.security_schemes.values():
        match scheme:
            case HttpAuthScheme():
                challenge = Challenge(scheme.scheme[:1].upper() + scheme.scheme[1:])
            case ApiKeyScheme():
                challenge = Challenge("ApiKey", {"in": scheme.location.value, "name": scheme.name})
            case MutualTlsScheme():
                continue  # a caller's certificate cannot be forwarded
            case OAuth2Scheme() | OpenIdConnectScheme():
                challenge = Challenge("Bearer")
        if _TOKEN.fullmatch(challenge.scheme) and all(map(_TOKEN.fullmatch, challenge.parameters.values())):
            found.setdefault(challenge.scheme, challenge)
    return tuple(map(str, found.values()))


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110; a card may contain anything


def _is_printable(text: str) -> bool:
    """Whether a text can be the value of a header in every binding."""
    return text.isascii() and text.isprintable()


def _name_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    text = repr((sorted(headers.items()), sorted(query.items()))).encode()
    return f"caller:{hmac.digest(_secret, text, hashlib.sha256).hex()[:32]}"
