"""What can go wrong with a connection.

NetworkError
├── NotConnectedError           nobody is there; nothing was sent
│   └── NotConnectedInTimeError
├── BrokenConnectionError       it ended too early, or what came over it is no HTTP
└── SilentConnectionError       nothing came for too long
"""

from __future__ import annotations


class NetworkError(Exception):
    """Something went wrong with a connection."""


class NotConnectedError(NetworkError):
    """There is no connection, so nothing was sent."""


class NotConnectedInTimeError(NotConnectedError):
    """There was no connection in time."""


class BrokenConnectionError(NetworkError):
    """The connection ended in the middle of a reply, or what came over it is no HTTP."""


class SilentConnectionError(NetworkError):
    """Nothing came for too long."""
