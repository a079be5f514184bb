"""What a proxy remembers of the tasks and contexts that went through it: what callers call them, and whose they are.

Callers of 0.1 name their tasks themselves, which no later agent allows; so their names stand for the agent's ids. The
same holds for contexts where the agent sees one caller, the proxy, whoever calls: two callers who choose one name must
not meet in one conversation. All of it is bounded; what is forgotten is unknown. `ledger_file` keeps it over restarts.
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

REMEMBERED = 50_000
"""Tasks, and contexts. Each takes a few hundred bytes."""

FAIR_SHARE = 0.01
"""Of the room, which a caller may fill at the cost of others. Who has more and wants more loses its own oldest."""


class Kind(StrEnum):
    """What has a name."""

    TASK = "task"
    CONTEXT = "context"


class Entry(Struct, frozen=True):
    """Something at the agent that a caller knows by a name, and the dialect in which that caller began it."""

    kind: Kind
    owner: Owner
    name: str
    remote_id: str
    created_in: Version


@dataclass(slots=True)
class _Owned:
    """What one caller has: by its own names, the oldest first, and by the agent's ids."""

    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    names: dict[str, str] = field(default_factory=dict[str, str])


class Names:
    """Names of one kind, of all callers."""

    def __init__(self, kind: Kind, size: int, on_write: Callable[[Entry], None] = lambda _: None) -> None:
        self._kind = kind
        self._size = size
        self._on_write = on_write
        self._count = 0
        self._owned: OrderedDict[Owner, _Owned] = OrderedDict()
        self._owners: dict[str, Owner] = {}

    def write(self, caller: Caller, name: str, remote_id: str) -> None:
        """Remember something; a name that stood for something else stands for this now."""
        before = self.find(caller, name)
        created_in = caller.version if before is None else before.created_in
        entry = Entry(self._kind, caller.owner, name, remote_id, created_in)
        self.take(entry)
        self._on_write(entry)

    def take(self, entry: Entry) -> None:
        """Remember what was written before."""
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
        """What a caller knows by this name, if it is remembered."""
        owned = self._owned.get(caller.owner)
        return None if owned is None else owned.entries.get(name)

    def name_of(self, caller: Caller, remote_id: str) -> str | None:
        """What a caller calls something of the agent's, if it is remembered as this caller's."""
        owned = self._owned.get(caller.owner)
        return None if owned is None else owned.names.get(remote_id)

    def is_anothers(self, caller: Caller, remote_id: str) -> bool:
        """Whether something of the agent's is remembered as another caller's, and not as this one's."""
        return self.name_of(caller, remote_id) is None and remote_id in self._owners

    def all_of(self, caller: Caller) -> list[str]:
        """The agent's ids of everything that is remembered as this caller's, the newest first."""
        owned = self._owned.get(caller.owner)
        return [] if owned is None else [entry.remote_id for entry in reversed(owned.entries.values())]

    def entries(self) -> list[Entry]:
        """Everything that is remembered, each caller's oldest first."""
        return [entry for owned in self._owned.values() for entry in owned.entries.values()]


class Ledger:
    """The names of tasks and of contexts. `on_write`, if somebody sets it, hears of each that is written."""

    def __init__(self, *, size: int = REMEMBERED) -> None:
        self.on_write: Callable[[Entry], None] | None = None
        self.tasks = Names(Kind.TASK, size, self._written)
        self.contexts = Names(Kind.CONTEXT, size, self._written)

    def take(self, entry: Entry) -> None:
        """Remember what was written before."""
        (self.tasks if entry.kind is Kind.TASK else self.contexts).take(entry)

    def _written(self, entry: Entry) -> None:
        if self.on_write is not None:
            self.on_write(entry)
