"""Errors of outgoing connections.

NetworkError
├── ConnectError                there is no connection; nothing was sent
│   └── ConnectTimeoutError
├── BrokenConnectionError       the connection ended too early, or the server does not speak HTTP
└── ReadTimeoutError            the server sent nothing in time
"""

from __future__ import annotations


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
