"""A whole store: its parts, and how it is opened.

- A write returns when it is durable: a crash at any later moment loses none of it, and a write that raised left nothing
  behind. A write is one transaction, whatever it holds.
- Writes of one caller take effect in the order in which they were called, awaited or not.
- A store that `is_shared` may be written by other workers at the same time. One that is not belongs to one process: to
  open it ends the leases of all workers before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from parley.stores.interface.contexts import ContextValues
from parley.stores.interface.inbox import Inbox
from parley.stores.interface.leases import Leases
from parley.stores.interface.outbox import Outbox
from parley.stores.interface.owner_data import OwnerData
from parley.stores.interface.records import Records
from parley.stores.interface.sends import SendRecords
from parley.stores.interface.tasks import TaskLog

if TYPE_CHECKING:
    from parley.sealed.sealer import Sealer


class Store(Protocol):
    """Where an engine keeps everything."""

    tasks: TaskLog
    """Tasks and their events."""
    sends: SendRecords
    """What became of messages."""
    outbox: Outbox
    """Webhooks, and which of them are behind."""
    contexts: ContextValues
    """What agents keep for conversations."""
    records: Records
    """Named JSON objects of tenants."""
    leases: Leases
    """Which workers are alive."""
    inbox: Inbox
    """What waits for the holders of tasks."""
    owner_data: OwnerData
    """What is kept of an owner beside its tasks."""
    sealer: Sealer
    """Encrypts secrets for this store: those of webhooks and some records by itself, others where they are written."""
    is_shared: bool
    """Whether other workers may write at the same time."""

    async def open(self) -> None:
        """Make the store ready; bring its schema up to date.

        Raises:
            StoreUnavailableError: it cannot be opened; the message says why and what to do.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and let go."""
        ...

    def problem(self) -> str | None:
        """Why nothing can be written, by the last write and a check; None if writes succeed.

        One sentence for health checks: it names no paths and no contents.
        """
        ...
