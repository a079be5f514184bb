"""Why the host's data refuses a read or a change; nothing was written then.

    HostDataError
    ├── NotFoundError              absent, or another tenant's: the two look the same
    ├── AlreadyExistsError         the name is taken
    ├── StaleRevisionError         the caller has not seen the latest version
    ├── InvalidValueError          a value is missing, wrong or out of range; `path` says which
    └── LimitReachedError          the tenant has as much of this as it may have

Each module derives the errors of its own data from these. The native API has one status for each of the five. Texts
name only what the caller sent, so they may be shown to the caller.
"""

from __future__ import annotations

from parley.protocol.errors import ParleyError


class HostDataError(ParleyError):
    """The host cannot do this with its data."""


class NotFoundError(HostDataError):
    """There is no such thing."""


class AlreadyExistsError(HostDataError):
    """This name is taken."""


class StaleRevisionError(HostDataError):
    """This has changed since it was read; read it again."""


class InvalidValueError(HostDataError):
    """A value is not valid. `path` is its JSON path, such as `$.temperature`."""

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.path = path


class LimitReachedError(HostDataError):
    """The tenant has reached a limit."""
