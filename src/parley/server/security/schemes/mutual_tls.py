"""Mutual TLS: a client certificate that the TLS layer has verified, and that is allowed here.

A certificate is known by a text that begins with its kind: `subject:CN=Ada,O=Example`, `dns:agent.example.com`,
`uri:spiffe://example.com/agent`, `email:ada@example.com`, `ip:192.0.2.1`, `sha256:` and the fingerprint. That text
becomes the caller's subject. Headers in which a proxy reports a certificate are not believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from parley.protocol.cards import MutualTlsScheme, SecurityScheme
from parley.server.security.credentials import PeerCertificate, PresentedCredentials
from parley.server.security.schemes.scheme import Challenge, Proof, Refused, SettingError

_MATCH = re.compile(r"(subject|dns|uri|email|ip):.+|sha256:[0-9a-f]{64}", re.DOTALL)


class AllowedCertificate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A certificate that is accepted, by one of its names or its fingerprint, and what it allows."""

    match: str
    scopes: tuple[str, ...] = ()
    tenant: str | None = None


class MutualTls:
    """Accepts the certificates listed; without a list, every one that the server's authorities vouch for."""

    def __init__(
        self, certificates: Sequence[AllowedCertificate] | None = None, *, description: str | None = None
    ) -> None:
        """Raises SettingError if an entry does not begin with a kind, or the list is empty."""
        if certificates is not None and not certificates:
            raise SettingError("certificates", "an empty list lets nobody in; leave it out to accept all verified ones")
        for index, entry in enumerate(certificates or ()):
            if not _MATCH.fullmatch(entry.match):
                problem = "it is not a kind (subject, dns, uri, email, ip, sha256), a colon and a name"
                raise SettingError(f"certificates[{index}].match", problem)
        self._allowed = None if certificates is None else {_folded(entry.match): entry for entry in certificates}
        self._description = description

    @property
    def card(self) -> SecurityScheme:
        """Mutual TLS."""
        return MutualTlsScheme(description=self._description)

    @property
    def challenge(self) -> Challenge:
        """A word of our own: HTTP wants a challenge in every 401, and none is registered for certificates."""
        return Challenge("TLS-Client-Certificate")

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Whose certificate it is; see `Scheme.verify`."""
        certificate = credentials.certificate
        if certificate is None:
            return None
        names = _names(certificate)
        if self._allowed is None:
            return Proof(names[0])
        for name in names:
            if entry := self._allowed.get(_folded(name)):
                return Proof(entry.match, frozenset(entry.scopes), tenant=entry.tenant)
        raise Refused("The certificate is not allowed")

    async def close(self) -> None:
        """Nothing to do."""


def _names(certificate: PeerCertificate) -> list[str]:
    """Everything a certificate may be known by, the best first: its subject, for it outlives the certificate."""
    subject = [f"subject:{certificate.subject}"] if certificate.subject else []
    return [*subject, *certificate.alternative_names, f"sha256:{certificate.fingerprint}"]


def _folded(name: str) -> str:
    """Names of hosts are equal in upper and lower case; nothing else is."""
    return name.lower() if name.startswith("dns:") else name
