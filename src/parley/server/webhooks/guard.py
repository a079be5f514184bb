"""Which webhooks may be called, so that a caller cannot use the server to reach its private network.

A URL is checked twice. When it is registered, invalid URLs and the names and addresses of private networks are refused.
When it is called, its name is resolved once, every address is checked, and the connection goes to one of these
addresses, so that DNS rebinding has no effect; TLS and the Host header keep the name. The operator may allow hosts.
Spec: 1.0 section 13.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from parley.network.addresses import Address, is_listed, is_public_host, is_public_resolved
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import InvalidParamsError, ParleyError
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.header_values import MAX_SECRET, fits_header
from parley.server.webhooks.schemes import AuthorizationHeader, ConfigPath

ChallengePolicy: TypeAlias = Literal["never", "private", "always"]


class WebhookForbiddenError(ParleyError):
    """This webhook may not be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPolicy:
    """Which webhooks may be called. By default: https, to any host of the public Internet."""

    allow_private: bool = False
    """Whether any address may be called, also without TLS: for development on one machine."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that may be called at any address and without TLS; `.example.com` includes all subdomains."""
    only_listed: bool = False
    """Whether no others than `allowed_hosts` may be called, whatever else is allowed."""
    use_proxy: bool = True
    """Whether webhooks are called through the HTTP proxy that the environment names (HTTPS_PROXY, NO_PROXY)."""
    challenge: ChallengePolicy = "never"
    """Which webhooks must prove, before they are first called, that they want notifications; see `challenge`."""

    def allows(self, host: str) -> bool:
        """Whether a host is exempt from the checks."""
        return is_listed(host, self.allowed_hosts) or (self.allow_private and not self.only_listed)


PUBLIC_ONLY = WebhookPolicy()
"""The default policy."""


# --- when a webhook is registered -------------------------------------------------------------------------------------


def check_webhook_url(url: str, policy: WebhookPolicy = PUBLIC_ONLY, *, path: str = "$.url") -> None:
    """Check that a webhook's URL may be registered.

    Raises:
        InvalidParamsError: it may not; `path` is the JSON path of the URL.
    """
    try:
        _check_url(url, policy)
    except WebhookForbiddenError as error:
        raise InvalidParamsError(error.message, path=path) from None


def check_webhook(
    config: PushConfig,
    policy: WebhookPolicy = PUBLIC_ONLY,
    *,
    path: str = "$",
    version: Version = Version.V1_0,
    authentication: WebhookAuthenticator | None = None,
) -> None:
    """Check the URL and the token of a webhook, and how calls to it shall be authenticated.

    Without `authentication`, another server calls it, and may know any scheme. `version` is the dialect of the config,
    whose members `path` leads to.

    Raises:
        InvalidParamsError: the webhook may not be called, or not in this way.
    """
    check_url_and_token(config, policy, path=path)
    if authentication is None:
        AuthorizationHeader().check(config, ConfigPath(path, version))
    else:
        authentication.check_registration(config, path=path, version=version)


def check_url_and_token(config: PushConfig, policy: WebhookPolicy = PUBLIC_ONLY, *, path: str = "$") -> None:
    """Check what every webhook has, whatever its scheme. Raises InvalidParamsError."""
    check_webhook_url(config.url, policy, path=f"{path}.url")
    if config.token and not fits_header(config.token):
        text = f"A token must be printable ASCII, up to {MAX_SECRET} characters"
        raise InvalidParamsError(text, path=f"{path}.token")


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
    """The policy, for a `PinnedNetwork`. Raises WebhookForbiddenError."""

    policy: WebhookPolicy

    def check_host(self, host: str) -> None:
        """Check that a host is allowed, or that others may be called and it does not look private."""
        if self.policy.allows(host):
            return
        if self.policy.only_listed:
            raise WebhookForbiddenError("The host of the webhook is not one of those that the server calls")
        if not is_public_host(host):
            raise WebhookForbiddenError("A webhook must have a public host, unless the server allows its host")

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Check the resolved addresses of a host."""
        # All of them: a name with public and private addresses is an attack or a mistake.
        if not self.policy.allows(host) and not all(map(is_public_resolved, addresses)):
            raise WebhookForbiddenError("The host has an address that is not public")
