"""What becomes of a delegation: the other agent's answer, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.messages import DataPart, Message, Part, RawPart, UrlPart, text_of
from parley.protocol.tasks import Artifact, Task, TaskState


class DelegateFailedError(ParleyError):
    """The other agent has not done its task.

    `state` is the state in which its task ended: failed, rejected or canceled; or input required or auth required, if
    it asked something and `asks=False` was given. It is None if the agent could not be reached, or if its answer could
    not be used. `reason` says why; after a question, it is the question. `task` is its task, if one is known.
    """

    def __init__(self, agent: str, reason: str, *, state: TaskState | None = None, task: Task | None = None) -> None:
        problem = f"The agent {agent} could not be used"
        if state is not None:
            problem = f"The task of the agent {agent} {_became(state)}"
        super().__init__(f"{problem}: {reason}" if reason else problem)
        self.agent = agent
        self.reason = reason
        self.state = state
        self.task = task


def _became(state: TaskState) -> str:
    if is_interrupted(state):
        return f"is {state}"
    return "failed" if state is TaskState.FAILED else f"was {state}"


@dataclass(frozen=True, slots=True)
class DelegateResult:
    """What another agent has answered: a completed task, or a message without a task."""

    content: Task | Message

    @property
    def task(self) -> Task | None:
        """Its task, without the history; None if it answered with a message."""
        return self.content if isinstance(self.content, Task) else None

    @property
    def message(self) -> Message | None:
        """The message that it answered with, or that of its task's last status."""
        return self.content.status.message if isinstance(self.content, Task) else self.content

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The artifacts of its task."""
        return self.content.artifacts if isinstance(self.content, Task) else ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the artifacts; if there are none, those of the message."""
        produced = tuple(part for artifact in self.artifacts for part in artifact.parts)
        return produced or (self.message.parts if self.message else ())

    def __a2a_parts__(self) -> tuple[Part, ...]:
        return self.parts

    @property
    def text(self) -> str:
        """All its text."""
        return text_of(self.parts)

    @property
    def data(self) -> JsonValue:
        """Its data: the one data part's content, a list of several, or None."""
        contents = [part.data for part in self.parts if isinstance(part, DataPart)]
        return (contents[0] if len(contents) == 1 else contents) if contents else None

    @property
    def files(self) -> tuple[RawPart | UrlPart, ...]:
        """Its files, inline or by URL."""
        return tuple(part for part in self.parts if isinstance(part, RawPart | UrlPart))
