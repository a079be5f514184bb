"""The owners and names of the tasks and contexts that went through a proxy.

Callers of 0.1 choose the ids of their tasks, which no later agent allows; so their names are mapped to the agent's ids.
The same holds for contexts where the agent sees the proxy as its only caller: two callers that choose one name must not
share a conversation. The number of entries is bounded; a dropped one is unknown. `ledger_file` keeps them in a file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from parley.engine.caller import Caller
from parley.protocol.versions import Version
from parley.stores.interface import Owner

MAX_ENTRIES = 50_000
"""Tasks, and contexts. Each takes a few hundred bytes."""

FAIR_SHARE = 0.01
"""The share of the entries up to which a caller can displace others. Above it, a caller loses its own oldest."""


class NameKind(StrEnum):
    """What a name is for."""

    TASK = "task"
    CONTEXT = "context"


class Entry(Struct, frozen=True):
    """A caller's name for a task or context at the agent, and the version in which it was started."""

    kind: NameKind
    owner: Owner
    name: str
    remote_id: str
    created_in: Version


@dataclass(slots=True)
class _Owned:
    """The entries of one caller: by its names, the oldest first, and by the agent's ids."""

    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    names: dict[str, str] = field(default_factory=dict[str, str])


class Names:
    """Names of one kind, of all callers."""

    def __init__(self, kind: NameKind, size: int, on_write: Callable[[Entry], None] = lambda _: None) -> None:
        self._kind = kind
        self._size = size
        self._on_write = on_write
        self._count = 0
        self._owned: OrderedDict[Owner, _Owned] = OrderedDict()
        self._owners: dict[str, Owner] = {}

    def write(self, caller: Caller, name: str, remote_id: str) -> None:
        """Add a name, or give it a new meaning."""
        before = self.find(caller, name)
        created_in = caller.version if before is None else before.created_in
        entry = Entry(self._kind, caller.owner, name, remote_id, created_in)
        self.take(entry)
        self._on_write(entry)

    def take(self, entry: Entry) -> None:
        """Restore an entry."""
        if entry.owner in self._owned and entry.name in self._owned[entry.owner].entries:
            self._forget(entry.owner, entry.name)
        owned = self._owned.setdefault(entry.owner, _Owned())
        owned.entries[entry.name] = entry
        owned.names[entry.remote_id] = entry.name
        self._owners.setdefault(entry.remote_id, entry.owner)
        self._owned.move_to_end(entry.owner)
        self._count += 1
        if self._count > self._size:
            greedy = len(owned.entries) > max(1, self._size * FAIR_SHARE)
            loser = entry.owner if greedy else next(iter(self._owned))
            self._forget(loser, next(iter(self._owned[loser].entries)))

    def _forget(self, owner: Owner, name: str) -> None:
        owned = self._owned[owner]
        remote_id = owned.entries.pop(name).remote_id
        if owned.names.get(remote_id) == name:
            del owned.names[remote_id]
        if self._owners.get(remote_id) == owner:
            del self._owners[remote_id]
        if not owned.entries:
            del self._owned[owner]
        self._count -= 1

    def find(self, caller: Caller, name: str) -> Entry | None:
        """The entry of a caller's name, if it is known."""
        owned = self._owned.get(caller.owner)
        return None if owned is None else owned.entries.get(name)

    def name_of(self, caller: Caller, remote_id: str) -> str | None:
        """A caller's name for an id of the agent, if it is known as this caller's."""
        owned = self._owned.get(caller.owner)
        return None if owned is None else owned.names.get(remote_id)

    def belongs_to_another(self, caller: Caller, remote_id: str) -> bool:
        """Whether an id of the agent is known as another caller's, and not as this one's."""
        return self.name_of(caller, remote_id) is None and remote_id in self._owners

    def all_of(self, caller: Caller) -> list[str]:
        """The agent's ids of all entries of this caller, the newest first."""
        owned = self._owned.get(caller.owner)
        return [] if owned is None else [entry.remote_id for entry in reversed(owned.entries.values())]

    def entries(self) -> list[Entry]:
        """All entries, each caller's oldest first."""
        return [entry for owned in self._owned.values() for entry in owned.entries.values()]


class Ledger:
    """The names of tasks and of contexts. `on_write`, if it is set, is called with each new entry."""

    def __init__(self, *, size: int = MAX_ENTRIES) -> None:
        self.on_write: Callable[[Entry], None] | None = None
        self.tasks = Names(NameKind.TASK, size, self._written)
        self.contexts = Names(NameKind.CONTEXT, size, self._written)

    def take(self, entry: Entry) -> None:
        """Restore an entry."""
        (self.tasks if entry.kind is NameKind.TASK else self.contexts).take(entry)

    def _written(self, entry: Entry) -> None:
        if self.on_write is not None:
            self.on_write(entry)
