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
from parley.stores.interface.delivery_state import DeadLetter, DeliveryFailure
from parley.stores.interface.keys import Owner, TaskKey


class Webhook(Struct, frozen=True, gc=False):
    """A webhook of a task: its config, the dialect it was registered in, and what was delivered to it.

    `delivered_seq` is the last event that was delivered, or need not be; `last_seq` is the task's last event. A webhook
    that accepts its events has no failure; `dead_letters` are the events that it was not sent any more, oldest first.
    `problem` says why its secrets cannot be read; then its config has none of them, and it must not be called.
    """

    key: TaskKey
    agent: str
    config: PushConfig
    version: Version
    delivered_seq: int
    last_seq: int
    failure: DeliveryFailure | None = None
    dead_letters: tuple[DeadLetter, ...] = ()
    problem: str = ""


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
        that one: nothing is skipped or delivered again because of it. Its failure is over, its dead letters stay. If it
        is behind, the task is in the outbox of `holder` afterwards, unless it was in another's.

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

    async def mark_delivered(
        self,
        key: TaskKey,
        config_id: str,
        seq: int,
        *,
        holder: str,
        begun_after: int = 0,
        dead_letter: DeadLetter | None = None,
    ) -> bool:
        """Note that all events up to a number were delivered to a webhook, or given up as a dead letter.

        The failure of the webhook is over, in the same write. A number moves back with `rewind` only.

        False if the webhook is not there any more, its task is in the outbox of another worker, or `delivered_seq` is
        less than `begun_after`, because it was rewound meanwhile: the caller must stop. When all webhooks of the task
        have caught up, the task leaves the outbox.
        """
        ...

    async def note_failure(
        self, key: TaskKey, config_id: str, failure: DeliveryFailure, *, holder: str, begun_after: int = 0
    ) -> bool:
        """Keep the failure of a webhook, in place of the one before. False as in `mark_delivered`."""
        ...

    async def failing(
        self, owner: Owner, *, agent: str | None = None, after: tuple[str, str] | None = None, limit: int
    ) -> Sequence[Webhook]:
        """An owner's webhooks that have a failure or dead letters, by task and id, of one agent's tasks or of all.

        At most `limit` of those that come after a task's id and a webhook's.
        """
        ...

    async def rewind(self, key: TaskKey, config_id: str, seq: int, *, holder: str) -> bool:
        """Let a webhook get the events after a number again, if they were delivered. False if it is not there.

        Its failure is over, and what it gets again is not a dead letter any more. If it is behind, the task is in the
        outbox of `holder` afterwards, unless it was in another's.
        """
        ...

    async def backlog(self) -> int:
        """How many tasks of all owners have a webhook that is behind."""
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
