"""Why a store refuses.

StoreError
├── ConflictError              the task has changed since it was read
│   └── LeaseLostError         another worker holds the task now
├── RecordConflictError        a record has another revision than its change expects
├── RepeatedSendError          the message was sent before
└── StoreUnavailableError      nothing can be written or read
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.stores.interface.records import RecordKey
    from parley.stores.interface.sends import SendRecord


class StoreError(ParleyError):
    """The store cannot do this now."""


class ConflictError(StoreError):
    """The task has changed since it was read; read it again."""


class LeaseLostError(ConflictError):
    """Another worker holds the task now; the writer must abandon its run."""


class RecordConflictError(StoreError):
    """The record has changed since it was read; read it again. Nothing of the write was kept."""

    def __init__(self, key: RecordKey) -> None:
        super().__init__()
        self.key = key


class RepeatedSendError(StoreError):
    """The message was sent before; `record` says what became of it. Nothing of the write was kept."""

    def __init__(self, record: SendRecord) -> None:
        super().__init__()
        self.record = record


class StoreUnavailableError(StoreError):
    """The store cannot be written or read: disk full, file locked or broken. Nothing of this was kept."""
