"""TLS from files: the server's certificate, and the authority whose client certificates are accepted.

One value gives both servers what they need: an `ssl` context for HTTP and credentials for gRPC. Both read the
certificate and its key again on request, so a renewed one is used without a restart. What is wrong with a file is said
before anything listens.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, cast

from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    import grpc

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has no others."""


_MISMATCHES = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""What OpenSSL calls a key of another certificate; the last when it is of another kind, such as RSA to an EC one."""


class TlsError(ParleyError):
    """The TLS files cannot be used."""


class ClientCertificates(StrEnum):
    """Whether callers must show a certificate of the client authority."""

    OPTIONAL = "optional"
    """HTTP callers may; a scheme of the card can then ask for it. gRPC does not ask."""
    REQUIRED = "required"
    """Nobody gets in without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. `certificate` holds the chain, the server's own certificate first."""

    certificate: Path
    key: Path
    client_authority: Path | None = None
    client_certificates: ClientCertificates = ClientCertificates.REQUIRED

    def context(self) -> ssl.SSLContext:
        """What an HTTP server needs.

        Raises:
            TlsError: a file is missing, is no PEM, or does not fit the others.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        self.load_certificate(context)
        if self.client_authority is not None:
            required = self.client_certificates is ClientCertificates.REQUIRED
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(self.client_authority)
            except OSError as error:  # ssl.SSLError is one
                raise TlsError(_reason(error, self.client_authority)) from error
        return context

    def load_certificate(self, context: ssl.SSLContext) -> None:
        """Put the certificate as it is now into a context; connections made from now on see it.

        Raises:
            TlsError: as for `context`; the context keeps what it had.
        """
        # A context is changed in two steps: a key that does not fit would leave the old one with the new certificate.
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._load(context)

    def _load(self, context: ssl.SSLContext) -> None:
        for file in (self.certificate, self.key):
            _read(file)
        try:
            context.load_cert_chain(self.certificate, self.key, password=_refuse_password)
        except ssl.SSLError as error:
            if error.reason in _MISMATCHES:
                raise TlsError(f"{self.key} is not the key of {self.certificate}") from error
            raise TlsError(f"{self.certificate} and {self.key} are no certificate and key in PEM") from error

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """What a gRPC server needs. It looks at the files again when their times change.

        Raises:
            TlsError: as for `context`.
        """
        import grpc  # only those who serve gRPC have it

        self.context()  # gRPC reports bad files by failing every handshake
        renewal = GrpcRenewal(self)
        return grpc.dynamic_ssl_server_credentials(
            self.grpc_certificate(),
            cast("Callable[[], grpc.ServerCertificateConfiguration]", renewal),  # the stubs forget that None is allowed
            require_client_authentication=self.client_authority is not None
            and self.client_certificates is ClientCertificates.REQUIRED,
        )

    def grpc_certificate(self) -> grpc.ServerCertificateConfiguration:
        """The certificate as it is now, in gRPC's form. Raises TlsError if a file cannot be read."""
        import grpc

        roots = None if self.client_authority is None else _read(self.client_authority)
        return grpc.ssl_server_certificate_configuration([(_read(self.key), _read(self.certificate))], roots)

    def times(self) -> list[int]:
        """When the certificate and its key were last written; nothing while one is missing."""
        try:
            return [file.stat().st_mtime_ns for file in (self.certificate, self.key)]
        except OSError:
            return []


class GrpcRenewal:
    """Asked by gRPC, in a thread of its own, before each handshake: a certificate that has changed, or None."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = files.times()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        """The new certificate, if there is one that can be used."""
        times = self._files.times()
        if times == self._seen:
            return None
        self._seen = times
        try:
            self._files.context()
            return self._files.grpc_certificate()
        except TlsError:  # half written, or wrong: the old one goes on
            return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TlsError(_reason(error, file)) from error


def _reason(error: OSError, file: Path) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{file} holds no certificates in PEM"
    return f"{file} cannot be read: {error.strerror}"


def _refuse_password() -> str:
    # Without this OpenSSL would ask for it on the terminal, and a service has none.
    raise TlsError("The key is encrypted. Decrypt it first: openssl pkey -in key.pem -out plain.pem")
