"""The text that each event of a stream adds, without repeats, however the agent streams it.

The specification puts results into artifacts. But google-adk 2.13, Strands 1.62 and langgraph-api 0.16 stream text as
messages of a `working` task, and send the same text again in an artifact at the end:

- google-adk: each message is complete; the artifact repeats the last one;
- Strands: each message is a piece; the artifact repeats the last turn of the model, and ends with a newline;
- langgraph-api: each message repeats the one before and continues it; the artifact repeats the last one.

So a message adds its text except for what it repeats, and an artifact adds what no message said. Agents that declare
cursors are Parley's: their messages are notes about progress and not part of the answer, and add nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import Message, Role, text_of
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

_WORD = re.compile(r"\w")
"""Only texts with a letter or digit count as repeats: line breaks and rows of dashes recur anyway."""


class AddedText:
    """The text of one stream so far."""

    def __init__(self, *, keeps_notes_apart: bool = False) -> None:
        self._keeps_notes_apart = keeps_notes_apart
        self._pieces: list[str] = []
        """Texts of messages since the last artifact."""
        self._turn: list[str] = []
        """Messages that may be repeated together: those since the last repeat."""
        self._turn_length = 0
        self._repeats = False
        """Whether each message repeats the one before and continues it."""
        self._has_artifacts = False

    def text(self, event: StreamEvent) -> str | None:
        """The text that an event adds, or None for a chunk that adds all of its text, which costs nothing.

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
        if status.state is TaskState.COMPLETED:  # the answer of an agent without artifacts
            return "" if self._has_artifacts else self._not_said(text)
        if status.state is not TaskState.WORKING or self._keeps_notes_apart:
            return ""
        if added := self._not_repeated(text):
            self._pieces.append(added)
        return added

    def _not_repeated(self, text: str) -> str:
        """The text of a message after what it repeats."""
        turn = "".join(self._turn) if self._turn_length <= len(text) else ""
        if not _WORD.search(turn) or not text.startswith(turn):
            if self._repeats:
                self._begin_turn()
            self._turn.append(text)
            self._turn_length += len(text)
            return text
        self._repeats = self._repeats or (len(self._turn) == 1 and text != turn)
        # Otherwise the message is the sum of the pieces before it, and new pieces follow.
        self._begin_turn(*([text] if self._repeats else []))
        return text[len(turn) :]

    def _begin_turn(self, *texts: str) -> None:
        self._turn = list(texts)
        self._turn_length = sum(map(len, texts))

    def _not_said(self, text: str) -> str:
        """The text of an answer after what the messages said; those then count as shown."""
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
    """Whether a text is the last pieces joined, apart from trailing white space."""
    said = said.rstrip()
    return said.endswith(text) and len(said) - len(text) in accumulate(map(len, pieces), initial=0)
