"""TLS from files: the server's certificate, and the authority whose client certificates are accepted.

`TlsFiles` creates an `ssl` context for HTTP and credentials for gRPC. Both can reload the certificate and its key, so
that a renewed one is used without a restart. Errors in a file are reported before the server listens.
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
"""For TLS 1.2: only those with forward secrecy and authenticated encryption. TLS 1.3 has no others."""

_MISMATCHES = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""OpenSSL's codes for a key of another certificate; the last one if the key types differ, such as RSA and EC."""


class TlsError(ParleyError):
    """The TLS files cannot be used."""


class ClientCertificates(StrEnum):
    """Whether callers must present a certificate of the client authority."""

    OPTIONAL = "optional"
    """HTTP callers may present one, and a security scheme can require it. gRPC does not request one."""
    REQUIRED = "required"
    """The TLS handshake fails without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. `certificate` contains the chain, with the server's own certificate first."""

    certificate: Path
    key: Path
    client_authority: Path | None = None
    client_certificates: ClientCertificates = ClientCertificates.REQUIRED

    def context(self) -> ssl.SSLContext:
        """The `ssl` context for an HTTP server.

        Raises:
            TlsError: a file is missing or not PEM, or the key does not belong to the certificate.
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
        """Load the certificate files into a context; new connections use them.

        Raises:
            TlsError: as for `context`; the context stays unchanged.
        """
        # Loading first sets the certificate and then the key, so a wrong key would leave the context half changed.
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
            raise TlsError(f"{self.certificate} and {self.key} are not a certificate and key in PEM format") from error

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """The credentials for a gRPC server. It reloads the files when their modification times change.

        Raises:
            TlsError: as for `context`.
        """
        import grpc  # optional dependency

        self.context()  # gRPC reports bad files by failing every handshake
        reload = GrpcCertificateReload(self)
        return grpc.dynamic_ssl_server_credentials(
            self.grpc_certificate(),
            cast("Callable[[], grpc.ServerCertificateConfiguration]", reload),  # the stubs do not allow None
            require_client_authentication=self.client_authority is not None
            and self.client_certificates is ClientCertificates.REQUIRED,
        )

    def grpc_certificate(self) -> grpc.ServerCertificateConfiguration:
        """The current certificate in gRPC's format. Raises TlsError if a file cannot be read."""
        import grpc

        roots = None if self.client_authority is None else _read(self.client_authority)
        return grpc.ssl_server_certificate_configuration([(_read(self.key), _read(self.certificate))], roots)

    def times(self) -> list[int]:
        """The modification times of the certificate and its key; empty while one is missing."""
        try:
            return [file.stat().st_mtime_ns for file in (self.certificate, self.key)]
        except OSError:
            return []


class GrpcCertificateReload:
    """Returns a changed certificate, or None. gRPC calls it before each handshake, in a thread of its own."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = files.times()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        """The new certificate, if it has changed and is valid."""
        times = self._files.times()
        if times == self._seen:
            return None
        self._seen = times
        try:
            self._files.context()
            return self._files.grpc_certificate()
        except TlsError:  # half written or invalid: keep the old one
            return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TlsError(_reason(error, file)) from error


def _reason(error: OSError, file: Path) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{file} contains no certificates in PEM format"
    return f"{file} cannot be read: {error.strerror}"


def _refuse_password() -> str:
    # Without this, OpenSSL would prompt for the password on the terminal.
    raise TlsError("The key is encrypted. Decrypt it first: openssl pkey -in key.pem -out plain.pem")
