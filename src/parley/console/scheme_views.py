"""Security schemes as the page shows them, and the credentials that a filled-in form yields.

They are the same for logging in at this server and at agents elsewhere. What needs more than a form (the redirect of
OAuth, a device code) is for agents: `agents/` changes `flow` where it supports it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from parley.console.api.errors import ConsoleError
from parley.console.sessions import SessionCredentials
from parley.protocol.cards import (
    ApiKeyLocation,
    ApiKeyScheme,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityScheme,
)

Flow: TypeAlias = Literal["form", "redirect", "device", "unsupported"]
Kind: TypeAlias = Literal["http", "api_key", "oauth2", "openid", "mutual_tls"]


class SchemeField(Struct, frozen=True):
    """One value that a person types to log in."""

    name: str
    label: str
    is_secret: bool = True
    is_required: bool = True


class SchemeView(Struct, frozen=True):
    """A security scheme as the page shows it."""

    name: str
    kind: Kind
    description: str = ""
    scheme: str = ""
    """Of an HTTP scheme: `bearer`, `basic`."""
    fields: tuple[SchemeField, ...] = ()
    flow: Flow = "form"
    scopes: dict[str, str] = {}
    reason: str = ""
    """Why one cannot log in with it here."""


TOKEN_FIELDS = (SchemeField("token", "Token"),)
PASSWORD_FIELDS = (SchemeField("username", "User name", is_secret=False), SchemeField("password", "Password"))


def view_scheme(name: str, scheme: SecurityScheme) -> SchemeView:
    """A scheme with the form that logs in with it. Of OAuth and OpenID Connect, a person may paste an access token."""
    about = scheme.description or ""
    match scheme:
        case HttpAuthScheme() if scheme.scheme.lower() == "basic":
            return SchemeView(name, "http", about, "basic", PASSWORD_FIELDS)
        case HttpAuthScheme() if scheme.scheme.lower() == "bearer":
            return SchemeView(name, "http", about, "bearer", TOKEN_FIELDS)
        case HttpAuthScheme():
            return SchemeView(name, "http", about, scheme.scheme, (SchemeField("token", "Credentials"),))
        case ApiKeyScheme():
            return SchemeView(name, "api_key", about, "", (SchemeField("key", "API key"),))
        case OAuth2Scheme():
            return SchemeView(name, "oauth2", about, "", (SchemeField("token", "Access token"),))
        case OpenIdConnectScheme():
            return SchemeView(name, "openid", about, "", (SchemeField("token", "Access token"),))
        case MutualTlsScheme():
            reason = "A browser cannot present a client certificate through this page."
            return SchemeView(name, "mutual_tls", about, flow="unsupported", reason=reason)


def credentials_from_form(name: str, scheme: SecurityScheme, values: Mapping[str, str]) -> SessionCredentials:
    """The credentials that the values of a form yield.

    Raises:
        ConsoleError: a value is missing or cannot be sent, or the scheme has no form.
    """
    view = view_scheme(name, scheme)
    if view.flow != "form":
        raise ConsoleError("unsupported", view.reason, path="$.scheme")
    given = {one.name: _value(one, values) for one in view.fields}
    match scheme:
        case HttpAuthScheme() if view.scheme == "basic":
            text = f"{given['username']}:{given['password']}"
            return SessionCredentials({"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"})
        case HttpAuthScheme() if view.scheme != "bearer":
            return SessionCredentials({"authorization": f"{scheme.scheme} {given['token']}"})
        case ApiKeyScheme(location=ApiKeyLocation.HEADER):
            return SessionCredentials({scheme.name.lower(): given["key"]})
        case ApiKeyScheme(location=ApiKeyLocation.QUERY):
            return SessionCredentials(query={scheme.name: given["key"]})
        case ApiKeyScheme():
            return SessionCredentials(cookies={scheme.name: given["key"]})
        case _:
            return SessionCredentials({"authorization": f"Bearer {given['token']}"})


def _value(field: SchemeField, values: Mapping[str, str]) -> str:
    value = values.get(field.name, "").strip() if field.name != "password" else values.get(field.name, "")
    path = f"$.values.{field.name}"
    if not value:
        raise ConsoleError("bad_request", f"{field.label} is missing", path=path)
    if len(value) > 16_384 or not value.isprintable():
        raise ConsoleError("bad_request", f"{field.label} is too long or has control characters", path=path)
    if field.name not in ("username", "password") and not value.isascii():
        raise ConsoleError("bad_request", f"{field.label} may have ASCII characters only", path=path)
    return value
