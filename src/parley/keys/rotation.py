"""When each key of a folder signs and is published. Pure: the clock is an argument.

A key signs from its `active_from` on, until that of the next key. So a rotation is one new key with a moment in the
future, and nothing has to happen at that moment: every process changes over by its clock. The key before it stays
published for the `overlap` that the new key names. The rule that stays true: while there is any key, one is current,
whatever the clock says.

    next ──active_from──▶ current ──active_from of the next key──▶ retiring ──its overlap──▶ expired
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command knows these times, and few need cryptography
    from parley.keys.signing_key import LocalKey

LEAD = timedelta(minutes=10)
"""How long a new key is published before it signs. Receivers may cache the key set for 5 minutes, by its `max-age`;
Parley's own keep a set for 10 at most."""

OVERLAP = timedelta(days=1)
"""How long the key before it stays published afterwards: longer than any cache keeps a card, and longer
than a token is valid."""


class KeyState(StrEnum):
    """What a key is for at some moment."""

    NEXT = "next"
    """Published, so that receivers know it when it begins to sign."""
    CURRENT = "current"
    RETIRING = "retiring"
    """Published, because what it has signed is still in use."""
    EXPIRED = "expired"
    """Not published any more. A later rotation deletes its file."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key with its times. `overlap` is how long the key before it stays published when this one signs."""

    key: LocalKey
    created: datetime
    active_from: datetime
    overlap: timedelta

    @property
    def key_id(self) -> str:
        """The id of the key."""
        return self.key.key_id


class Rotation:
    """The keys of a folder, and which of them signs when."""

    __slots__ = ("keys",)

    def __init__(self, keys: Iterable[StoredKey]) -> None:
        self.keys = tuple(sorted(keys, key=lambda one: (one.active_from, one.key_id)))

    def find(self, key_id: str) -> StoredKey | None:
        """The key with this id."""
        return next((one for one in self.keys if one.key_id == key_id), None)

    def current(self, now: datetime) -> StoredKey:
        """The key that signs. There must be one key at least."""
        begun = [one for one in self.keys if one.active_from <= now]
        return begun[-1] if begun else self.keys[0]  # a clock that was set back

    def published_until(self, key: StoredKey) -> datetime | None:
        """Until when a key is published; None while no other key is to replace it."""
        index = self.keys.index(key)
        if index + 1 == len(self.keys):
            return None
        successor = self.keys[index + 1]
        return successor.active_from + successor.overlap

    def state(self, key: StoredKey, now: datetime) -> KeyState:
        """The state of a key."""
        current = self.current(now)
        if key is current:
            return KeyState.CURRENT
        if self.keys.index(key) > self.keys.index(current):
            return KeyState.NEXT
        until = self.published_until(key)
        return KeyState.RETIRING if until is None or now < until else KeyState.EXPIRED

    def published(self, now: datetime) -> tuple[StoredKey, ...]:
        """The keys for receivers. The current one is the first: some receivers use no other."""
        order = (KeyState.CURRENT, KeyState.NEXT, KeyState.RETIRING)
        states = {one.key_id: self.state(one, now) for one in self.keys}
        return tuple(one for state in order for one in self.keys if states[one.key_id] is state)
