"""Which webhooks may be called: no URL that a stranger registers makes this server talk to its own network.

A URL is looked at twice. When it is registered, everything that can be told from its text is refused: schemes, odd
spellings, names and addresses of private networks. When it is called, its name is resolved once, every address is
checked, and the connection goes to a checked address itself, so that a name cannot mean something else a moment later;
the name stays in TLS and in the Host header. Whoever runs the server may allow hosts. Spec: 1.0 section 13.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from parley.network.addresses import (
    Address,
    AmbiguousHostError,
    check_name,
    is_listed,
    is_local_name,
    is_public,
    is_public_resolved,
    read_address,
)
from parley.network.pinned import NameResolver, Resolve
from parley.protocol.errors import InvalidParamsError, ParleyError
from parley.protocol.push import PushConfig

__all__ = [
    "MAX_SECRET",
    "MAX_URL",
    "PUBLIC_ONLY",
    "NameResolver",
    "Resolve",
    "WebhookForbiddenError",
    "WebhookPolicy",
    "WebhookRules",
    "authorization_of",
    "check_webhook",
    "check_webhook_url",
    "is_public",
    "is_public_resolved",
]

MAX_URL = 2_048
"""Longer URLs are refused by many servers."""

_FORBIDDEN = re.compile(r"[^\x21-\x7e]|\\")  # spaces, controls, and what is not ASCII; browsers read \ as /
MAX_SECRET = 8 * 1024
"""What most servers take in one header."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class WebhookForbiddenError(ParleyError):
    """This webhook may not be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPolicy:
    """Which webhooks whoever runs the server allows.

    By default: https, to any host of the public Internet.
    """

    allow_private: bool = False
    """Whether any address may be called, and without TLS: for development on one machine."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that may be called whatever their addresses, and without TLS; `.example.com` allows all below it."""
    use_proxy: bool = True
    """Whether webhooks are called through the HTTP proxy that the environment names (HTTPS_PROXY, NO_PROXY)."""

    def allows(self, host: str) -> bool:
        """Whether a host is exempt from the checks."""
        return self.allow_private or is_listed(host, self.allowed_hosts)


PUBLIC_ONLY = WebhookPolicy()
"""The policy of a server whose owner has not said otherwise."""


# --- when a webhook is registered -------------------------------------------------------------------------------------


def check_webhook_url(url: str, policy: WebhookPolicy = PUBLIC_ONLY, *, path: str = "$.url") -> None:
    """Make sure that a webhook's URL may be registered.

    Raises:
        InvalidParamsError: it may not; the message says why, `path` where.
    """
    try:
        _check_url(url, policy)
    except WebhookForbiddenError as error:
        raise InvalidParamsError(error.message, path=path) from None


def check_webhook(config: PushConfig, policy: WebhookPolicy = PUBLIC_ONLY, *, path: str = "$") -> None:
    """Make sure that a webhook can be called as its config wants it. Raises InvalidParamsError."""
    check_webhook_url(config.url, policy, path=f"{path}.url")
    if config.token and not _fits_header(config.token):
        raise InvalidParamsError(f"A token is printable ASCII, up to {MAX_SECRET} characters", path=f"{path}.token")
    authorization = authorization_of(config)
    if authorization and not _fits_header(authorization):
        text = f"Credentials are printable ASCII, up to {MAX_SECRET} characters"
        raise InvalidParamsError(text, path=f"{path}.authentication")


def _fits_header(text: str) -> bool:
    return len(text) <= MAX_SECRET and _HEADER_VALUE.fullmatch(text) is not None


def authorization_of(config: PushConfig) -> str | None:
    """The Authorization header that a webhook wants: its first scheme and its credentials."""
    authentication = config.authentication
    if authentication is None or not authentication.schemes or not authentication.credentials:
        return None
    return f"{authentication.schemes[0]} {authentication.credentials}"


def _check_url(url: str, policy: WebhookPolicy) -> None:
    if len(url) > MAX_URL:
        raise WebhookForbiddenError(f"A webhook's URL has {MAX_URL} characters at most")
    if _FORBIDDEN.search(url):
        raise WebhookForbiddenError("A webhook's URL is printable ASCII, other characters encoded")
    parts, host = _split(url)
    is_allowed = policy.allows(host)
    if parts.scheme == "http" and not is_allowed:
        raise WebhookForbiddenError("A webhook's URL begins with https, unless the server is told to allow its host")
    _check_host(host, is_allowed=is_allowed)


def _split(url: str) -> tuple[SplitResult, str]:
    """A URL and its host, of which nothing is left to anybody's interpretation."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise WebhookForbiddenError("A webhook needs a URL") from None
    if parts.scheme not in ("http", "https"):
        raise WebhookForbiddenError("A webhook's URL begins with https://")
    if "@" in parts.netloc:
        raise WebhookForbiddenError("A webhook's URL names no user; use its authentication")
    if not host or port == 0 or parts.netloc.endswith(":"):
        raise WebhookForbiddenError("A webhook's URL names a host, and a port only if it has one")
    return parts, host


def _check_host(host: str, *, is_allowed: bool) -> Address | None:
    """The address that a host is, or None if it is a name. Raises WebhookForbiddenError if it cannot be public."""
    try:
        address = read_address(host)
        if address is None:
            check_name(host)
    except AmbiguousHostError as error:
        raise WebhookForbiddenError(f"A webhook's {error}") from None
    if not is_allowed and address is None and is_local_name(host):
        raise WebhookForbiddenError("A webhook has a public host name")
    if not is_allowed and address is not None and not is_public(address):
        raise WebhookForbiddenError("A webhook has a public address, unless the server is told to allow its host")
    return address


# --- when a webhook is called -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """The policy, as a pinned network asks for it. Raises WebhookForbiddenError."""

    policy: WebhookPolicy

    def check_host(self, host: str) -> Address | None:
        """The address that a host is, or None if it is a name that may be resolved."""
        return _check_host(host.lower(), is_allowed=self.policy.allows(host))

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Make sure that a host may be called."""
        # All of them: a name with public and private addresses is an attack, or a mistake that looks like one.
        if not self.policy.allows(host) and not all(map(is_public_resolved, addresses)):
            raise WebhookForbiddenError("The host has an address that is not public")
