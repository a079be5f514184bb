"""The outbox: the webhooks of tasks, and how far each was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.stores.interface.keys import Owner, TaskKey


class Webhook(Struct, frozen=True, gc=False):
    """A webhook of a task: its config, the dialect it was registered in, and how far it has been told.

    `delivered_seq` is the last event that it has been told of, or need not be; `last_seq` is the task's last event.
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
    ) -> None:
        """Keep a webhook of a task, registered in a dialect; it is to be told of the events after a number.

        Without a number that is whatever comes from now on. In place of an earlier one with its id it keeps how far
        that one was told: nothing is skipped or told again because of it.

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
        """A task's webhooks with how far they were told, by id."""
        ...

    async def mark_delivered(self, key: TaskKey, config_id: str, seq: int) -> bool:
        """Note that a webhook has been told of everything up to a number; whether it is still there.

        A number never moves back.
        """
        ...

    async def undelivered(
        self, *, after: Webhook | Owner | None, limit: int, owner: Owner | None = None
    ) -> Sequence[Webhook]:
        """Webhooks of one owner or of all that are behind their tasks, by tenant, owner, task and id.

        At most `limit` of those that come after another webhook, or after all webhooks of an owner.
        """
        ...
