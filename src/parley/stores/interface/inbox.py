"""The inbox of tasks at work: how a message or a cancel reaches the worker that holds a task, from any other worker.

An item is posted beside the log, because only the holder may append. The holder takes it: what it appends because of it
is written together with the deletion of the item (`Write.taken`). The worker that posted it sees that it is gone, or
withdraws it when the holder has died and the task can be claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.stores.interface.keys import TaskKey
from parley.stores.interface.sends import SendKey, SendRecord


class InboxItem(Struct, frozen=True, gc=False):
    """A message for a task at work, with what came with it; without a message, a request to cancel the task."""

    id: str
    key: TaskKey
    version: Version
    message: Message | None = None
    send: tuple[SendKey, SendRecord] | None = None
    webhook: PushConfig | None = None


class Inbox(Protocol):
    """Items that wait for the holders of their tasks."""

    async def post(self, item: InboxItem) -> None:
        """Leave an item for the holder of a task.

        Raises:
            ConflictError: no worker holds the task.
        """
        ...

    async def items(self, holder: str) -> Sequence[InboxItem]:
        """The items for tasks that a worker holds now, oldest first, without those whose secrets cannot be read now."""
        ...

    async def has(self, item: InboxItem) -> bool:
        """Whether an item still waits."""
        ...

    async def withdraw(self, item: InboxItem) -> bool:
        """Delete an item; False if it was taken, or withdrawn before."""
        ...
