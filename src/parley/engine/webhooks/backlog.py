"""Which webhooks are behind: those in memory, the owners that have more in the store, and the tasks with new events.

Each of these is bounded and shared between owners, so that an owner with many webhooks takes neither the memory nor the
reads of the others. A webhook for which there is no room stays in the store. Its owner is remembered, and the store is
read again when there is room.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

import msgspec

from parley.engine.webhooks.delivery_limits import has_share
from parley.network.urls import host_of
from parley.protocol.push import PushConfig
from parley.stores.interface import Owner, TaskKey, Webhook

CHANGED_TASKS_PER_OWNER = 1_000
"""Tasks of one owner with new events that were not looked up yet. Beyond that, the owner's outbox is read."""


@dataclass(slots=True, eq=False)
class PendingWebhook:
    """A webhook that is behind. It waits for its turn, has its turn, or pauses; never two of these."""

    key: TaskKey
    config_id: str
    host: str
    digest: int
    """A hash of the config."""
    has_more: bool = False
    config_replaced: bool = False
    paused_until: float | None = None
    known_failures: int = -1
    """The failures of its route when it joined; -1 before that."""
    unmarked_seq: int = 0
    """Delivered, but not yet recorded in the store; prevents redelivery."""

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a log line about the webhook."""
        return {"task": self.key.task_id, "webhook": self.config_id}


def digest_of(config: PushConfig) -> int:
    """A number that differs between configs. The config itself may be long."""
    return hash(msgspec.json.encode(config))


class Backlog:
    """The webhooks that are behind: at most `most` of them in memory, and the owners that have more in the store."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[TaskKey, dict[str, PendingWebhook]] = {}
        self._held_of: Counter[Owner] = Counter()
        self._number = 0
        self._unread: OrderedDict[Owner, TaskKey | None] = OrderedDict()  # owners with more, and the task to read after
        self._skipped: set[Owner] = set()  # of these, owners with webhooks before that task that did not fit

    def __len__(self) -> int:
        return self._number

    def find(self, webhook: Webhook) -> PendingWebhook | None:
        """A webhook, if it is in memory."""
        return self._held.get(webhook.key, {}).get(webhook.config.id or "")

    def of_task(self, key: TaskKey) -> list[PendingWebhook]:
        """The webhooks of a task that are in memory."""
        return list(self._held.get(key, {}).values())

    def holds(self, key: TaskKey) -> bool:
        """Whether a webhook of a task is in memory."""
        return key in self._held

    def hold(self, webhook: Webhook) -> PendingWebhook | None:
        """Keep a webhook in memory; None if its owner has no room, so that it stays in the store for now."""
        owner = webhook.key.owner
        if not has_share(self._held_of[owner], self._most - self._number):
            self.read_again(owner)
            return None
        config, config_id = webhook.config, webhook.config.id or ""
        pending = PendingWebhook(webhook.key, config_id, host_of(config.url), digest_of(config))
        self._held.setdefault(webhook.key, {})[config_id] = pending
        self._held_of[owner] += 1
        self._number += 1
        return pending

    def release(self, pending: PendingWebhook) -> None:
        """Remove a webhook that has caught up."""
        owner, of_task = pending.key.owner, self._held[pending.key]
        del of_task[pending.config_id]
        if not of_task:
            del self._held[pending.key]
        self._held_of[owner] -= 1
        if not self._held_of[owner]:
            del self._held_of[owner]
        self._number -= 1

    # --- what is in the store -----------------------------------------------------------------------------------------

    def read_again(self, owner: Owner, *, after: TaskKey | None = None) -> None:
        """Remember that an owner has more webhooks in the store. `after`: continue after this task."""
        if owner in self._unread:
            self._skipped.add(owner)
        else:
            self._unread[owner] = after

    def next_to_read(self) -> tuple[Owner, TaskKey | None] | None:
        """An owner with more in the store that has room now, and the task to read after. Owners take turns."""
        free = self._most - self._number
        for owner, after in self._unread.items():
            if 2 * self._held_of[owner] < free:  # not as soon as one fits, because whole pages are read
                return owner, after
        return None

    def note_read(self, owner: Owner, *, after: TaskKey | None) -> None:
        """Note that an owner's webhooks were read up to a task, or, without one, to the end."""
        del self._unread[owner]
        if after is not None:
            self._unread[owner] = after  # behind the other owners
        elif owner in self._skipped:
            self._skipped.remove(owner)
            self._unread[owner] = None


class ChangedTasks:
    """Tasks with new events whose webhooks have to be looked up. Owners take turns."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Owner, dict[TaskKey, None]] = OrderedDict()

    def add(self, key: TaskKey) -> bool:
        """Add a task; False if its owner has too many here."""
        keys = self._keys.setdefault(key.owner, {})
        if len(keys) >= CHANGED_TASKS_PER_OWNER and key not in keys:
            return False
        keys[key] = None
        return True

    def take(self) -> TaskKey | None:
        """Remove and return the next task, if there is one."""
        if not self._keys:
            return None
        owner, keys = self._keys.popitem(last=False)
        key = next(iter(keys))
        del keys[key]
        if keys:
            self._keys[owner] = keys
        return key
