"""The outbox: the webhooks of tasks, what was delivered to each, and which worker delivers.

A task with a webhook that is behind has one row in the outbox. The write that puts a task ahead of its webhooks makes
that row, for the worker that wrote; it is deleted when all of them have caught up. So what is still to be delivered is
found without reading the webhooks that are up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.stores.interface.keys import Owner, TaskKey


class Webhook(Struct, frozen=True, gc=False):
    """A webhook of a task: its config, the dialect it was registered in, and what was delivered to it.

    `delivered_seq` is the last event that was delivered, or need not be; `last_seq` is the task's last event.
    """

    key: TaskKey
    agent: str
    config: PushConfig
    version: Version
    delivered_seq: int
    last_seq: int


class Outbox(Protocol):
    """The webhooks of tasks. Those that come with a message are written with it (`Write.webhooks`)."""

    async def put(
        self,
        key: TaskKey,
        config: PushConfig,
        *,
        version: Version = Version.V1_0,
        after: int | None = None,
        holder: str = "",
    ) -> None:
        """Keep a webhook of a task, registered in a dialect; it gets the events after a number.

        Without a number it gets the events from now on. If it replaces one with its id, it keeps the `delivered_seq` of
        that one: nothing is skipped or delivered again because of it. If it is behind, the task is in the outbox of
        `holder` afterwards, unless it was in another's.

        Raises:
            ConflictError: this owner has no such task, or has it no longer.
        """
        ...

    async def configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        ...

    async def delete(self, key: TaskKey, config_id: str) -> None:
        """Delete a webhook, if there is one."""
        ...

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with what was delivered to them, by id."""
        ...

    async def claim(self, keys: Sequence[TaskKey], *, holder: str, live: frozenset[str]) -> Sequence[TaskKey]:
        """Put tasks that are in the outbox of no live worker into that of `holder`; which ones are in it now.

        `live` are the workers that are alive.
        """
        ...

    async def mark_delivered(self, key: TaskKey, config_id: str, seq: int, *, holder: str) -> bool:
        """Note that all events up to a number were delivered to a webhook. A number never moves back.

        False if the webhook is not there any more, or its task is in the outbox of another worker: the caller must
        stop. When all webhooks of the task have caught up, the task leaves the outbox.
        """
        ...

    async def undelivered(
        self,
        *,
        holder: str,
        live: frozenset[str],
        after: TaskKey | Owner | None,
        limit: int,
        owner: Owner | None = None,
    ) -> Sequence[TaskKey]:
        """Tasks in the outbox of `holder`, or of no live worker, of one owner or of all, by tenant, owner and task.

        At most `limit` of those that come after another task, or after all tasks of an owner.
        """
        ...
