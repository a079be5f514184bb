"""What a request brought to prove who sends it, and who that turned out to be.

The same for every binding: HTTP headers and gRPC metadata are read alike, and a client certificate comes from whoever
ended the TLS connection. Nothing here decides; `security` does. Secrets are in `Credentials`, so its representation
shows none of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject


class PeerCertificate(Struct, frozen=True):
    """A client certificate whose chain the TLS layer has verified already.

    `subject` is the distinguished name as RFC 4514 writes it (`CN=Ada,O=Example`). `alternative_names` are the SANs,
    each with its kind: `dns:agent.example.com`, `uri:spiffe://example.com/agent`, `email:…`, `ip:…`. `fingerprint` is
    the SHA-256 of the certificate in lower-case hex.
    """

    subject: str
    alternative_names: tuple[str, ...]
    fingerprint: str
    der: bytes

    @staticmethod
    def from_der(der: bytes) -> PeerCertificate:
        """The certificate in these bytes.

        Raises:
            ValueError: they are no certificate.
        """
        return _read_der(der)

    @staticmethod
    def from_pem(pem: str | bytes) -> PeerCertificate:
        """The first certificate in a PEM text, which is how gRPC hands it over.

        Raises:
            ValueError: there is none.
        """
        return _read_pem(pem.encode() if isinstance(pem, str) else pem)


# A connection brings the same certificate with each request, and reading it takes as long as the rest of a request.
@lru_cache(maxsize=1_024)
def _read_der(der: bytes) -> PeerCertificate:
    certificate = x509.load_der_x509_certificate(der)
    return PeerCertificate(
        subject=certificate.subject.rfc4514_string(),
        alternative_names=_alternative_names(certificate),
        fingerprint=hashlib.sha256(der).hexdigest(),
        der=der,
    )


@lru_cache(maxsize=1_024)
def _read_pem(pem: bytes) -> PeerCertificate:
    return _read_der(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    kinds = (
        ("dns", names.get_values_for_type(x509.DNSName)),
        ("uri", names.get_values_for_type(x509.UniformResourceIdentifier)),
        ("email", names.get_values_for_type(x509.RFC822Name)),
        ("ip", map(str, names.get_values_for_type(x509.IPAddress))),
    )
    return tuple(f"{kind}:{value}" for kind, values in kinds for value in values)


class Credentials(Struct, frozen=True):
    """What a request brought.

    Names of `headers` are in lower case. A header that came twice must be joined with a comma, as HTTP says; no reader
    of secrets accepts that. `query` holds decoded parameters, `address` is the peer's IP address or empty.
    """

    headers: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = {}
    certificate: PeerCertificate | None = None
    address: str = ""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("headers", sorted(self.headers)), ("query", sorted(self.query)), ("address", self.address)]

    def __repr__(self) -> str:
        return f"Credentials({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Identity(Struct, frozen=True):
    """Who a request comes from. The empty name is everybody who is let in without credentials.

    `name` is `scheme:subject`, so two schemes never mean the same caller by accident; see `security`. `tenant` is None
    where the credentials do not bind the caller to one.
    """

    name: str = ""
    scopes: frozenset[str] = frozenset()
    claims: JsonObject = {}
    tenant: str | None = None


ANONYMOUS = Identity()
"""Whoever comes without credentials where that is allowed."""
