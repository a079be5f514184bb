"""What a run of a constitution tells its readers: as artifacts of A2A, and as notes in the log for the native API.

One event of the log is one event of the native API, so that its number is the cursor of both. A run that begins again
tells the same: numbers are given in the order of the commands, and what the log holds already is not added twice.

The artifacts are those of the documented mapping: the text in `<task>-text-0`, and one each for tool calls
(`-tool-N`), files (`-file-N`) and answers of sub-agents (`-sub-N`).
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from parley.engine.runs.run import Run
from parley.host.data.stops import Stop
from parley.host.models.model import TokenUsage
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, text_of
from parley.protocol.tasks import Artifact

PREFIX = "x-arbiter."
"""What the names of metadata begin with, as documented."""

RESPONSE = "response"

UNAUTHORIZED = "unauthorized"
"""The error code of work that was stopped because its tenant may not do it any more."""

STOPPED = "stopped"
"""The error code of work that the kill switch has ended."""

TENANT_DISABLED = "The tenant is disabled."
"""Why work does not begin, or goes no further."""


def failure_metadata(text: str, kind: str) -> JsonObject:
    """Why a task did not complete, in its metadata. `kind` is an error code of the native API."""
    return {f"{PREFIX}error": text, f"{PREFIX}error_type": kind}


class NarrationPosition(Struct, frozen=True):
    """How far a narration has come: how many artifacts of each series there are, and what they and the calls took."""

    numbers: dict[str, int]
    streams: int
    files_bytes: int
    usage: TokenUsage


def stop_metadata(stop: Stop) -> JsonObject:
    """Why a task of a stopped agent ended, in its metadata."""
    return {**failure_metadata(stop.text, STOPPED), f"{PREFIX}stopped_by": stop.by}


class RunNarration:
    """What one run tells."""

    def __init__(self, run: Run, agent_id: str, depth: int) -> None:
        self._run = run
        self._task_id = run.key.task_id
        self._numbers: Counter[str] = Counter()
        self._streams = 0
        self.agent_id = agent_id
        self.depth = depth
        self.said: list[str] = []
        """The text so far, in pieces."""
        self.files_bytes = 0
        self.usage = TokenUsage()
        """The tokens of this run and of those that it delegated to."""
        self._annotate()

    # --- the text -----------------------------------------------------------------------------------------------------

    async def text(self, delta: str) -> None:
        """Some more text."""
        if not delta:
            return
        artifact_id = f"{self._task_id}-text-0"
        is_first = not self.said
        self.said.append(delta)
        artifact = Artifact(artifact_id, (TextPart(delta),), RESPONSE if is_first else None)
        await self._run.emissions.emit_chunk(artifact)

    @property
    def reply(self) -> str:
        """All text so far."""
        return "".join(self.said)

    # --- whole artifacts ----------------------------------------------------------------------------------------------

    async def tool_call(self, tool: str, *, ok: bool) -> None:
        """A command was carried out."""
        await self._artifact("tool", "tool_call", DataPart({"tool": tool, "ok": ok}), "tool_call")

    async def file(self, path: str, data: bytes, media_type: str = "text/plain") -> None:
        """A file was written, or came from another agent."""
        self.files_bytes += len(data)
        self._annotate()
        await self._artifact("file", path, RawPart(data, media_type, path), "file")

    async def sub_agent_response(self, agent_id: str, content: str, *, stream_id: int, task_id: str | None) -> None:
        """An agent that this one delegated to has answered."""
        depth = self.depth + 1
        part = DataPart({"agent": agent_id, "depth": depth, "content": content})
        more: JsonObject = {f"{PREFIX}stream_id": stream_id, **({f"{PREFIX}task_id": task_id} if task_id else {})}
        await self._artifact(
            "sub", "sub_agent_response", part, "sub_agent_response", f"{agent_id} (depth {depth})", more
        )

    async def _artifact(
        self,
        series: str,
        name: str,
        part: Part,
        marker: str,
        description: str | None = None,
        metadata: JsonObject | None = None,
    ) -> None:
        marked: JsonObject = {f"{PREFIX}{marker}": True, **(metadata or {})}
        artifact_id = f"{self._task_id}-{series}-{self._numbers[series]}"
        self._numbers[series] += 1
        artifact = Artifact(artifact_id, (part,), name, description, marked)
        await self._run.emissions.emit_chunk(artifact, append=False, last=True, metadata=marked)

    # --- work that was interrupted ------------------------------------------------------------------------------------

    def position(self) -> NarrationPosition:
        """How far it has come."""
        return NarrationPosition(dict(self._numbers), self._streams, self.files_bytes, self.usage)

    def skip_to(self, position: NarrationPosition) -> None:
        """Go on after what an earlier run has told up to a position, and this run does not repeat."""
        for series, number in position.numbers.items():
            for skipped in range(self._numbers[series], number):
                self._run.journal.skip(f"{self._task_id}-{series}-{skipped}", 1)
        self._numbers = Counter(position.numbers)
        self._streams, self.files_bytes, self.usage = position.streams, position.files_bytes, position.usage
        self._annotate()

    def text_left_over(self) -> list[str]:
        """What an earlier run has said and this run has not, in pieces."""
        return [text_of(chunk.parts) for chunk, _ in self._run.journal.left_over(f"{self._task_id}-text-0")]

    # --- notes --------------------------------------------------------------------------------------------------------

    def note(self, name: str, /, **payload: JsonValue) -> None:
        """Something that only the native API shows."""
        self._run.emissions.note(name, payload)

    def note_once(self, name: str, /, **payload: JsonValue) -> None:
        """The same for what may come out differently when a run begins again: the first one stays."""
        if not self._run.journal.take_note_named(name):
            self.note(name, **payload)

    def began(self) -> None:
        """This agent has begun."""
        self.note("stream_start", agent=self.agent_id, stream_id=0, depth=self.depth)

    def delegated(self, agent_id: str) -> int:
        """An agent that this one delegates to begins. Returns the number of its stream."""
        self._streams += 1
        about: dict[str, JsonValue] = {"agent": agent_id, "stream_id": self._streams, "depth": self.depth + 1}
        self.note("agent_start", **about)
        self.note("stream_start", **about)
        return self._streams

    def delegation_ended(self, agent_id: str, stream_id: int, *, ok: bool) -> None:
        """An agent that this one delegated to is done."""
        self.note("stream_end", agent=agent_id, stream_id=stream_id, ok=ok)

    def model_called(self, model: str, usage: TokenUsage) -> None:
        """A model has answered, for so many tokens."""
        tokens: dict[str, JsonValue] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        }
        if usage.cache_read_tokens:
            tokens["cache_read_tokens"] = usage.cache_read_tokens
        if usage.cache_create_tokens:
            tokens["cache_create_tokens"] = usage.cache_create_tokens
        self.note("token_usage", agent=self.agent_id, stream_id=0, depth=self.depth, model=model, **tokens)
        self.count(usage)

    def count(self, usage: TokenUsage) -> None:
        """Add tokens to those of the whole run."""
        before = self.usage
        self.usage = TokenUsage(
            before.input_tokens + usage.input_tokens,
            before.output_tokens + usage.output_tokens,
            before.cache_read_tokens + usage.cache_read_tokens,
            before.cache_create_tokens + usage.cache_create_tokens,
        )
        self._annotate()

    def failed(self, text: str, kind: str) -> None:
        """The run fails for this reason."""
        self._annotate(failure_metadata(text, kind))

    def _annotate(self, more: JsonObject | None = None) -> None:
        """Say in the metadata of the task, when it ends, which agent worked on it and how much that took."""
        self._run.final_metadata = {
            **self._run.final_metadata,
            f"{PREFIX}agent_id": self.agent_id,
            f"{PREFIX}input_tokens": self.usage.input_tokens,
            f"{PREFIX}output_tokens": self.usage.output_tokens,
            **({f"{PREFIX}files_bytes": self.files_bytes} if self.files_bytes else {}),
            **(more or {}),
        }
