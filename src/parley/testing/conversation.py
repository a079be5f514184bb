"""A conversation with an agent that crashes on the way: a caller that repeats what was lost, readers that come back.

The caller sends a message until it is delivered, answers questions from a script, and reads until the task has ended.
After each crash one more reader subscribes, as a peer does that knows nothing of the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from parley.contents import Content
from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.limits import Limits
from parley.engine.program import Program
from parley.protocol.errors import LocalProtocolError, UnavailableError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StepRecorded, TaskEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Part, is_plain_text, text_of
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Store, Write
from parley.testing.client import AgentClient, running
from parley.testing.crashing_store import Cut
from parley.testing.folding_reader import FoldingReader
from parley.testing.moving_clock import MovingClock, observed

Answers: TypeAlias = Sequence[Content] | Callable[[str], Content]
"""The answers to an agent's questions, in order; or a function that gives the answer to the text of a question."""

SECONDS = 30.0
"""How long one conversation may take, in real time."""
SHOWN = 300
"""Characters that an error shows of a text."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Where a process crashes: right before or right after the n-th write of a conversation."""

    side: Literal["before", "after"]
    number: int


def crashable(
    agent: Program,
    *,
    store: Store | None = None,
    caller: Caller = ANONYMOUS_CALLER,
    others: Sequence[Program] = (),
    unwritten_events: int = 1,
) -> AbstractAsyncContextManager[AgentClient]:
    """Runs an agent for a conversation with crashes: the clock moves by itself where a handler sleeps.

    With one unwritten event, the handler waits for each write, so that every event is a place to crash.
    """
    programs = [observed(other) for other in others]
    limits = Limits(unwritten_events=unwritten_events, run_seconds=None)  # the clock moves while handlers work
    return running(observed(agent), store=store, clock=MovingClock(), limits=limits, caller=caller, others=programs)


class Conversation:
    """A caller that says what it has to say until the agent is done, whatever crashes in between."""

    def __init__(
        self, client: AgentClient, contents: Iterable[Content], answers: Answers, crashes: Sequence[Crash]
    ) -> None:
        self._client = client
        self._answers = answers
        self._crashes = {crash.number: crash for crash in crashes}
        self.where = "Undisturbed, "
        """Where the last crash was, to begin a sentence with."""
        self._is_down = False
        self._message = client.message(*contents)
        self._is_delivered = self._is_read = False
        self.questions: list[str] = []
        self.readers = [FoldingReader("a reader that followed from the start", 0)]
        self._reading: dict[FoldingReader, asyncio.Task[None]] = {}
        self._task: Task | None = None
        self.writes = 0
        """How many writes there were so far, in all processes."""

    @property
    def task(self) -> Task:
        """The task, once it has been created."""
        assert self._task is not None
        return self._task

    async def hold(self) -> None:
        """Talk until the task has ended."""
        try:
            async with asyncio.timeout(SECONDS):
                await self._hold()
        except TimeoutError:
            raise AssertionError(f"{self.where}the task does not end: {_shown_task(self._task)}") from None

    async def _hold(self) -> None:
        while True:
            crashing = asyncio.create_task(self._client.crash_at(self._decide))
            try:
                while not is_terminal(await self._talk()):
                    self._answer()
                await asyncio.gather(*self._reading.values())
                return
            except (UnavailableError, LocalProtocolError):
                if not self._is_down:
                    raise
                await crashing
                self._is_down = False
                await self._stop_reading()
                await self._client.restart()
                self.readers.append(FoldingReader("a subscriber that came after the crash", None))
            finally:
                crashing.cancel()

    async def _talk(self) -> TaskState:
        """Deliver the message that is due, and read until the task ends or asks."""
        if not self._is_delivered:
            request = SendMessageRequest(self._message, SendConfiguration(return_immediately=True))
            sent = await self._client.agent.send_message(request, self._client.caller)
            assert isinstance(sent, Task), "An agent that replies with a message keeps no task"
            self._task, self._is_delivered, self._is_read = sent, True, False
        first, *late = self.readers
        for reader in late if self._is_read else self.readers:
            reading = self._reading.get(reader)
            if reading is not None and reading.done():
                reading.result()  # a crash may have broken its stream
            if reading is None or reading.done():
                self._reading[reader] = asyncio.create_task(reader.read(self._client, self.task.id))
        if not self._is_read:
            # A subscriber that came while the task was waiting reads on: its stream ends with what follows the answer.
            await self._reading[first]
            self._is_read = True  # the next crash may come while the task waits, or work of another agent goes on
        self._task = await self._client.get(self.task)
        return self._task.status.state

    async def _stop_reading(self) -> None:
        for reading in self._reading.values():
            reading.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)
        self._reading.clear()

    def _answer(self) -> None:
        """Prepare the answer to the question that the agent asks."""
        message = self.task.status.message
        question = text_of(message.parts) if message is not None else ""
        if callable(self._answers):
            answer = self._answers(question)
        else:
            number = len(self.questions)
            has_answer = number < len(self._answers)
            assert has_answer, f"{self.where}the agent asks {question!r}, and `answers` has no more answers"
            answer = self._answers[number]
        self.questions.append(question)
        self._message = self._client.message(answer, task=self.task)
        self._is_delivered = False

    def _decide(self, write: Write | str) -> Cut:
        self.writes += 1
        crash = self._crashes.get(self.writes)
        if crash is not None:
            self._is_down = True
            cut_at = f"the value {write!r}" if isinstance(write, str) else ", ".join(map(_shown_event, write.events))
            self.where = f"After a crash right {crash.side} write {crash.number} ({cut_at}), "
        if isinstance(write, Write) and (crash is None or crash.side == "after"):
            self._move_clock(write)
        return crash.side if crash is not None else None

    def _move_clock(self, write: Write) -> None:
        """Move the clock to the end of each sleep that begins; the task may have no run meanwhile."""
        clock = self._client.clock
        assert isinstance(clock, MovingClock)
        for event in write.events:
            if isinstance(event, StepRecorded) and event.kind == "sleep":
                clock.move_to(datetime.fromisoformat(str(event.value)))


def _shown_event(event: TaskEvent) -> str:
    match event:
        case ArtifactUpdate():
            more = "more of " if event.append else ""
            return f"{more}{event.artifact.artifact_id!r}: {shown_parts(event.artifact.parts)}"
        case StatusUpdate():
            return f"status {event.status.state}"
        case StepRecorded():
            return f"step {event.name!r}"
        case _:
            return type(event).__name__


def shown_parts(parts: Sequence[Part]) -> str:
    """Text as it is, other parts as Python shows them."""
    return shortened(repr(text_of(parts)) if all(map(is_plain_text, parts)) else repr(parts))


def _shown_task(task: Task | None) -> str:
    return "there is none" if task is None else f"it is {task.status.state} after {shortened(AgentClient.text(task))!r}"


def shortened(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
