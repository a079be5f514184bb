"""Mutual TLS: client certificates that the TLS layer has verified.

A certificate is identified by a string that starts with a kind: `subject:CN=Ada,O=Example`, `dns:agent.example.com`,
`uri:spiffe://example.com/agent`, `email:ada@example.com`, `ip:192.0.2.1`, or `sha256:` and the fingerprint. That string
is the caller's subject. Headers in which a proxy reports a certificate are ignored.
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
    """An allowed certificate, by one of its names or its fingerprint, with its scopes and tenant."""

    match: str
    scopes: tuple[str, ...] = ()
    tenant: str | None = None


class MutualTls:
    """Accepts the certificates that are listed; without a list, every certificate that TLS has verified."""

    def __init__(
        self, certificates: Sequence[AllowedCertificate] | None = None, *, description: str | None = None
    ) -> None:
        """Raises SettingError if an entry does not start with a kind, or the list is empty."""
        if certificates is not None and not certificates:
            raise SettingError("certificates", "the list is empty; leave it out to accept all verified certificates")
        for index, entry in enumerate(certificates or ()):
            if not _MATCH.fullmatch(entry.match):
                problem = "it must be a kind (subject, dns, uri, email, ip, sha256), a colon and a name"
                raise SettingError(f"certificates[{index}].match", problem)
        self._allowed = None if certificates is None else {_folded(entry.match): entry for entry in certificates}
        self.card: SecurityScheme = MutualTlsScheme(description=description)
        # Not a registered scheme: HTTP needs a challenge in every 401, and there is none for certificates.
        self.challenge = Challenge("TLS-Client-Certificate")

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Identify the holder of the certificate; see `Scheme.verify`."""
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
    """All strings that identify a certificate. The subject is first, because renewed certificates keep it."""
    subject = [f"subject:{certificate.subject}"] if certificate.subject else []
    return [*subject, *certificate.alternative_names, f"sha256:{certificate.fingerprint}"]


def _folded(name: str) -> str:
    """The name in lower case if it is a host name; other kinds are case-sensitive."""
    return name.lower() if name.startswith("dns:") else name
