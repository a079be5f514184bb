"""Random lives of an engine: sends, repeats, answers, cancels, subscriptions, restarts and crashes in any order.

After every step the log is looked at and must hold: numbers without gaps, a fold that is the task everybody sees, one
final state, artifacts without a lost or repeated chunk, steps recorded once, subscribers that saw exactly the log, and
nobody's task at work without somebody working on it.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from parley import Agent, Turn
from parley.engine.caller import ANONYMOUS_CALLER
from parley.engine.limits import Limits
from parley.protocol.errors import ParleyError, TaskFinishedError, TaskNotCancelableError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StepRecorded, TaskEvent
from parley.protocol.lifecycle import fold, is_terminal
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Store, TaskKey
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient
from parley.testing.clock import FakeClock
from tests.suspending import suspending

SAY, ASK, STEP, WAIT, PAUSE, FAIL = "sapwhf"
scripts = st.text(alphabet=[SAY, SAY, SAY, ASK, STEP, WAIT, PAUSE, FAIL], min_size=1, max_size=8)


class Follower:
    """A subscription that may stop and come back with its cursor."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.cursor = 0
        self.seen: list[tuple[int, TaskEvent]] = []
        self.reading: asyncio.Task[None] | None = None

    def begin(self, client: AgentClient) -> None:
        if self.reading is None or self.reading.done():
            self.reading = asyncio.get_running_loop().create_task(self._read(client))

    async def _read(self, client: AgentClient) -> None:
        try:
            async for seq, event in client.follow(self.task_id, after=self.cursor):
                self.seen.append((seq, event))  # pyright: ignore[reportArgumentType]
                self.cursor = seq
        except ParleyError:
            pass  # cut off: it comes back with its cursor

    async def end(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.gather(self.reading, return_exceptions=True)
            self.reading = None


class EngineLife(RuleBasedStateMachine):
    """What can happen to an engine. Subclasses say where it keeps its tasks."""

    def make_log(self) -> Store:
        return MemoryStore()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.gate: asyncio.Event
        self.scripts: dict[str, str] = {}
        self.requests: list[tuple[SendMessageRequest, str]] = []
        self.followers: list[Follower] = []
        self.runs: Counter[str] = Counter()
        self.runner.run(self._begin())

    async def _begin(self) -> None:
        self.gate = asyncio.Event()
        agent = Agent("Script")
        agent.on_message(self.play)
        limits = Limits(
            events_in_memory=4,
            bytes_in_memory=20,  # about two chunks
            page_events=3,
            page_characters=300,
            snapshot_events=5,
            run_attempts=1_000,
        )
        self.client = AgentClient(agent, self.make_log(), FakeClock(), limits, ANONYMOUS_CALLER)
        await self.client.restart()

    async def play(self, turn: Turn) -> Any:
        """Play the script in the message: what it says is a function of the script and the answers."""
        self.runs[turn.task_id] += 1
        for place, letter in enumerate(turn.text):
            if letter == SAY:
                yield f"{place} "
            elif letter == ASK:
                yield f"<{(await turn.ask('?')).text}> "
            elif letter == STEP:
                yield f"[{await turn.step('step', lambda place=place: place)}] "
            elif letter == WAIT:
                await self.gate.wait()
            elif letter == PAUSE:
                await asyncio.sleep(0)
            else:
                raise ValueError(turn.text)

    def teardown(self) -> None:
        self.runner.run(self._end())
        self.runner.close()

    async def _end(self) -> None:
        for follower in self.followers:
            await follower.end()
        await self.client.crash()

    def task_ids(self) -> list[str]:
        return list(self.scripts)

    def draw_task(self, number: int) -> str:
        ids = self.task_ids()
        return ids[number % len(ids)]

    # --- what can happen ----------------------------------------------------------------------------------------------

    @rule(script=scripts)
    def send(self, script: str) -> None:
        async def act() -> None:
            request = SendMessageRequest(self.client.message(script), SendConfiguration(return_immediately=True))
            task: Any = await self.client.agent.send_message(request)
            self.scripts[task.id] = script
            self.requests.append((request, task.id))

        self.runner.run(act())

    @precondition(lambda self: self.requests)
    @rule(number=st.integers(0, 99))
    def repeat(self, number: int) -> None:
        """The same message again is the same task, whatever became of it."""

        async def act() -> None:
            request, task_id = self.requests[number % len(self.requests)]
            task: Any = await self.client.agent.send_message(request)
            assert task.id == task_id

        self.runner.run(act())

    @precondition(lambda self: self.scripts)
    @rule(number=st.integers(0, 99))
    def answer(self, number: int) -> None:
        async def act() -> None:
            task_id = self.draw_task(number)
            task = await self.client.get(task_id)
            if task.status.state is TaskState.INPUT_REQUIRED:
                await self.client.start("yes", task=task_id)
            elif is_terminal(task.status.state):
                try:
                    await self.client.start("late", task=task_id)
                except TaskFinishedError:
                    return
                raise AssertionError("a finished task took a message")

        self.runner.run(act())

    @precondition(lambda self: self.scripts)
    @rule(number=st.integers(0, 99))
    def cancel(self, number: int) -> None:
        async def act() -> None:
            try:
                task = await self.client.cancel(self.draw_task(number))
            except TaskNotCancelableError:
                return
            assert task.status.state is TaskState.CANCELED

        self.runner.run(act())

    @precondition(lambda self: self.scripts)
    @rule(number=st.integers(0, 99))
    def follow(self, number: int) -> None:
        async def act() -> None:
            self.followers.append(Follower(self.draw_task(number)))
            self.followers[-1].begin(self.client)

        self.runner.run(act())

    @precondition(lambda self: self.followers)
    @rule(number=st.integers(0, 99))
    def stop_following(self, number: int) -> None:
        self.runner.run(self.followers[number % len(self.followers)].end())

    @precondition(lambda self: self.followers)
    @rule()
    def come_back(self) -> None:
        async def act() -> None:
            for follower in self.followers:
                follower.begin(self.client)

        self.runner.run(act())

    @rule()
    def open_gate(self) -> None:
        async def act() -> None:
            self.gate.set()
            await asyncio.sleep(0)
            self.gate.clear()

        self.runner.run(act())

    @rule(turns=st.integers(1, 20))
    def let_things_happen(self, turns: int) -> None:
        async def act() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.runner.run(act())

    @rule()
    def crash(self) -> None:
        async def act() -> None:
            await self.client.crash()
            await self.client.restart()

        self.runner.run(act())

    @rule()
    def restart_in_good_order(self) -> None:
        async def act() -> None:
            await self.client.stop()
            await self.client.restart()

        self.runner.run(act())

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def everything_holds(self) -> None:
        self.runner.run(self._check())

    async def _check(self) -> None:
        for task_id in self.scripts:
            key = TaskKey(self.client.caller.owner, task_id)
            head = await self.client.store.tasks.head(key)  # first: writers go on while we read
            assert head is not None
            store = list(await self.client.store.tasks.events(key, after=0, limit=100_000))[: head.last_seq]
            assert [seq for seq, _ in store] == list(range(1, len(store) + 1))
            events = [event for _, event in store]
            task = fold(None, events)
            assert len(events) == head.last_seq
            assert head.state is task.status.state
            self._check_said(task, events)
            finals = [e for e in events if isinstance(e, StatusUpdate) and is_terminal(e.status.state)]
            assert len(finals) <= 1
            if head.state in (TaskState.SUBMITTED, TaskState.WORKING):
                runs = self.client.engine.runs
                had_run = runs.find(key) is not None  # before the read, during which it may end
                later = await self.client.store.tasks.head(key)
                assert later is not None
                is_settled = later.state not in (TaskState.SUBMITTED, TaskState.WORKING)
                assert is_settled or had_run or runs.find(key) is not None
        for follower in self.followers:
            await self._check_follower(follower)

    def _check_said(self, task: Task, events: list[TaskEvent]) -> None:
        """What was said is the beginning of what the script says, with nothing missing and nothing twice."""
        script = self.scripts[task.id]
        full = "".join(_spoken(place, letter) for place, letter in enumerate(script.split(FAIL)[0]))
        said = AgentClient.text(task)
        assert full.startswith(said), (script, said)
        if task.status.state is TaskState.COMPLETED:
            assert said == full
        steps = [event.value for event in events if isinstance(event, StepRecorded)]
        assert steps == [place for place, letter in enumerate(script) if letter == STEP][: len(steps)]

    async def _check_follower(self, follower: Follower) -> None:
        """It saw every event up to its cursor, once, in order."""
        key = TaskKey(self.client.caller.owner, follower.task_id)
        cursor, seen = follower.cursor, list(follower.seen)
        store = await self.client.store.tasks.events(key, after=0, limit=100_000)
        shown = [
            (seq, event) for seq, event in store if isinstance(event, StatusUpdate | ArtifactUpdate) and seq <= cursor
        ]
        assert seen == shown


def _spoken(place: int, letter: str) -> str:
    return {SAY: f"{place} ", ASK: "<yes> ", STEP: f"[{place}] "}.get(letter, "")


class SqliteEngineLife(EngineLife):
    """The same on disk."""

    def make_log(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteStore(Path(self.folder.name) / "parley.db")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class SuspendingEngineLife(EngineLife):
    """The same on a store whose every call suspends at random places."""

    def make_log(self) -> Store:
        self.random = Random(0)
        return suspending(MemoryStore(), self.random)

    @initialize(seed=st.integers(0, 1_000_000))
    def suspend_at_other_places(self, seed: int) -> None:
        self.random.seed(seed)


TestInMemory = EngineLife.TestCase
TestInMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSuspending = SuspendingEngineLife.TestCase
TestSuspending.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestInSqlite = SqliteEngineLife.TestCase
TestInSqlite.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
