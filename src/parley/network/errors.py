"""Errors of outgoing connections.

NetworkError
├── ConnectError                there is no connection; nothing was sent
│   └── ConnectTimeoutError
├── BrokenConnectionError       the connection ended too early, or the server does not speak HTTP
└── ReadTimeoutError            the server sent nothing in time
"""

from __future__ import annotations

import os
import ssl


class NetworkError(Exception):
    """A connection failed."""


class ConnectError(NetworkError):
    """The connection could not be opened, so nothing was sent."""


class ConnectTimeoutError(ConnectError):
    """The connection could not be opened in time."""


class BrokenConnectionError(NetworkError):
    """The connection ended in the middle of a response, or the server does not speak HTTP."""


class ReadTimeoutError(NetworkError):
    """The server sent nothing in time."""


def connect_error(error: OSError) -> ConnectError:
    """The error for a failure of TCP or TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConnectError(f"its certificate cannot be trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        hint = "; does it speak plain http?" if error.reason == "WRONG_VERSION_NUMBER" else ""
        return ConnectError(f"TLS fails: {error.reason or type(error).__name__}{hint}")
    return ConnectError(os.strerror(error.errno).lower() if error.errno else str(error))
