"""A way to an agent that exists only as a script: what happens, when the connection breaks, and what it says then.

It implements the client's `Transport`, so that everything above it can be tested without a network and without time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from parley.client.calls import Calls
from parley.client.errors import UnreachableError
from parley.client.options import Retries, Timeouts
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, Binding
from parley.protocol.errors import UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent, TaskCreated
from parley.protocol.extensions import CURSOR, IDEMPOTENT_SEND
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import ends_stream, fold
from parley.protocol.messages import Message, Part, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result, SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version

TASK = "t"
SUBMITTED = TaskStatus(TaskState.SUBMITTED)
SEND = SendMessageRequest(Message("m", Role.USER, (TextPart("go"),)))
PLACE = AgentInterface("http://agent.example/", Binding.JSONRPC, Version.V1_0)


def card_of(*extensions: str, interfaces: Sequence[AgentInterface] = (PLACE,)) -> AgentCard:
    """A card that declares some extensions."""
    declared = tuple(AgentExtension(uri) for uri in extensions)
    return AgentCard("A", "An agent", "1", tuple(interfaces), AgentCapabilities(streaming=True, extensions=declared))


def status(
    state: TaskState, text: str | None = None, *, final: bool = False, metadata: JsonObject | None = None
) -> StatusUpdate:
    """A change of the task's status."""
    message = None if text is None else Message(text, Role.AGENT, (TextPart(text),))
    return StatusUpdate(TASK, "c", TaskStatus(state, message), metadata or {}, final)


def chunk(text: str, name: str = "a", *, append: bool = True) -> ArtifactUpdate:
    """A piece of an artifact."""
    return ArtifactUpdate(TASK, "c", Artifact(name, (TextPart(text),)), append=append)


def parts_by_artifact(task: Task) -> dict[str, list[Part]]:
    """What a task has produced; texts in a row count as one, however they were cut, and empty ones as nothing."""
    found: dict[str, list[Part]] = {}
    for artifact in task.artifacts:
        parts: list[Part] = found.setdefault(artifact.artifact_id, [])
        for part in artifact.parts:
            if part == TextPart(""):
                continue
            last = parts[-1] if parts else None
            if isinstance(part, TextPart) and isinstance(last, TextPart):
                parts[-1] = TextPart(last.text + part.text)
            else:
                parts.append(part)
    return found


class Manner(Enum):
    """What a subscription gives after a break."""

    NUMBERED = auto()
    """Exactly what was missed: the agent declares cursors."""
    REPEATS = auto()
    """The task, and then some of what is in it already."""
    SKIPS = auto()
    """Only what happens from then on."""
    CLOSES = auto()
    """The task, and the end."""
    REFUSES = auto()
    """An error."""


@dataclass(frozen=True, slots=True)
class Break:
    """After how many events of a stream it breaks, how much happens meanwhile, and whether it looks like an end."""

    after: int
    meanwhile: int = 0
    looks_like_an_end: bool = False


@dataclass(slots=True)
class ScriptedAgent:
    """One task whose life is `script`; the streams break as `breaks` says, and then no more."""

    script: Sequence[StatusUpdate | ArtifactUpdate]
    manner: Manner = Manner.NUMBERED
    breaks: list[Break] = field(default_factory=list[Break])
    happened: int = 0
    looks: int = 0
    subscriptions: list[str | None] = field(default_factory=list["str | None"])
    interface: AgentInterface = PLACE
    version: Version = Version.V1_0

    def calls(self) -> Calls:
        """Calls of this agent that never wait."""
        declared = (CURSOR, IDEMPOTENT_SEND) if self.manner is Manner.NUMBERED else ()
        retries = Retries(attempts=4, first_pause=0)
        place = [(self.interface, self.version)]
        return Calls(
            card_of(*declared), place, lambda *_: self, timeouts=Timeouts(reply=20), retries=retries, sleep=_at_once
        )

    def task(self) -> Task:
        """The task as it stands, by the rules of the engine."""
        return fold(None, (TaskCreated(TASK, "c", SUBMITTED), *self.script[: self.happened]))

    def truth(self) -> Task:
        """The task as it will be in the end."""
        return fold(None, (TaskCreated(TASK, "c", SUBMITTED), *self.script))

    async def call(self, operation: Operation, request: Request, sent: CallOptions) -> Result:
        """The task; it goes on while it is looked at."""
        assert operation is ops.GET_TASK
        self.looks += 1
        task = self.task()
        self._go_on(1)
        return task

    async def stream(self, operation: Operation, request: Request, sent: CallOptions) -> AsyncGenerator[ReceivedEvent]:
        """The events from here on, until the end or a break."""
        broken = self.breaks.pop(0) if self.breaks else None
        told = 0
        async for received in self._told(operation, sent):
            if broken is not None and told == broken.after:
                self._go_on(broken.meanwhile)
                if broken.looks_like_an_end:
                    return
                raise UnreachableError("broken")
            told += 1
            yield received

    async def _told(self, operation: Operation, sent: CallOptions) -> AsyncGenerator[ReceivedEvent]:
        position = self.happened
        if operation is ops.SUBSCRIBE_TO_TASK:
            self.subscriptions.append(sent.after)
            ended = ends_stream(self.task().status.state)
            match self.manner:
                case Manner.NUMBERED:
                    position = int(sent.after or 0)
                case Manner.REFUSES:
                    raise UnsupportedOperationError
                case _ if ended:
                    raise UnsupportedOperationError
                case Manner.REPEATS:
                    yield ReceivedEvent(self.task())
                    position = max(0, self.happened - 2)
                case Manner.CLOSES:
                    yield ReceivedEvent(self.task())
                    return
                case Manner.SKIPS:
                    pass
        else:
            yield self._received(0, self.task())
        while position < len(self.script):
            event = self.script[position]
            position += 1
            self.happened = max(self.happened, position)
            yield self._received(position, event)

    def _received(self, number: int, event: StreamEvent) -> ReceivedEvent:
        return ReceivedEvent(event, str(number) if self.manner is Manner.NUMBERED else None)

    def _go_on(self, steps: int) -> None:
        self.happened = min(self.happened + steps, len(self.script))

    async def close(self) -> None:
        """Nothing is open."""


async def _at_once(_: float) -> Any:
    """No pause."""
