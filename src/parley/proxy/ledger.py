"""Remembers the names that callers give to tasks and contexts, their owners, and the agent's ids; optionally in a file.

Callers of 0.1 name their tasks themselves, which later versions do not allow, so the proxy maps their names to the
agent's ids. It maps contexts too if all callers share the proxy's credentials: two callers that choose the same name
must not share a conversation. The number of names is bounded; a name that is dropped becomes unknown.

A ledger file has one line of JSON per name. Only its owner can read it. It is compacted when a proxy starts. A line is
written before the caller gets its answer: a proxy that is killed loses nothing, but a power failure may lose the last
lines. Only one proxy can use a file, so a system without file locks (Windows) cannot have one.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from io import FileIO
from pathlib import Path

import msgspec
from msgspec import Struct

from parley.engine.caller import Caller
from parley.file_lock import lock_file
from parley.protocol.versions import Version
from parley.stores.interface import Owner

logger = logging.getLogger(__name__)

MAX_NAMES = 50_000
"""Names of tasks, and names of contexts. Each takes a few hundred bytes."""

FAIR_SHARE = 0.01
"""The share of the names up to which a caller may displace the names of others; above it, its own oldest is dropped."""


class NameKind(StrEnum):
    """What a name belongs to."""

    TASK = "task"
    CONTEXT = "context"


class LedgerEntry(Struct, frozen=True):
    """A caller's name for a task or context of the agent, and the version in which the caller created it."""

    kind: NameKind
    owner: Owner
    name: str
    remote_id: str
    created_in: Version


WriteEntry = Callable[[LedgerEntry], None]


@dataclass(slots=True)
class _OwnedNames:
    """The entries of one caller by name, the oldest first, and its names by the agent's ids."""

    entries: dict[str, LedgerEntry] = field(default_factory=dict[str, LedgerEntry])
    names: dict[str, str] = field(default_factory=dict[str, str])


class NameTable:
    """The names of one kind, of all callers."""

    def __init__(self, kind: NameKind, size: int, on_write: WriteEntry = lambda _: None) -> None:
        self._kind = kind
        self._size = size
        self._on_write = on_write
        self._count = 0
        self._owned: OrderedDict[Owner, _OwnedNames] = OrderedDict()
        self._owners: dict[str, Owner] = {}

    def write(self, caller: Caller, name: str, remote_id: str) -> None:
        """Add a name, or give it a new id."""
        before = self.find(caller, name)
        created_in = caller.version if before is None else before.created_in
        entry = LedgerEntry(self._kind, caller.owner, name, remote_id, created_in)
        self.add(entry)
        self._on_write(entry)

    def add(self, entry: LedgerEntry) -> None:
        """Add an entry without reporting it to `on_write`."""
        if entry.owner in self._owned and entry.name in self._owned[entry.owner].entries:
            self._forget(entry.owner, entry.name)
        owned = self._owned.setdefault(entry.owner, _OwnedNames())
        owned.entries[entry.name] = entry
        owned.names[entry.remote_id] = entry.name
        self._owners.setdefault(entry.remote_id, entry.owner)
        self._owned.move_to_end(entry.owner)
        self._count += 1
        if self._count > self._size:
            has_many = len(owned.entries) > max(1, self._size * FAIR_SHARE)
            loser = entry.owner if has_many else next(iter(self._owned))
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

    def find(self, caller: Caller, name: str) -> LedgerEntry | None:
        """The entry for a caller's name, if there is one."""
        owned = self._owned.get(caller.owner)
        return None if owned is None else owned.entries.get(name)

    def name_of(self, caller: Caller, remote_id: str) -> str | None:
        """A caller's name for an id of the agent, if it has one."""
        owned = self._owned.get(caller.owner)
        return None if owned is None else owned.names.get(remote_id)

    def belongs_to_another(self, caller: Caller, remote_id: str) -> bool:
        """Whether an id of the agent belongs to another caller and not to this one."""
        return self.name_of(caller, remote_id) is None and remote_id in self._owners

    def remote_ids(self, caller: Caller) -> list[str]:
        """The agent's ids of everything that a caller has named, the newest first."""
        owned = self._owned.get(caller.owner)
        return [] if owned is None else [entry.remote_id for entry in reversed(owned.entries.values())]

    def entries(self) -> list[LedgerEntry]:
        """All entries, the oldest of each caller first."""
        return [entry for owned in self._owned.values() for entry in owned.entries.values()]


class Ledger:
    """The names of tasks and of contexts. `on_write` is called with each new entry."""

    def __init__(self, *, size: int = MAX_NAMES, on_write: WriteEntry = lambda _: None) -> None:
        self.tasks = NameTable(NameKind.TASK, size, on_write)
        self.contexts = NameTable(NameKind.CONTEXT, size, on_write)


@contextmanager
def open_ledger(path: Path, *, size: int = MAX_NAMES) -> Generator[Ledger]:
    """A ledger that is kept in a file.

    Raises:
        OSError: the file cannot be read, written or locked, or another proxy uses it.
    """
    with _locked(path) as file:

        def write(*entries: LedgerEntry) -> None:
            file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))

        ledger = Ledger(size=size, on_write=write)
        for entry in _entries(file, path):
            (ledger.tasks if entry.kind is NameKind.TASK else ledger.contexts).add(entry)
        file.seek(0)
        file.truncate()
        write(*ledger.tasks.entries(), *ledger.contexts.entries())
        yield ledger


@contextmanager
def _locked(path: Path) -> Generator[FileIO]:
    """The open file, locked by this process."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
        try:
            is_ours = lock_file(file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        if not is_ours:
            raise OSError(errno.EAGAIN, "another proxy uses it", str(path))
        os.fchmod(file.fileno(), 0o600)
        yield file


def _entries(file: FileIO, path: Path) -> Iterable[LedgerEntry]:
    decode = msgspec.json.Decoder(LedgerEntry).decode
    for number, line in enumerate(file.read().splitlines(), 1):
        try:
            yield decode(line)
        except msgspec.DecodeError:  # an incomplete line, after a crash of the machine
            logger.warning("%s: line %d is invalid and is skipped", path, number)
