"""What a proxy remembers of the tasks that went through it: what their callers call them, and whose they are.

It is bounded, and in memory: what is forgotten, or was before a restart, is unknown. Callers of 0.1 name their tasks
themselves, which no later agent allows; so their names stand for the agent's ids.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from parley.engine.caller import Caller
from parley.protocol.versions import Version
from parley.stores.interface import Owner

REMEMBERED = 50_000
"""Tasks. Each takes a few hundred bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A task at the agent, and the dialect in which its caller began it."""

    remote_id: str
    created_in: Version


class Ledger:
    """Tasks by the name that their owner knows them by."""

    def __init__(self, *, size: int = REMEMBERED) -> None:
        self._size = size
        self._entries: OrderedDict[tuple[Owner, str], Entry] = OrderedDict()
        self._names: dict[tuple[Owner, str], str] = {}

    def write(self, caller: Caller, name: str, remote_id: str) -> None:
        """Remember a task; a name that stood for another one stands for this one now."""
        key = (caller.owner, name)
        before = self._entries.pop(key, None)
        if before is not None:
            self._names.pop((caller.owner, before.remote_id), None)
        self._entries[key] = Entry(remote_id, caller.version if before is None else before.created_in)
        self._names[(caller.owner, remote_id)] = name
        if len(self._entries) > self._size:
            (owner, _), oldest = self._entries.popitem(last=False)
            self._names.pop((owner, oldest.remote_id), None)

    def find(self, caller: Caller, name: str) -> Entry | None:
        """The task that a caller knows by this name, if it is remembered."""
        return self._entries.get((caller.owner, name))

    def name_of(self, caller: Caller, remote_id: str) -> str:
        """What a caller calls a task of the agent: its id, unless it has a name of its own."""
        return self._names.get((caller.owner, remote_id), remote_id)

    def owns(self, caller: Caller, remote_id: str) -> bool:
        """Whether a task is remembered as this caller's."""
        return (caller.owner, remote_id) in self._names

    def tasks_of(self, caller: Caller) -> list[str]:
        """The agent's ids of all tasks that are remembered as this caller's, the newest first."""
        return [entry.remote_id for (owner, _), entry in reversed(self._entries.items()) if owner == caller.owner]
