"""Puts what another agent produces into an artifact of ours, as it comes.

Our artifact holds the parts of all artifacts of the other task, in their order, and in the end exactly those. Chunks
are passed on as they are. When the other agent replaces something, or a snapshot comes instead of events, what is
missing is added, or our artifact is rewound to where the delegation began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from parley.client.streams.streamed_task import StreamedTask, continuation
from parley.protocol.events import ArtifactUpdate, StreamEvent
from parley.protocol.messages import Part, TextPart, joined
from parley.protocol.tasks import Artifact, Task

if TYPE_CHECKING:
    from parley.engine.runs.journal import Emission
    from parley.engine.runs.run import Run


class Mirror:
    """One artifact that follows another agent's task."""

    def __init__(self, run: Run, artifact: Artifact, step: str) -> None:
        """`artifact` describes it and has no parts.

        Raises:
            LocalProtocolError: something else is being streamed into the artifact.
        """
        self._run = run
        self._described = artifact
        self._artifact = artifact.artifact_id
        self._step = step
        run.emissions.begin_stream(self._artifact, step)
        self._first = run.journal.number_emitted(self._artifact)
        self._said: list[Part] = []
        """The parts that were put into the artifact, by this run and by earlier ones."""
        self._sources: list[str] = []
        """The artifacts of the other task, in their order."""
        self._is_exact = True
        """Whether the parts are those of the artifacts, so that chunks can be passed on."""

    def close(self) -> None:
        """Let others write to the artifact."""
        self._run.emissions.end_stream(self._artifact)

    @property
    def position(self) -> tuple[str, int, int]:
        """The artifact, how many emissions it had before the delegation, and how many the delegation has added."""
        return self._artifact, self._first, self._run.journal.number_emitted(self._artifact) - self._first

    async def repeat(self, chunks: Sequence[Emission]) -> None:
        """Emit what was emitted in an earlier run, as it is in the log."""
        for chunk, _ in chunks:
            await self._emit(chunk.parts)

    def resume(self) -> None:
        """Take what an earlier run put into the artifact before it was cut off for emitted."""
        journal = self._run.journal
        said = journal.left_over(self._artifact)
        self._said = [part for chunk, _ in said for part in chunk.parts]
        self._is_exact = not self._said
        journal.skip(self._artifact, len(said))

    async def show(self, event: StreamEvent, seen: StreamedTask) -> None:
        """Show an event of the other task. `seen` is the task with this event."""
        if isinstance(event, ArtifactUpdate):
            name = event.artifact.artifact_id
            is_new = name not in self._sources
            if is_new:
                self._sources.append(name)
            if self._is_exact and (is_new or (event.append and name == self._sources[-1])):
                if joined(event.artifact.parts):  # and not just the sign that it is the last chunk
                    await self._add(event.artifact.parts)
            else:
                await self.match(_parts_of(seen.task()))
        elif isinstance(event, Task):
            self._sources = [artifact.artifact_id for artifact in event.artifacts]
            await self.match(_parts_of(event))

    async def match(self, parts: Sequence[Part]) -> None:
        """Make the artifact hold exactly these parts."""
        rest = continuation(self._said, parts)
        if rest is None:
            await self._run.emissions.rewind(self._artifact, self._first)
            self._said = []
            rest = tuple(parts) or (TextPart(""),)  # every dialect demands at least one part
        self._is_exact = True
        await self._add(rest)

    async def _add(self, parts: Sequence[Part]) -> None:
        self._said.extend(parts)
        await self._emit(tuple(parts))

    async def _emit(self, parts: tuple[Part, ...]) -> None:
        if parts:
            is_first = self._run.journal.number_emitted(self._artifact) == 0
            chunk = structs.replace(self._described, parts=parts) if is_first else Artifact(self._artifact, parts)
            await self._run.emissions.emit_chunk(chunk, stream=self._step)


def _parts_of(task: Task) -> list[Part]:
    return [part for artifact in task.artifacts for part in artifact.parts]
