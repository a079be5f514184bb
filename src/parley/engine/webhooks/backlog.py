"""Which webhooks are behind: those in memory, owners with more in the store, and tasks that have news.

Each of these is bounded and shared between owners, so that one with many webhooks takes neither the memory nor the
reads of the others. What finds no room stays in the store: its owner is remembered, and the store is read again when
there is room.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

import msgspec

from parley.engine.webhooks.delivery_limits import has_share
from parley.network.urls import host_of
from parley.protocol.push import PushConfig
from parley.stores.interface import Owner, TaskKey, Webhook

NEWS_PER_OWNER = 1_000
"""Tasks of one owner that have news and were not looked up yet. Beyond that all of its webhooks are looked through."""


class PendingWebhook:
    """A webhook that is behind. It waits for its turn, is at its turn, or pauses; never two of these."""

    __slots__ = (
        "attempts",
        "config_id",
        "digest",
        "has_given_up",
        "has_news",
        "host",
        "key",
        "known_failures",
        "paused_until",
        "unmarked_seq",
        "was_corrected",
    )

    def __init__(self, key: TaskKey, config_id: str, host: str, digest: int) -> None:
        self.key = key
        self.config_id = config_id
        self.host = host
        self.digest = digest
        """Of its config: another one means that the owner has put it right."""
        self.attempts = 0
        self.has_news = False
        self.has_given_up = False
        self.was_corrected = False
        self.paused_until: float | None = None
        self.known_failures = -1
        """The failures of its route when it joined; -1 before that."""
        self.unmarked_seq = 0
        """What was delivered although the store could not note it, so that it is not delivered for as long as that."""


def digest_of(config: PushConfig) -> int:
    """A number that is another one for another config. The config itself may be long."""
    return hash(msgspec.json.encode(config))


@dataclass(slots=True)
class _Unread:
    """How far an owner's webhooks were read, and whether some before that found no room since."""

    after: TaskKey | None = None
    has_missed: bool = False


class Backlog:
    """Webhooks that are behind: at most `most` of them in memory, for the rest their owners."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[tuple[TaskKey, str], PendingWebhook] = {}
        self._tasks: Counter[TaskKey] = Counter()
        self._held_of: Counter[Owner] = Counter()
        self._unread: OrderedDict[Owner, _Unread] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, webhook: Webhook) -> PendingWebhook | None:
        """A webhook, if it is in memory."""
        return self._held.get((webhook.key, webhook.config.id or ""))

    def holds(self, key: TaskKey) -> bool:
        """Whether a webhook of a task is in memory."""
        return key in self._tasks

    def has_room(self, owner: Owner) -> bool:
        """Whether one more of an owner's webhooks may be in memory."""
        return has_share(self._held_of[owner], self._most - len(self._held))

    def hold(self, webhook: Webhook) -> PendingWebhook | None:
        """Take a webhook into memory; None if it must stay in the store for now."""
        owner = webhook.key.owner
        if not self.has_room(owner):
            self.read_again(owner)
            return None
        config, config_id = webhook.config, webhook.config.id or ""
        pending = PendingWebhook(webhook.key, config_id, host_of(config.url), digest_of(config))
        self._held[webhook.key, config_id] = pending
        self._held_of[owner] += 1
        self._tasks[webhook.key] += 1
        return pending

    def release(self, pending: PendingWebhook) -> None:
        """Forget a webhook that knows everything."""
        owner = pending.key.owner
        del self._held[pending.key, pending.config_id]
        self._held_of[owner] -= 1
        if not self._held_of[owner]:
            del self._held_of[owner]
        self._tasks[pending.key] -= 1
        if not self._tasks[pending.key]:
            del self._tasks[pending.key]

    # --- what is in the store -----------------------------------------------------------------------------------------

    def read_again(self, owner: Owner, *, after: TaskKey | None = None) -> None:
        """Remember that an owner has more webhooks in the store, all of them after another one if there is one."""
        unread = self._unread.get(owner)
        if unread is None:
            self._unread[owner] = _Unread(after)
        else:
            unread.has_missed = True

    def next_to_read(self) -> tuple[Owner, TaskKey | None] | None:
        """An owner with more in the store that fits into memory now, and where to read on; owners take turns."""
        free = self._most - len(self._held)
        for owner, unread in self._unread.items():
            if 2 * self._held_of[owner] < free:  # and not as soon as one fits, because pages are read
                return owner, unread.after
        return None

    def note_read(self, owner: Owner, *, after: TaskKey | None, is_end: bool) -> None:
        """Note after which one of an owner's webhooks reading goes on, unless that was its end."""
        unread = self._unread.pop(owner)  # it comes back behind the others
        if not is_end:
            unread.after = after
            self._unread[owner] = unread
        elif unread.has_missed:
            self._unread[owner] = _Unread()


class News:
    """Tasks whose webhooks have to be looked up, one of each owner in turn."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Owner, dict[TaskKey, None]] = OrderedDict()

    def add(self, key: TaskKey) -> bool:
        """Add a task; False if its owner has too many here."""
        keys = self._keys.setdefault(key.owner, {})
        if len(keys) >= NEWS_PER_OWNER and key not in keys:
            return False
        keys[key] = None
        return True

    def take(self) -> TaskKey | None:
        """Take the next task out, if there is one."""
        if not self._keys:
            return None
        owner, keys = self._keys.popitem(last=False)
        key = next(iter(keys))
        del keys[key]
        if keys:
            self._keys[owner] = keys
        return key
