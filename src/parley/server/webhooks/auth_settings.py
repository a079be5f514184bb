"""What the operator configures for authentication to webhooks: clients of authorization servers, and certificates.

Callers choose the scheme of a webhook, but these credentials go only to the hosts that the operator lists, and to the
usual port unless the list names another. `auth_file` reads them from a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from parley.network.addresses import is_listed
from parley.network.urls import Url

if TYPE_CHECKING:  # a server without such certificates needs no HTTP client
    from parley.client.transports.connections import Tls

SigningPolicy: TypeAlias = Literal["when-asked", "always"]

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host, or with a leading dot all its subdomains; without a port, the usual one of the URL's scheme."""

    host: str
    port: int | None = None

    def matches(self, url: Url) -> bool:
        """Whether a URL is at this host."""
        return is_listed(url.host, (self.host,)) and url.port == (self.port or _DEFAULT_PORTS[url.scheme])


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOAuthClient:
    """The client that gets access tokens for the webhooks of some hosts. `resource` is that of RFC 8707."""

    hosts: tuple[HostPattern, ...]
    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookCertificate:
    """The client certificate for the webhooks of some hosts, and the authorities to trust there."""

    hosts: tuple[HostPattern, ...]
    files: Tls

    def stamp(self) -> tuple[int, ...]:
        """When its files were written: a certificate that was renewed has another one. Raises OSError."""
        files = (self.files.certificate, self.files.key, self.files.authorities)
        return tuple(file.stat().st_mtime_ns for file in files if file is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAuthSettings:
    """Authentication to webhooks, as the operator configures it. The first entry that lists a host is used."""

    sign: SigningPolicy = "when-asked"
    """Whether webhooks without credentials of their own get a JWT."""
    oauth2: tuple[WebhookOAuthClient, ...] = ()
    mtls: tuple[WebhookCertificate, ...] = ()

    def oauth_client(self, url: Url) -> WebhookOAuthClient | None:
        """The client for a webhook."""
        return next((client for client in self.oauth2 if _lists(client.hosts, url)), None)

    def client_certificate(self, url: Url) -> WebhookCertificate | None:
        """The certificate for a webhook."""
        return next((certificate for certificate in self.mtls if _lists(certificate.hosts, url)), None)


def _lists(hosts: Sequence[HostPattern], url: Url) -> bool:
    return any(pattern.matches(url) for pattern in hosts)
