"""Whether an agent survives a crash wherever it comes, in one line of its author's test:

    await survives_crashes(agent, "Plan Rome", answers=["3 days"])

The conversation is held once undisturbed. Then it is held again for every write: the process crashes right before the
write, or right after it, and the next process goes on. Each time the task must end in the same state with the same
artifacts, and so must what readers hold that only folded the stream's updates.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal

from parley.contents import Content
from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.limits import Limits
from parley.engine.program import Program
from parley.protocol.errors import LocalProtocolError, UnavailableError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StepRecorded, TaskEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Part, is_plain_text, joined, text_of
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Store, Write
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient, running
from parley.testing.crashing_store import Cut
from parley.testing.folding_reader import FoldingReader
from parley.testing.moving_clock import MovingClock, observed

CURE = (
    "A handler begins again from the top after a crash. What may come out differently then must be a step:"
    " `await turn.step(…)` for a value, `turn.stream(…)` for a text that comes in pieces."
)
SECONDS = 30.0
"""How long one conversation may take, in real time."""
SHOWN = 300
"""Characters that an error shows of a text."""


async def survives_crashes(
    agent: Program,
    *contents: Content,
    answers: Sequence[Content] = (),
    accept: Callable[[str], bool] | None = None,
    folder: Path | None = None,
    caller: Caller = ANONYMOUS_CALLER,
    others: Sequence[Program] = (),
    at_most: int = 400,
) -> Task:
    """Crash an agent at every write of a conversation in turn; returns the task of the undisturbed one.

    `answers` are given to the agent's questions, in order. `accept` is for an agent whose text is different each time:
    it says whether a text is the whole of one run, such as `FakeModel.said`. `others` are agents on the same engine.
    Tasks are kept in memory, or in SQLite files in a folder if one is given. Of more writes than half of `at_most`,
    only so many are tried, evenly spread.

    Raises:
        AssertionError: a crash changes what the agent says. It shows where the crash was, and both texts.
    """
    stores = _stores(folder)

    async def hold(cut: Crash | None) -> Conversation:
        async with crashable(agent, store=next(stores), caller=caller, others=others) as client:
            conversation = Conversation(client, contents, answers, (cut,) if cut else ())
            await conversation.hold()
            return conversation

    undisturbed = await hold(None)
    undisturbed.check_readers()
    for crash in _spread(undisturbed.writes, at_most):
        crashed = await hold(crash)
        crashed.check_readers()
        if accept is None:
            crashed.check_same_as(undisturbed)
        else:
            crashed.check_accepted(accept, undisturbed)
    return undisturbed.task


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
    limits = Limits(unwritten_events=unwritten_events)
    return running(observed(agent), store=store, clock=MovingClock(), limits=limits, caller=caller, others=programs)


@dataclass(frozen=True, slots=True)
class Crash:
    """Where a process crashes: right before or right after the n-th write of a conversation."""

    side: Literal["before", "after"]
    number: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a conversation came to, without ids and times."""

    state: TaskState
    status: str
    questions: tuple[str, ...]
    artifacts: dict[str, tuple[Part, ...]]


class Conversation:
    """A caller that says what it has to say until the agent is done, whatever crashes in between."""

    def __init__(
        self, client: AgentClient, contents: Iterable[Content], answers: Sequence[Content], crashes: Sequence[Crash]
    ) -> None:
        self._client = client
        self._answers = iter(answers)
        self._crashes = {crash.number: crash for crash in crashes}
        self._where = "Undisturbed, "
        self._is_down = False
        self._message = client.message(*contents)
        self._is_delivered = self._is_read = False
        self._questions: list[str] = []
        self._readers = [FoldingReader("a reader that followed from the start", 0)]
        self._reading: dict[FoldingReader, asyncio.Task[None]] = {}
        self._task: Task | None = None
        self.writes = 0

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
            raise AssertionError(f"{self._where}the task does not end: {_shown_task(self._task)}") from None

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
                self._readers.append(FoldingReader("a subscriber that came after the crash", None))
            finally:
                crashing.cancel()

    async def _talk(self) -> TaskState:
        """Deliver the message that is due, and read until the task ends or asks."""
        if not self._is_delivered:
            request = SendMessageRequest(self._message, SendConfiguration(return_immediately=True))
            sent = await self._client.agent.send_message(request, self._client.caller)
            assert isinstance(sent, Task), "An agent that replies with a message keeps no task"
            self._task, self._is_delivered, self._is_read = sent, True, False
        first, *late = self._readers
        for reader in late if self._is_read else self._readers:
            if reader not in self._reading or self._reading[reader].done():
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
        answer = next(self._answers, None)
        assert answer is not None, f"{self._where}the agent asks {question!r}, and `answers` has no more answers"
        self._questions.append(question)
        self._message = self._client.message(answer, task=self.task)
        self._is_delivered = False

    def _decide(self, write: Write | str) -> Cut:
        self.writes += 1
        crash = self._crashes.get(self.writes)
        if crash is not None:
            self._is_down = True
            cut_at = f"the value {write!r}" if isinstance(write, str) else ", ".join(map(_shown_event, write.events))
            self._where = f"After a crash right {crash.side} write {crash.number} ({cut_at}), "
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

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def _outcome(self) -> Outcome:
        status = self.task.status.message
        text = re.sub(r"Reference: \S+", "Reference: …", text_of(status.parts) if status else "")
        artifacts = {artifact.artifact_id: joined(artifact.parts) for artifact in self.task.artifacts}
        return Outcome(self.task.status.state, text, tuple(self._questions), artifacts)

    def check_readers(self) -> None:
        """Check that each reader holds what the task holds. Raises AssertionError."""
        expected = self._outcome.artifacts
        for reader in self._readers:
            self._check_artifacts("the task has", expected, f"{reader.name} holds", reader.artifacts)

    def check_same_as(self, undisturbed: Conversation) -> None:
        """Check that it came to what the other one came to. Raises AssertionError."""
        expected, found = undisturbed._outcome, self._outcome
        self._check_artifacts("undisturbed", expected.artifacts, "after the crash", found.artifacts)
        for name in ("state", "status", "questions"):
            undisturbed_value, value = getattr(expected, name), getattr(found, name)
            assert value == undisturbed_value, (
                f"{self._where}the task ends with another {name}.\n"
                f"  undisturbed:     {undisturbed_value}\n  after the crash: {value}\n{CURE}"
            )

    def check_accepted(self, accept: Callable[[str], bool], undisturbed: Conversation) -> None:
        """Check that it ended as the other one did, with a text that is accepted. Raises AssertionError."""
        state, expected_state = self._outcome.state, undisturbed._outcome.state
        assert state is expected_state, f"{self._where}the task is {state}; undisturbed it is {expected_state}.\n{CURE}"
        text = self._client.text(self.task)
        assert accept(text), f"{self._where}the text is not the whole text of one run: {_cut(text)!r}\n{CURE}"

    def _check_artifacts(
        self, of: str, expected: dict[str, tuple[Part, ...]], by: str, found: dict[str, tuple[Part, ...]]
    ) -> None:
        for name in expected.keys() | found.keys():
            if (before := expected.get(name, ())) != (after := found.get(name, ())):
                raise AssertionError(
                    f"{self._where}the artifact {name!r} differs.\n"
                    f"  {of}: {_shown_parts(before)}\n  {by}: {_shown_parts(after)}\n{CURE}"
                )


def _stores(folder: Path | None) -> Iterator[Store]:
    for number in count(1):
        yield MemoryStore() if folder is None else SqliteStore(folder / f"conversation-{number}.db")


def _spread(writes: int, at_most: int) -> Iterator[Crash]:
    step = max(1, -(-2 * writes // at_most))
    for number in range(1, writes + 1, step):
        yield Crash("before", number)
        yield Crash("after", number)


def _shown_event(event: TaskEvent) -> str:
    match event:
        case ArtifactUpdate():
            more = "more of " if event.append else ""
            return f"{more}{event.artifact.artifact_id!r}: {_shown_parts(event.artifact.parts)}"
        case StatusUpdate():
            return f"status {event.status.state}"
        case StepRecorded():
            return f"step {event.name!r}"
        case _:
            return type(event).__name__


def _shown_parts(parts: Sequence[Part]) -> str:
    """Text as it is, other parts as Python shows them."""
    return _cut(repr(text_of(parts)) if all(map(is_plain_text, parts)) else repr(parts))


def _shown_task(task: Task | None) -> str:
    return "there is none" if task is None else f"it is {task.status.state} after {_cut(AgentClient.text(task))!r}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
