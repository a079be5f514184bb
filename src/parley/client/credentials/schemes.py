"""Puts secrets into requests: the header, query parameter or cookie of each kind of scheme that a card can declare.

The card chooses names, the caller the secrets. Both are checked, so that neither can inject a header, nor be quoted in
an error of the HTTP library. Spec: 1.0 section 4.5; OpenAPI 3.1 section 4.8.27.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from parley.client.credentials.oauth_client import OAuthClient
from parley.client.errors import CredentialsError
from parley.client.transports.connections import Tls
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import (
    AgentInterface,
    ApiKeyLocation,
    ApiKeyScheme,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityScheme,
)

Secret: TypeAlias = str | tuple[str, str] | OAuthClient | Tls
"""A key, token or password; a user name and a password; a client of an authorization server; a certificate."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_NAME_IN_GRPC = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")
_RESERVED = frozenset(
    {
        *("accept", "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)


@dataclass(frozen=True, slots=True)
class AuthFields:
    """The headers, query parameters and cookies that one scheme adds to a request."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    query: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class MissingSecret(Exception):
    """A scheme cannot be satisfied; the text says what is missing."""


# --- kinds of schemes -------------------------------------------------------------------------------------------------


def kinds_of(scheme: SecurityScheme) -> tuple[str, ...]:
    """The kinds of secrets that satisfy a scheme, the best first."""
    match scheme:
        case ApiKeyScheme():
            return ("apikey",)
        case HttpAuthScheme():
            return ("bearer", "oauth2") if accepts_tokens(scheme) else (normalized_kind(scheme.scheme),)
        case OAuth2Scheme():
            return ("oauth2", "oauth", "bearer")
        case OpenIdConnectScheme():
            return ("openidconnect", "oidc", "oauth2", "bearer")
        case MutualTlsScheme():
            return ("mutualtls", "mtls")


def describe_scheme(name: str, scheme: SecurityScheme) -> str:
    """A scheme in words, for errors: `an API key (scheme “key”, header X-Key)`."""
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


def resolve_scheme(scheme: SecurityScheme) -> SecurityScheme:
    """The scheme that is meant: cards of 0.1 only name schemes, and are read as naming HTTP schemes."""
    if not isinstance(scheme, HttpAuthScheme):
        return scheme
    match normalized_kind(scheme.scheme):
        case "apikey":
            return ApiKeyScheme(ApiKeyLocation.HEADER, "X-API-Key")
        case "oauth2" | "openidconnect":
            return HttpAuthScheme("Bearer")
        case "mutualtls":
            return MutualTlsScheme()
        case _:
            return scheme


def accepts_tokens(scheme: SecurityScheme) -> bool:
    """Whether a token of an authorization server satisfies a scheme. Many cards declare only `Bearer`."""
    if isinstance(scheme, HttpAuthScheme):
        return normalized_kind(scheme.scheme) == "bearer"
    return isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme)


def normalized_kind(name: str) -> str:
    """A kind in one spelling: `API_Key` and `api-key` are the same."""
    return re.sub(r"[\s_-]", "", name).lower()


# --- secrets in requests ----------------------------------------------------------------------------------------------


def fields_for(name: str, scheme: SecurityScheme, secret: Secret, interface: AgentInterface) -> AuthFields:
    """What a secret adds to a request to an interface.

    Raises:
        Lacking: the binding cannot carry it.
        CredentialsError: it does not fit the scheme, or cannot be sent.
    """
    match scheme, secret:
        case MutualTlsScheme(), Tls() if secret.certificate is not None:
            return AuthFields()  # the connection presents it
        case ApiKeyScheme(), str():
            return _api_key(name, scheme, secret, interface)
        case HttpAuthScheme(), str() | (str(), str()) if normalized_kind(scheme.scheme) == "basic":
            return _basic(name, secret)
        case HttpAuthScheme(), str():
            return (
                bearer_fields(name, secret) if accepts_tokens(scheme) else _authorization(name, scheme.scheme, secret)
            )
        case ((OAuth2Scheme() | OpenIdConnectScheme()), str()):
            return bearer_fields(name, secret)
        case _:
            raise CredentialsError(
                f"The secret for “{name}” is of the wrong kind: the agent demands {describe_scheme(name, scheme)}"
            )


def bearer_fields(name: str, token: str) -> AuthFields:
    """What a token adds to a request. Raises CredentialsError if it cannot be sent."""
    return _authorization(name, "Bearer", token)


def with_fields(options: CallOptions, fields: Sequence[AuthFields]) -> CallOptions:
    """The request with the fields of all schemes. Raises MissingSecret if two need the same header."""
    query, cookies, added = dict(options.query), dict[str, str](), dict[str, str]()
    for one in fields:
        for name, value in one.headers.items():
            if added.setdefault(name, value) != value:
                raise MissingSecret(f"two secrets in one header ({name}), which is impossible")
        query |= one.query
        cookies |= one.cookies
    if cookies:
        added["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return replace(options, headers={**options.headers, **added}, query=query)


def checked_header_value(name: str, secret: str) -> str:
    """The secret, if a header can hold it. Otherwise HTTP and gRPC libraries would quote it in their errors.

    Raises:
        CredentialsError: a header cannot hold it.
    """
    if not secret or not secret.isascii() or not secret.isprintable() or secret != secret.strip():
        raise CredentialsError(f"The secret for “{name}” is empty or has a character that a header cannot hold")
    return secret


def checked_header_name(name: str) -> str:
    """A header name as it is sent. Raises CredentialsError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise CredentialsError("Invalid header name")
    return name.lower()


def _authorization(name: str, word: str, secret: str) -> AuthFields:
    if not _NAME.fullmatch(word):
        raise CredentialsError(f"The card's scheme “{name}” is not a valid HTTP scheme")
    return AuthFields({"authorization": f"{word} {checked_header_value(name, secret)}"})


def _basic(name: str, secret: str | tuple[str, str]) -> AuthFields:
    user, password = secret if isinstance(secret, tuple) else secret.split(":", 1) if ":" in secret else ("", "")
    try:
        pair = f"{user}:{password}".encode()
    except UnicodeEncodeError:
        pair = b""
    # RFC 7617 section 2: a user name with a colon would be read as another name with another password.
    if not pair.strip(b":") or ":" in user or re.search(rb"[\x00-\x1f\x7f]", pair):
        raise CredentialsError(f"The secret for “{name}” is not a user name and a password")
    return _authorization(name, "Basic", b64encode(pair).decode())


def _api_key(name: str, scheme: ApiKeyScheme, secret: str, interface: AgentInterface) -> AuthFields:
    is_grpc = interface.binding == Binding.GRPC
    if scheme.location is ApiKeyLocation.QUERY:
        if is_grpc:
            raise MissingSecret(f"{describe_scheme(name, scheme)}, which gRPC cannot carry")
        return AuthFields(query={scheme.name: secret})
    if not _NAME.fullmatch(scheme.name) or scheme.name.lower() in _RESERVED:
        raise CredentialsError(f"The card names an invalid header or cookie for the key “{name}”")
    value = checked_header_value(name, secret)
    if scheme.location is ApiKeyLocation.HEADER:
        if is_grpc and not _NAME_IN_GRPC.fullmatch(scheme.name.lower()):
            raise MissingSecret(f"{describe_scheme(name, scheme)}, which gRPC cannot carry")
        return AuthFields({scheme.name.lower(): value})
    if re.search(r'[\s",;\\]', value):  # RFC 6265 section 4.1.1
        raise CredentialsError(f"The key for “{name}” has a character that a cookie cannot hold")
    return AuthFields(cookies={scheme.name: value})
