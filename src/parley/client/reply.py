"""Answers of an agent: text, data, files, and whether it waits for input.

`Reply` is a whole answer, `Update` an event of a stream. The message of a failed task is `reason` and never part of
`text`, so that it is not taken for the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from parley.client.questions import question_of
from parley.client.streams.streamed_task import StreamedTask
from parley.protocol.authorization import (
    GivenCredential,
    RequestedAuthorization,
    decode_authorization,
    encode_credential,
)
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import ArtifactUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import DataPart, Message, Part, RawPart, Role, UrlPart, text_of
from parley.protocol.tasks import Artifact, Task, TaskState

if TYPE_CHECKING:
    from parley.client.client import Client
    from parley.contents import Content

FAILURES = frozenset({TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED})
"""The terminal states other than completed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A task as it was read, or a direct message."""

    client: Client
    content: Task | Message

    @property
    def task(self) -> Task | None:
        """The task, unless the agent answered with a message."""
        return self.content if isinstance(self.content, Task) else None

    @property
    def message(self) -> Message | None:
        """The direct message, or the message of the task's status: a question, or the reason of a failure."""
        return self.content.status.message if isinstance(self.content, Task) else self.content

    @property
    def state(self) -> TaskState:
        """The task's state; a direct message is complete."""
        return self.content.status.state if isinstance(self.content, Task) else TaskState.COMPLETED

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The task's artifacts."""
        return self.content.artifacts if isinstance(self.content, Task) else ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the artifacts; if there are none and the task is completed, those of its messages."""
        produced = tuple(part for artifact in self.artifacts for part in artifact.parts)
        if produced or self.state is not TaskState.COMPLETED:
            return produced
        return self.message.parts if self.message else self._said_at_work()

    def _said_at_work(self) -> tuple[Part, ...]:
        """The parts of the agent's messages after the last one of the caller.

        Microsoft's agent-framework-a2a 1.0.0b261022 answers so, unless it streams: with a message of the working task,
        and no artifact.
        """
        if self.task is None or self.client.keeps_notes_apart:
            return ()
        spoken = takewhile(lambda message: message.role is Role.AGENT, reversed(self.task.history))
        return tuple(part for message in reversed(list(spoken)) for part in message.parts)

    @property
    def text(self) -> str:
        """All text of the result. A question is in `question`, the reason of a failure in `reason`."""
        return text_of(self.parts)

    @property
    def data(self) -> JsonValue:
        """The first piece of data, or None."""
        return next((part.data for part in self.parts if isinstance(part, DataPart)), None)

    @property
    def files(self) -> tuple[RawPart | UrlPart, ...]:
        """All files."""
        return tuple(part for part in self.parts if isinstance(part, RawPart | UrlPart))

    @property
    def question(self) -> str:
        """The agent's question, if it waits for an answer; as JSON if it is data without text."""
        task = self.task
        return question_of(task.status, task.artifacts) if task and self.needs_input else ""

    @property
    def has_failed(self) -> bool:
        """Whether the task failed, was rejected or canceled."""
        return self.state in FAILURES

    @property
    def reason(self) -> str:
        """Why the task was not completed, if the agent says so."""
        return text_of(self.message.parts) if self.has_failed and self.message else ""

    @property
    def needs_input(self) -> bool:
        """Whether the agent waits for an answer, or for the caller to authenticate somewhere."""
        return is_interrupted(self.state)

    @property
    def authorization(self) -> RequestedAuthorization | None:
        """What the agent needs to be authorized for, if it waits for that and says so to programs."""
        return decode_authorization(self.task.status) if self.task is not None else None

    @property
    def needs_auth(self) -> bool:
        """Whether the agent waits for an authorization: `authorize` it, or have a person open the URL."""
        return self.state is TaskState.AUTH_REQUIRED or self.authorization is not None

    async def authorize(
        self, credential: str, *, scheme: str | None = None, expires_at: datetime | None = None
    ) -> Reply:
        """Continue the task with the credential that the agent asks for, and wait for the next answer or question.

        The agent gets it once; Parley's servers show it to no reader of the task.

        Raises:
            LocalProtocolError: the agent waits for no authorization.
        """
        if not isinstance(self.content, Task) or not self.needs_auth:
            raise LocalProtocolError("The agent waits for no authorization")
        asked = self.authorization
        given = GivenCredential(credential, scheme or (asked.scheme if asked else "Bearer"), expires_at)
        return await self.client.send("Authorized.", task=self.content, metadata=encode_credential(given))

    async def authorized(self) -> Reply:
        """Wait until the agent's own callback endpoint has received the authorization, and for the next answer.

        Raises:
            TimedOutError: it takes longer than the request is good for, or than the client waits for replies.
        """
        if not isinstance(self.content, Task):
            return self
        return Reply(self.client, await self.client.after_authorization(self.content))

    @property
    def is_finished(self) -> bool:
        """Whether the answer is final."""
        return isinstance(self.content, Message) or is_terminal(self.content.status.state)

    async def answer(self, *contents: Content) -> Reply:
        """Answer the agent's question, and wait for the next answer or question."""
        if not isinstance(self.content, Task):
            return await self.client.send(*contents, context=self.content.context_id)
        return await self.client.send(*contents, task=self.content)


class Update(Struct, frozen=True, gc=False):
    """An event of a stream, and the task with all events so far, to which the properties refer."""

    event: StreamEvent
    seen: StreamedTask
    cursor: str | None = None
    """For `subscribe(after=…)`, also in another process; None if the agent has no cursors."""
    added_text: str | None = None
    """The text that the event adds; None if that is all text of its artifact."""
    replaces: bool = False
    """Whether the event replaces what its artifact held before, as when an agent was restarted and begins again."""

    @property
    def text(self) -> str:
        """The text that the event adds, to print as it comes: without repeats, however the agent streams."""
        if self.added_text is not None:
            return self.added_text
        return text_of(self.event.artifact.parts) if isinstance(self.event, ArtifactUpdate) else ""

    @property
    def artifact(self) -> Artifact | None:
        """The whole artifact that the event belongs to, if it has one."""
        artifact = getattr(self.event, "artifact", None)
        return self.seen.artifact(artifact.artifact_id) if artifact is not None else None

    @property
    def task(self) -> Task | None:
        """The task, unless the agent answered with a message."""
        return self.seen.task() if self.seen.task_id is not None else None

    @property
    def state(self) -> TaskState:
        """The task's state; a direct message is complete."""
        return self.seen.state

    @property
    def needs_input(self) -> bool:
        """Whether the agent waits for an answer, or for the caller to authenticate somewhere."""
        return is_interrupted(self.state)

    @property
    def authorization(self) -> RequestedAuthorization | None:
        """What the agent needs to be authorized for, if it waits for that and says so to programs."""
        return decode_authorization(self.seen.status) if self.needs_input and self.seen.status else None

    @property
    def needs_auth(self) -> bool:
        """Whether the agent waits for an authorization."""
        return self.state is TaskState.AUTH_REQUIRED or self.authorization is not None

    @property
    def question(self) -> str:
        """The agent's question, if it waits for an answer; as JSON if it is data without text."""
        task = self.task if self.needs_input else None
        return question_of(task.status, task.artifacts) if task else ""

    @property
    def has_failed(self) -> bool:
        """Whether the task failed, was rejected or canceled."""
        return self.state in FAILURES

    @property
    def reason(self) -> str:
        """Why the task was not completed, if the agent says so."""
        message = self.seen.status.message if self.seen.status and self.has_failed else None
        return text_of(message.parts) if message else ""
