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

from parley.network.addresses import Address, is_listed, is_public, is_public_host, is_public_resolved
from parley.network.pinned import NameResolver, Resolve
from parley.network.urls import MAX_URL, InvalidUrlError, parse_url
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
    try:
        parsed = parse_url(url)
    except InvalidUrlError as error:
        raise WebhookForbiddenError(error.message) from None
    if parsed.scheme == "http" and not policy.allows(parsed.host):
        raise WebhookForbiddenError("A webhook's URL must start with https://, unless the server allows its host")
    WebhookRules(policy).check_host(parsed.host)


# --- when a webhook is called -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """The policy, as a pinned network asks for it. Raises WebhookForbiddenError."""

    policy: WebhookPolicy

    def check_host(self, host: str) -> None:
        """Make sure that a host is public, as far as its text shows, or allowed."""
        if not self.policy.allows(host) and not is_public_host(host):
            raise WebhookForbiddenError("A webhook must have a public host, unless the server allows its host")

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Make sure that a host may be called."""
        # All of them: a name with public and private addresses is an attack, or a mistake that looks like one.
        if not self.policy.allows(host) and not all(map(is_public_resolved, addresses)):
            raise WebhookForbiddenError("The host has an address that is not public")
