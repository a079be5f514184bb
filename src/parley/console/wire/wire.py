"""The wire of a server: recorders for its app and for remote agents, which record only while a page looks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from parley.console.backend import ConsoleBackend, ConsoleCaller, OwnerFilter
from parley.console.wire.entry import WireEntry, WireLine
from parley.console.wire.recorder import WireRecorder
from parley.console.wire.ring import WireRing
from parley.proxy.trace import Trace
from parley.server.app import App

if TYPE_CHECKING:
    from parley.console.console import Console

MOST_LINES = 100
"""Lines in one frame."""

MOST_FRAME_BYTES = 512 * 1024
"""About the size of one frame."""


class WireFilter(Struct, frozen=True):
    """Which lines a page wants; what is absent admits everything."""

    agent: str | None = None
    direction: str | None = None
    operation: str | None = None
    text: str | None = None
    failed_only: bool = False


class WireFrame(Struct, frozen=True, omit_defaults=True):
    """Lines, and how many were dropped before them because the page was too slow."""

    lines: list[WireLine]
    missed: int
    processes: int | None = None
    """In the first frame: how many processes use the store, if there are several. Only one of them is recorded."""


class Wire:
    """The conversations of one server."""

    def __init__(self, console: Console) -> None:
        self._backend = backend = console.backend
        self._ring = WireRing(self._has_readers)
        # Of `parley proxy`, whose app has a trace of both sides.
        trace = next((one for one in backend.app.conversation_observers if isinstance(one, Trace)), None)
        # Which has one agent, also where a line of its side names none.
        agent = backend.app.agents[0].id if trace is not None else ""
        self._recorders = [WireRecorder(self._ring, backend.app, trace=trace, agent=agent)]
        self._is_watched = False

    def _has_readers(self, has_readers: bool) -> None:
        self._is_watched = has_readers
        for recorder in self._recorders:
            recorder.attach() if has_readers else recorder.detach()

    @contextmanager
    def recording(self, app: App, trace: Trace, *, agent: str, session: str) -> Generator[None]:
        """Record a remote agent of a session too, until the block ends."""
        recorder = WireRecorder(self._ring, app, trace=trace, agent=agent, session=session)
        self._recorders.append(recorder)
        if self._is_watched:
            recorder.attach()
        try:
            yield
        finally:
            recorder.detach()
            self._recorders.remove(recorder)

    async def frames(self, caller: ConsoleCaller, session: str, wanted: WireFilter) -> AsyncGenerator[WireFrame]:
        """What a caller may see of what follows, and wants to see.

        Recording begins when the first is asked for. That one is empty, so that the page knows when it has begun.
        """
        view = _View(self._backend, caller, session, wanted)
        reader = self._ring.join()
        try:
            processes = len(await self._backend.app.store.leases.live())
            yield WireFrame([], 0, processes if processes > 1 else None)
            while True:
                entries, missed = await reader.read(MOST_LINES)
                lines: list[WireLine] = []
                size = 0
                for entry in entries:
                    line = view.shown(entry)
                    if line is None:
                        continue
                    lines.append(line)
                    size += line.size
                    if size > MOST_FRAME_BYTES:
                        yield WireFrame(lines, missed)
                        lines, missed, size = [], 0, 0
                if lines or missed:
                    yield WireFrame(lines, missed)
        finally:
            reader.leave()


class _View:
    """What one page sees of the entries."""

    def __init__(self, backend: ConsoleBackend, caller: ConsoleCaller, session: str, wanted: WireFilter) -> None:
        self._backend = backend
        self._sees_all = caller.is_operator and not caller.tenant
        # A request that was refused before its caller was known, on a server that is open to all.
        self._sees_unowned = self._sees_all or not backend.needs_login
        self._owners: OwnerFilter = backend.owners(caller)
        self._session = session
        self._wanted = wanted
        self._text = (wanted.text or "").lower()
        self._agents: dict[tuple[str, str], str] = {}

    def shown(self, entry: WireEntry) -> WireLine | None:
        """The line of an entry; None if the caller may not see it, or does not want to."""
        if not self._may_see(entry):
            return None
        wanted = self._wanted
        if wanted.failed_only and entry.kind != "error":
            return None
        if wanted.direction not in (None, "", entry.direction) or wanted.operation not in (None, "", entry.operation):
            return None
        agent = self._agent_of(entry)
        if wanted.agent not in (None, "", agent):
            return None
        if self._text and not entry.contains(self._text):
            return None
        return entry.line(agent)

    def _may_see(self, entry: WireEntry) -> bool:
        if self._sees_all:
            return True
        if entry.session is not None:
            return entry.session == self._session
        return self._sees_unowned if entry.owner is None else self._owners.admits(entry.owner)

    def _agent_of(self, entry: WireEntry) -> str:
        if entry.session is not None or not entry.agent:
            return entry.agent
        key = (entry.agent, entry.owner.tenant if entry.owner is not None else "")
        known = self._agents.get(key)
        if known is None:  # an id never becomes that of another agent
            found = self._backend.agent_of_program(*key)
            known = self._agents[key] = entry.agent if found is None else found.id
        return known
