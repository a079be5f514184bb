"""The credentials in a request, and the identity they prove.

They are the same for every binding: HTTP headers and gRPC metadata are read alike, and a client certificate comes from
the TLS connection. Nothing here verifies them; `requirements` does. `PresentedCredentials` holds secrets, so its
representation shows only names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from parley.protocol.cards import ApiKeyLocation, ApiKeyScheme, SecurityScheme
from parley.protocol.jsonvalue import JsonObject

if TYPE_CHECKING:
    from cryptography import x509


class PeerCertificate(Struct, frozen=True):
    """A client certificate whose chain the TLS layer has verified.

    `subject` is the distinguished name in the format of RFC 4514 (`CN=Ada,O=Example`). `alternative_names` are the
    SANs, each with its kind: `dns:agent.example.com`, `uri:spiffe://example.com/agent`, `email:…`, `ip:…`.
    `fingerprint` is the SHA-256 of the certificate in lower-case hex.
    """

    subject: str
    alternative_names: tuple[str, ...]
    fingerprint: str
    der: bytes

    # Every request of a connection has the same certificate, and parsing it takes as long as the rest of a request.
    @staticmethod
    @lru_cache(maxsize=1_024)
    def from_der(der: bytes) -> PeerCertificate:
        """Read a certificate in DER format.

        Raises:
            ValueError: the bytes are not a certificate.
        """
        from cryptography import x509  # not above: few servers ask for client certificates

        certificate = x509.load_der_x509_certificate(der)
        return PeerCertificate(
            subject=certificate.subject.rfc4514_string(),
            alternative_names=_alternative_names(certificate),
            fingerprint=hashlib.sha256(der).hexdigest(),
            der=der,
        )

    @staticmethod
    @lru_cache(maxsize=1_024)
    def from_pem(pem: bytes) -> PeerCertificate:
        """Read the first certificate in a PEM text, which is what gRPC provides.

        Raises:
            ValueError: the text has no certificate.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        return PeerCertificate.from_der(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

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


class PresentedCredentials(Struct, frozen=True):
    """The credentials in a request, not verified yet.

    The names of `headers` are in lower case. A repeated header is joined with commas, as HTTP says; no scheme accepts
    such a value. `query` holds decoded parameters. `address` is the peer's IP address, or empty if unknown.
    """

    headers: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = {}
    certificate: PeerCertificate | None = None
    address: str = ""

    def api_keys(self, location: ApiKeyLocation, name: str) -> list[str]:
        """All values of an API key."""
        match location:
            case ApiKeyLocation.HEADER:
                return [self.headers[name.lower()]] if name.lower() in self.headers else []
            case ApiKeyLocation.QUERY:
                return list(self.query.get(name, ()))
            case ApiKeyLocation.COOKIE:  # RFC 6265 section 4.2
                pairs = [pair.strip(" ").partition("=") for pair in self.headers.get("cookie", "").split(";")]
                return [value for key, equals, value in pairs if key == name and equals]

    def to_repeat(
        self, schemes: Iterable[SecurityScheme], *, names: Sequence[str] = ("authorization",)
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The headers and query parameters of a request that presents the same: headers of `names`, and API keys."""
        headers = {name: self.headers[name] for name in names if name in self.headers}
        query: dict[str, str] = {}
        cookies: list[str] = []
        for scheme in schemes:
            if not isinstance(scheme, ApiKeyScheme):
                continue
            for key in self.api_keys(scheme.location, scheme.name)[:1]:
                match scheme.location:
                    case ApiKeyLocation.HEADER:
                        headers[scheme.name.lower()] = key
                    case ApiKeyLocation.QUERY:
                        query[scheme.name] = key
                    case ApiKeyLocation.COOKIE:
                        cookies.append(f"{scheme.name}={key}")
        if cookies:
            headers["cookie"] = "; ".join(cookies)
        return headers, query

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("headers", sorted(self.headers)), ("query", sorted(self.query)), ("address", self.address)]

    def __repr__(self) -> str:
        return f"PresentedCredentials({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Identity(Struct, frozen=True):
    """An authenticated caller, or the anonymous one, whose name is empty.

    `name` is `scheme:subject`, so callers of two schemes never have the same name; see `requirements`. `tenant` is None
    if the credentials do not belong to a tenant.
    """

    name: str = ""
    scopes: frozenset[str] = frozenset()
    claims: JsonObject = {}
    tenant: str | None = None


ANONYMOUS = Identity()
"""A caller without credentials, where that is allowed."""
