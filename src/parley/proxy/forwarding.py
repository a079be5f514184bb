"""Authenticates callers of a proxy, and forwards their credentials to the agent.

Without `--auth` the proxy accepts every request and forwards the caller's credentials to the agent, which alone can
verify them: the `Authorization` header, and the keys that the agent's card declares, and nothing else. They are sent to
that agent only. With `--auth` callers authenticate at the proxy, and their credentials are not forwarded.
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

from parley.client.calls import Attempt
from parley.client.credentials.origins import origin_of
from parley.client.errors import CredentialsError
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    ApiKeyLocation,
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
from parley.server.contracts import CallerAuthenticator
from parley.server.security.credentials import ANONYMOUS, Identity, PresentedCredentials
from parley.server.security.schemes.scheme import Challenge

_numbers = count(1)
_secret = secrets.token_bytes(32)  # names of callers must not reveal their credentials


@dataclass(frozen=True, slots=True)
class ForwardedParts:
    """The parts of a request that are forwarded to the agent; `number` identifies the request in the trace."""

    number: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    extensions: tuple[str, ...] = ()


_NOTHING = ForwardedParts()
_forwarded_parts: ContextVar[ForwardedParts] = ContextVar("parley.proxy.brought")


def forwarded_parts() -> ForwardedParts:
    """The forwarded parts of the current request: each request has an asyncio task of its own."""
    return _forwarded_parts.get(_NOTHING)


class ProxyAuthenticator:
    """Authenticates callers. `own` decides who may call, if it is set; otherwise `forwards` forwards credentials."""

    def __init__(self, card: AgentCard, *, own: CallerAuthenticator | None = None, forwards: bool = True) -> None:
        self._card = card
        self._own = own
        self._forwards = forwards and own is None

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the agent can be called through the proxy without credentials, according to its card."""
        is_guarded = self._forwards and bool(self._card.security) and all(self._card.security)
        return self._own is None and not is_guarded

    @property
    def schemes(self) -> Mapping[str, SecurityScheme]:
        """The schemes as the card shows them: the proxy's, or the agent's."""
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
        """The identity of the caller: as the proxy authenticates it, or derived from its credentials.

        Raises:
            UnauthenticatedError: the caller is unknown, or its credentials cannot be forwarded.
        """
        headers = credentials.headers
        asked = read_extensions(headers[name] for name in ("a2a-extensions", "x-a2a-extensions") if name in headers)
        given, query = self._secrets(credentials) if self._forwards else ({}, {})
        _forwarded_parts.set(ForwardedParts(next(_numbers), given, query, tuple(filter(_is_plain, asked))))
        if not all(map(_is_plain, given.values())):
            raise UnauthenticatedError("Credentials must be ASCII")
        if self._own is not None:
            return await self._own.authenticate(credentials)
        return Identity(_name_of(given, query)) if given or query else ANONYMOUS

    def authentication_required(self) -> UnauthenticatedError:
        """The error for an anonymous caller whose request needs authentication."""
        if self._own is not None:
            return self._own.authentication_required()
        error = UnauthenticatedError()
        vars(error).update(challenges=challenges_for(self._card))
        return error

    async def close(self) -> None:
        """Close the authenticator."""
        if self._own is not None:
            await self._own.close()

    def _secrets(self, credentials: PresentedCredentials) -> tuple[dict[str, str], dict[str, str]]:
        """The headers and query parameters with the caller's credentials."""
        given = {name: credentials.headers[name] for name in ("authorization",) if name in credentials.headers}
        query: dict[str, str] = {}
        cookies: list[str] = []
        for scheme in self._card.security_schemes.values():
            if not isinstance(scheme, ApiKeyScheme):
                continue
            match scheme.location:
                case ApiKeyLocation.HEADER if (value := credentials.headers.get(scheme.name.lower())) is not None:
                    given[scheme.name.lower()] = value
                case ApiKeyLocation.QUERY if values := credentials.query.get(scheme.name):
                    query[scheme.name] = values[0]
                case ApiKeyLocation.COOKIE if (value := _cookie(credentials, scheme.name)) is not None:
                    cookies.append(f"{scheme.name}={value}")
                case _:
                    pass
        if cookies:
            given["cookie"] = "; ".join(cookies)
        return given, query


class ForwardedCredentials:
    """Adds the caller's credentials to requests to the agent.

    They are sent to these origins only, whatever the agent's card names.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(map(origin_of, origins))

    async def apply(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        """The same request with the caller's credentials.

        Raises:
            CredentialsError: there are some, and the interface has another origin.
        """
        asked = forwarded_parts()
        if not asked.headers and not asked.query:
            return options
        if not self._may_see(interface.url):
            raise CredentialsError(f"The proxy does not send its callers' credentials to {interface.url}")
        return replace(options, headers={**options.headers, **asked.headers}, query={**options.query, **asked.query})

    async def renew(self, error: UnauthenticatedError | PermissionDeniedError) -> bool:
        """Nothing: only the caller has credentials."""
        return False

    def _may_see(self, url: str) -> bool:
        # A bare gRPC target does not say whether it is encrypted; the guard makes sure that it is where it must be.
        spellings = [url] if "://" in url else [f"http://{url}", f"https://{url}"]
        return any(origin_of(spelling) in self._origins for spelling in spellings)


async def pass_extensions(attempt: Attempt) -> Attempt:
    """Request the caller's extensions from the agent, except the cursor, which the proxy's client handles itself."""
    wanted = [uri for uri in forwarded_parts().extensions if uri != CURSOR.uri]
    if not wanted:
        return attempt
    name = "a2a-extensions" if attempt.version is Version.V1_0 else "x-a2a-extensions"
    asked = read_extensions([attempt.options.headers.get(name, ""), *wanted])
    return replace(
        attempt, options=replace(attempt.options, headers={**attempt.options.headers, name: ", ".join(asked)})
    )


def challenges_for(card: AgentCard) -> tuple[str, ...]:
    """The challenges of a 401 according to the agent's card. See `challenges_of`."""
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


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110; a card is untrusted


def _is_plain(text: str) -> bool:
    """Whether a text can be the value of a header in every binding."""
    return text.isascii() and text.isprintable()


def _cookie(credentials: PresentedCredentials, name: str) -> str | None:
    for pair in credentials.headers.get("cookie", "").split(";"):
        key, equals, value = pair.strip().partition("=")
        if key == name and equals:
            return value
    return None


def _name_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    text = repr((sorted(headers.items()), sorted(query.items()))).encode()
    return f"caller:{hmac.digest(_secret, text, hashlib.sha256).hex()[:32]}"
