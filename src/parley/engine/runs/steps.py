"""Steps: work of a handler whose outcome is in the log, so that no other run does it again.

A step begins when its task is durable, and what it recorded is durable before the handler goes on. While steps are in
progress, a question or a sleep waits for them, because it ends the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec import Struct

from parley.engine.runs.journal import Emission, StepEntry
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StepKind, StepProgressed, StepRecorded
from parley.protocol.jsonvalue import JsonValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.engine.runs.run import Run

_is_inside_step: ContextVar[bool] = ContextVar("is_inside_step", default=False)


class StepInProgress(Struct, eq=False):
    """One step, from its beginning to its record."""

    steps: Steps
    name: str
    number: int
    kind: StepKind
    entry: StepEntry
    digest: str = ""
    is_read_by_handler: bool = False
    """Whether it goes on only while the handler reads it, so that a question of the handler cannot wait for it."""

    @property
    def recorded(self) -> tuple[JsonValue] | None:
        """Its outcome, if it was recorded before, in a tuple because None is a value."""
        return self.entry.recorded

    @property
    def progress(self) -> JsonValue:
        """How far it had come, if it was cut off."""
        return self.entry.progress

    @property
    def chunks(self) -> Sequence[Emission]:
        """What it emitted into an artifact, if it was recorded before."""
        return self.entry.chunks

    async def prepare(self) -> None:
        """Return when its effects may begin: the task is durable, and this worker holds it.

        Raises: as `Run.prepare_effect`.
        """
        await self.steps.run.prepare_effect()

    async def note(self, progress: JsonValue, *, durably: bool = True) -> None:
        """Keep how far it has come."""
        run = self.steps.run
        run.emit(StepProgressed(run.key.task_id, run.context_id, self.name, progress, self.number, self.kind))
        if durably:
            await run.settle()

    async def record(self, outcome: JsonValue) -> None:
        """Record its outcome."""
        self.record_soon(outcome)
        await self.steps.run.settle()

    def record_soon(self, outcome: JsonValue) -> None:
        """Record its outcome with the next write."""
        run = self.steps.run
        recorded = (self.name, outcome, self.number, self.kind, self.digest)
        run.emit(StepRecorded(run.key.task_id, run.context_id, *recorded))

    def forget(self) -> None:
        """Free what it recorded before, which this run does not need again."""
        self.entry.chunks, self.entry.recorded = (), (None,)

    def close(self) -> None:
        """Let the run end, and other steps have the name."""
        self.steps.end(self)


class Steps(Struct, eq=False):
    """The steps of one run."""

    run: Run
    _in_progress: dict[tuple[str, int], StepInProgress] = {}
    _waiting: list[asyncio.Future[None]] = []

    def begin(self, name: str, kind: StepKind = "step", digest: str = "") -> StepInProgress:
        """Begin a step, or find it in the log.

        Steps of one name are numbered as they begin, and told apart by the digest of their arguments. Two functions of
        one name at the same time could begin in another order in the next run; other kinds of one name are
        interchangeable. A step that was called with other arguments before is reported, unless a stream runs again.

        Raises:
            LocalProtocolError: another function of this name is in progress, the log has a step of another kind, or the
                name cannot be stored.
        """
        _require_unicode(name)
        if kind in ("step", "stream") and any(name == other for other, _ in self._in_progress):
            raise LocalProtocolError(f"Two steps named {name!r} run at the same time; give each a name of its own")
        emissions = self.run.emissions
        number, entry = self.run.journal.next_step(name, kind, digest, may_differ=emissions.expects_differences)
        if digest and entry.digest and digest != entry.digest:
            emissions.report_step(name)
        step = StepInProgress(self, name, number, kind, entry, digest)
        if entry.recorded is None:
            self._in_progress[name, number] = step
        return step

    @property
    def in_progress(self) -> list[StepInProgress]:
        """The steps that have begun and not ended, in the order in which they began."""
        return list(self._in_progress.values())

    def end(self, step: StepInProgress) -> None:
        """Forget a step that is over."""
        self._in_progress.pop((step.name, step.number), None)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _is_busy(self, *, with_delegations: bool) -> bool:
        """Whether a step works that would have to begin again. A delegation continues at the other agent."""
        return any(
            not step.is_read_by_handler and (with_delegations or step.kind != "delegate")
            for step in self._in_progress.values()
        )

    async def wait_until_idle(self, *, with_delegations: bool = False) -> None:
        """Return when no step works beside the caller, who wants to end the run."""
        while self._is_busy(with_delegations=with_delegations) and not _is_inside_step.get():
            waiter: asyncio.Future[None] = self.run.loop.create_future()
            self._waiting.append(waiter)
            await waiter

    def value(self, name: str, make: Callable[[], JsonValue]) -> JsonValue:
        """A value that differs each time it is made: from the log if it was made before, otherwise made and recorded.

        It is not durable yet when this returns, but before any effect begins.
        """
        step, run = self.begin(name, "value"), self.run
        step.close()
        if step.recorded is not None:
            return step.recorded[0]
        value = make()
        event = StepRecorded(run.key.task_id, run.context_id, name, value, step.number, "value")
        run.emit_before_effects(event)
        return value

    async def take(self, name: str, work: Callable[[], Awaitable[JsonValue]], digest: str = "") -> JsonValue:
        """The outcome of a step: from the log if it was taken before, otherwise taken and recorded.

        Raises:
            Stopped: the run is over, so that the step could not be recorded; it is not taken.
        """
        step = self.begin(name, digest=digest)
        if step.recorded is not None:
            return step.recorded[0]
        try:
            with inside_step():
                await step.prepare()
                outcome = await work()
                await step.record(outcome)
                return outcome
        finally:
            step.close()


def _require_unicode(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise LocalProtocolError(f"The name of a step, {name!r}, is not valid Unicode: {exc.reason}") from exc


@contextmanager
def inside_step() -> Generator[None]:
    """A block whose questions do not wait for the step that they are part of."""
    token = _is_inside_step.set(True)
    try:
        yield
    finally:
        _is_inside_step.reset(token)
