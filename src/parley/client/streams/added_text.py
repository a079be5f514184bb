"""The text that each event of a stream adds, whichever way the agent streams it: nothing is told twice.

The specification wants results in artifacts. Yet google-adk 2.13, Strands 1.62 and langgraph-api 0.16 stream their text
as messages of a task that is `working`, and at the end send an artifact that holds it again:

- google-adk: each message is a whole one; the artifact repeats the last;
- Strands: each message is a piece; the artifact repeats the last turn of the model, and ends with a newline;
- langgraph-api: each message repeats the one before and goes on; the artifact repeats the last.

So the text of such a message counts, except for what it repeats, and an artifact adds what was not said before. Agents
that declare cursors are Parley's, which keep notes about the work and the answer apart: their notes do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import Message, Role, text_of
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

_WORD = re.compile(r"\w")
"""What a text must have to be taken for a repetition: line breaks and rows of dashes come in equal pieces anyway."""


class AddedText:
    """What the events of one stream have said."""

    def __init__(self, *, keeps_notes_apart: bool = False) -> None:
        self._keeps_notes_apart = keeps_notes_apart
        self._pieces: list[str] = []
        """What was said since the last artifact."""
        self._turn: list[str] = []
        """The messages that may be repeated as one: those since the last that was a repetition."""
        self._turn_length = 0
        self._repeats = False
        """Whether each message repeats the one before and goes on."""
        self._has_artifacts = False

    def text(self, event: StreamEvent) -> str | None:
        """The text that an event adds, or None for a chunk that adds all it has, so that it costs nothing to know.

        Call it once for each event, in their order.
        """
        match event:
            case ArtifactUpdate():  # first, as most events are chunks
                self._has_artifacts = True
                return self._not_said(text_of(event.artifact.parts)) if self._pieces else None
            case Message():
                return self._not_said(text_of(event.parts))
            case Task():
                return self._of_artifacts(event.artifacts) or self._of_status(event.status)
            case StatusUpdate():
                return self._of_status(event.status)

    def _of_artifacts(self, artifacts: Sequence[Artifact]) -> str:
        self._has_artifacts = bool(artifacts)
        return self._not_said("".join(text_of(artifact.parts) for artifact in artifacts))

    def _of_status(self, status: TaskStatus) -> str:
        text = text_of(status.message.parts) if status.message and status.message.role is Role.AGENT else ""
        if not text:
            return ""
        if status.state is TaskState.COMPLETED:  # the answer of an agent that makes no artifacts
            return "" if self._has_artifacts else self._not_said(text)
        if status.state is not TaskState.WORKING or self._keeps_notes_apart:
            return ""
        if added := self._not_repeated(text):
            self._pieces.append(added)
        return added

    def _not_repeated(self, text: str) -> str:
        """What a message says beyond those that it repeats."""
        turn = "".join(self._turn) if self._turn_length <= len(text) else ""
        if not _WORD.search(turn) or not text.startswith(turn):
            if self._repeats:
                self._begin_turn()
            self._turn.append(text)
            self._turn_length += len(text)
            return text
        self._repeats = self._repeats or (len(self._turn) == 1 and text != turn)
        # Where messages do not go on with what they repeat, pieces were summed up, and others follow.
        self._begin_turn(*([text] if self._repeats else []))
        return text[len(turn) :]

    def _begin_turn(self, *texts: str) -> None:
        self._turn = list(texts)
        self._turn_length = sum(map(len, texts))

    def _not_said(self, text: str) -> str:
        """What an answer says beyond what was said while the agent was at work; from here on, all of that is told."""
        if not self._pieces or not text.strip():
            return text
        pieces, turn = self._pieces, "".join(self._turn)
        self._pieces = []
        self._begin_turn()
        said = "".join(pieces)
        if _is_end_of(said, pieces, text.rstrip()):
            return ""
        before = next((known for known in (said, turn) if known and text.startswith(known)), "")
        return text[len(before) :]


def _is_end_of(said: str, pieces: Sequence[str], text: str) -> bool:
    """Whether a text is what the last of some pieces say together, but for white space at the end."""
    said = said.rstrip()
    return said.endswith(text) and len(said) - len(text) in accumulate(map(len, pieces), initial=0)
