"""Why a store refuses.

StoreError
├── ConflictError              the task has changed since it was read
└── StoreUnavailableError      nothing can be written or read
"""

from __future__ import annotations

from parley.protocol.errors import ParleyError


class StoreError(ParleyError):
    """The store cannot do this now."""


class ConflictError(StoreError):
    """The task has changed since it was read; read it again."""


class StoreUnavailableError(StoreError):
    """The store cannot be written or read: disk full, file locked or broken. Nothing of this was kept."""
