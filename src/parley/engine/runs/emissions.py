"""What a handler emits: chunks of artifacts and status messages, each of them once.

A handler that begins again emits again what is in the log. Equal emissions are skipped. From the first one that differs
on, the artifact is rewound: the log says how much of it is kept, and readers get an update that replaces the artifact.
So what readers hold is always the text of one run. A difference is a fault of the handler, unless a stream that was cut
off runs again: it is logged with the line that emitted it, or fails the task if the agent wants that.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from parley.engine.program import OnDivergence
from parley.engine.reading.sizes import size_of
from parley.engine.runs.author_code import author_line
from parley.engine.runs.journal import Journal, are_same
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import ArtifactRewound, ArtifactUpdate, NoteAdded, StatusUpdate
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Part, TextPart
from parley.protocol.tasks import Artifact, TaskState, TaskStatus

if TYPE_CHECKING:
    from types import FrameType

    from parley.engine.runs.run import Run

logger = logging.getLogger(__name__)

TURNS_OF_OTHERS = 10
"""How often other code may go on before a difference is one. It gets what it recorded in an earlier run at once."""

CURE = "Make what can come out differently a step: turn.step, turn.stream, turn.now, turn.random."


class LimitExceededError(LocalProtocolError):
    """The agent produced more than it may."""


class DivergedError(LocalProtocolError):
    """A handler that began again emitted something else than before."""


class Emissions(Struct, eq=False):
    """What one run emits."""

    run: Run
    expects_differences: bool = False
    """Whether a stream that was cut off runs again."""
    handler_frame: Callable[[], FrameType | None] | None = None
    """The frame of a handler that yields, to name the line of a difference."""
    _streams: dict[str, str] = {}
    """The streams that write to artifacts now, by artifact."""
    _has_diverged: bool = False

    async def emit_chunk(
        self,
        artifact: Artifact,
        *,
        append: bool | None = None,
        last: bool = False,
        stream: str | None = None,
        metadata: JsonObject | None = None,
    ) -> None:
        """Emit a chunk, unless the log has it already. By default, all but the first are appended.

        Raises:
            LocalProtocolError: a stream writes to the artifact now.
        """
        run, name = self.run, artifact.artifact_id
        if self._streams and self._streams.get(name, stream) != stream:
            raise LocalProtocolError(
                f"The stream {self._streams[name]!r} writes to the artifact {name!r} now; use another artifact"
            )
        journal = run.journal
        number, logged = journal.next_emission(name)
        if logged is not None:
            if are_same(logged, artifact.parts):
                return
            self._report(f"emission {number} into the artifact {name!r}")
            self._rewind(name, number - 1)
            journal.next_emission(name)
        self._count_bytes(artifact.parts)
        artifact = structs.replace(artifact, index=journal.index_of(name))
        grows = number > 1 if append is None else append
        run.emit(ArtifactUpdate(run.key.task_id, run.context_id, artifact, grows, last, metadata or {}))
        journal.note_chunk(name, is_last=last)
        if run.is_far_ahead:
            await run.settle()

    async def emit_status(
        self, parts: tuple[Part, ...], metadata: JsonObject | None = None, message: Message | None = None
    ) -> None:
        """Emit a status message, unless the log has it already. `message` has the parts, if the program has made it."""
        run = self.run
        if run.journal.take_status(parts):
            return
        if await self.remains(lambda: run.journal.has_statuses):
            run.journal.forget_statuses()
            self._report("a status message")
        run.status_at = run.engine.clock.now()
        status = TaskStatus(TaskState.WORKING, message or run.agent_message(parts), run.status_at)
        run.emit(StatusUpdate(run.key.task_id, run.context_id, status, metadata or {}))
        if run.is_far_ahead:
            await run.settle()

    def note(self, name: str, value: JsonObject) -> None:
        """Add a note to the log, unless an earlier run has made the same one."""
        run = self.run
        if not run.journal.take_note(name, value):
            run.emit(NoteAdded(run.key.task_id, run.context_id, name, value))

    @staticmethod
    async def remains(is_left: Callable[[], bool]) -> bool:
        """Whether something of earlier runs is left after code that runs side by side could take what it had."""
        for _ in range(TURNS_OF_OTHERS):
            if not is_left():
                return False
            await asyncio.sleep(0)
        return is_left()

    def report_question(self) -> None:
        """Report a question that differs from the one that was answered, also while a stream runs again."""
        self._report("a question", is_expected=False)

    def _count_bytes(self, parts: tuple[Part, ...]) -> None:
        journal, most = self.run.journal, self.run.engine.limits.artifact_bytes
        journal.artifact_bytes += size_of(parts)
        if journal.artifact_bytes > most:
            self.run.refuse(LimitExceededError(f"The task's artifacts exceed {most} bytes"))

    # --- streams ------------------------------------------------------------------------------------------------------

    def begin_stream(self, artifact_id: str, stream: str) -> None:
        """Let only one stream write to an artifact.

        Raises:
            LocalProtocolError: another one does.
        """
        other = self._streams.setdefault(artifact_id, stream)
        if other != stream:
            raise LocalProtocolError(
                f"{other!r} and {stream!r} stream into the artifact {artifact_id!r} at the same time; "
                "give each an artifact of its own"
            )

    def end_stream(self, artifact_id: str) -> None:
        """Let others write to the artifact."""
        self._streams.pop(artifact_id, None)

    async def rewind(self, artifact_id: str, kept: int) -> None:
        """Take back what was emitted into an artifact in this conversation, except for the first emissions."""
        run = self.run
        if run.journal.number_emitted(artifact_id) > kept or run.journal.left_over(artifact_id):
            await run.settle()
            run.journal.reload(artifact_id, Journal.read(await run.engine.views.events(run.key)))
            self._rewind(artifact_id, kept, is_complete=True)

    # --- differences --------------------------------------------------------------------------------------------------

    def drop_left_overs(self, artifact_id: str | None = None) -> None:
        """Take back what earlier runs emitted and this run did not, from one artifact or from all."""
        journal = self.run.journal
        for name in journal.with_left_overs if artifact_id is None else [artifact_id]:
            if journal.left_over(name):
                self._report(f"{journal.number_emitted(name)} emissions into the artifact {name!r}")
                self._rewind(name, journal.number_emitted(name), is_complete=True)

    def _rewind(self, name: str, kept: int, *, is_complete: bool = False) -> None:
        """Take back all but the first emissions into an artifact; `is_complete` says that none may follow."""
        run = self.run
        whole = run.journal.rewind(name, kept)
        task_id, context_id = run.key.task_id, run.context_id
        if whole is None and is_complete:
            whole = Artifact(name, (TextPart(""),), name, index=run.journal.index_of(name))
        run.emit(ArtifactRewound(task_id, context_id, name, kept, whole is not None))
        if whole is not None:
            run.emit(ArtifactUpdate(task_id, context_id, whole))
            run.journal.note_chunk(name, is_last=False)

    def report_step(self, name: str) -> None:
        """Report that a step is called with other arguments than before. Raises as `_report`."""
        self._report(f"what step {name!r} is called with", outcome="It gets its recorded result.")

    def _report(self, what: str, *, is_expected: bool = True, outcome: str = "The new one replaces it.") -> None:
        """Log what differs, once in a run, or fail the task for it.

        Raises:
            DivergedError: the agent wants its task to fail.
        """
        run = self.run
        if self.expects_differences and is_expected:
            return
        frame = self.handler_frame() if self.handler_frame is not None else None
        where = author_line(sys._getframe(), frame)  # pyright: ignore[reportPrivateUsage]
        text = f"The handler began again, and {what} differs from before{where}. {CURE}"
        if run.program.on_divergence is OnDivergence.FAIL:
            run.refuse(DivergedError(text))
        if not self._has_diverged:
            self._has_diverged = True
            logger.warning("Task %s: %s %s", run.key.task_id, text, outcome, extra=run.log_fields)
            if run.engine.observer is not None:
                run.engine.observer.diverged(run, text)
