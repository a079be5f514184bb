"""Several real engines over one store in memory: they are paused, woken, killed and misled, and a seed decides when.

A paused engine is one whose process does not run: its clock stands still, and no call of its store begins or returns.
When it wakes, all that it had under way goes on with what it knew before. A killed engine writes nothing more. The
leases of a worker with a wrong clock look expired, or seem to last for ever. Hints get lost, come late or twice. In
some worlds workers have little room, so that messages wait in the store. In some a worker cannot reach its store for a
while: what it did before may be stored although it was told otherwise. In orderly worlds workers only drain. In some of
these the store is away for all workers at the same time, for about a lease or longer, and no worker may lose a task.

Each step draws from a seed of its own, so that some steps of a play can be left out and the others stay as they were.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Any, TypeAlias, cast

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.webhooks.deliveries import Deliveries
from parley.engine.webhooks.notifications import Notification
from parley.protocol.errors import ParleyError
from parley.protocol.events import (
    ArtifactUpdate,
    MessageAdded,
    StatusUpdate,
    StepRecorded,
    TaskClaimed,
    TaskEvent,
)
from parley.protocol.lifecycle import fold, is_interrupted, is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CancelTaskRequest,
    CreatePushConfigRequest,
    SendConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Owner, Store, TaskKey
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.testing.clock import FakeClock
from tests.ownership.simulated_parts import LossyHints, PausableStore

OWNER = Owner("", "")
LIMITS = Limits(lease_seconds=10.0, run_seconds=None, run_attempts=10_000, cancel_seconds=0.0, poll_seconds=1.0)
ORDERLY_LIMITS = replace(LIMITS, run_attempts=1, cancel_seconds=5.0)
"""Nothing crashes, so no attempt may be counted; and a worker that drains waits until its writes are settled."""
CLOCK_ERROR = 3_600
"""How wrong the clocks of some workers are, in seconds."""
MOST_WORKERS = 5
"""With so many workers, no more start."""
MESSAGES = 8
"""What callers send, beside answers and more messages to the same tasks."""
WORDS = 4
"""What a run says before it asks, and again after the answer."""


class Violation(AssertionError):
    """What engines may never do."""


class Calls:
    """The webhook calls of all workers."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    async def send(self, notification: Notification) -> None:
        await asyncio.sleep(0)
        self.made.append((notification.key.task_id, notification.seq))


@dataclass
class Reader:
    """A subscriber that comes back with its cursor, to any worker, until the stream has ended."""

    task_id: str
    cursor: int = 0
    seen: list[tuple[int, object]] = field(default_factory=list[tuple[int, object]])
    reading: asyncio.Task[None] | None = None

    def go_on(self, worker: SimulatedWorker) -> None:
        if self.reading is None or self.reading.done():
            self.reading = asyncio.get_running_loop().create_task(self._read(worker))

    async def _read(self, worker: SimulatedWorker) -> None:
        with suppress(ParleyError):
            request = SubscribeToTaskRequest(self.task_id)
            async for batch in worker.operations.subscribe_to_task(request, after=self.cursor):
                for seq, event in batch:
                    self.seen.append((seq, event))
                    self.cursor = seq

    async def stop(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.gather(self.reading, return_exceptions=True)
            self.reading = None


class SimulatedWorker:
    """One engine in one process that does not exist."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.world = world
        self.clock = FakeClock(datetime.fromtimestamp(START + world.seconds, UTC))
        self._believed_dead: frozenset[str] = frozenset()
        self.clock.jump(0 if world.is_orderly else world.chance.choice([0, 0, -CLOCK_ERROR, CLOCK_ERROR]))
        self.store = PausableStore(MemoryStore(world.database), self._misjudge, self._latency)
        store = cast("Store", self.store)
        self.deliveries = Deliveries(store, world.calls, clock=self.clock, worker=name, jitter=world.chance.random)
        self.engine = Engine(
            store,
            world.agent(self.clock),
            limits=world.limits,
            clock=self.clock,
            new_id=world.new_id,
            drain_seconds=0,
            deliveries=self.deliveries,
            hints=world.hints,
        )
        self.engine.claims.jitter = world.chance.random
        self.operations = self.engine.agent("talker")
        self.draining: asyncio.Task[None] | None = None

    def _latency(self) -> int:
        return self.world.chance.choice([0, 0, 0, 3, 20])

    def _misjudge(self, live: frozenset[str]) -> frozenset[str]:
        """A worker with a wrong clock believes live ones to be dead, for a few looks."""
        chance = self.world.chance
        if self.world.is_calm or self.world.is_orderly:
            return live
        if chance.random() < 0.25:
            is_right = chance.random() < 0.9
            self._believed_dead = frozenset([name for name in sorted(live) if not is_right and chance.random() < 0.5])
        return live - self._believed_dead

    async def start(self) -> None:
        await self.deliveries.start()
        await self.engine.__aenter__()

    def drain(self) -> None:
        """Begin to drain; the process is replaced when that is done, if it is not paused or killed before."""
        if self.draining is None:
            self.draining = asyncio.get_running_loop().create_task(self.engine.drain())

    @property
    def has_drained(self) -> bool:
        return self.draining is not None and self.draining.done()

    async def die(self) -> None:
        self.store.is_dead = True
        self.store.wake()
        self.store.come_back()
        await self.engine.__aexit__()
        await self.deliveries.stop(grace=0)

    async def stop(self) -> None:
        self.store.wake()
        self.store.come_back()
        await self.engine.__aexit__()
        await self.deliveries.stop(grace=0)


class World:
    """Workers, callers and what they see of each other."""

    def __init__(self, seed: int, *, workers: int = 3) -> None:
        self.seed = seed
        self.chance = Random(seed)
        """Decides what no step decides: how the world is, and how long things take."""
        self.random = self.chance
        """Decides what happens in the present step."""
        self.is_orderly = self.chance.random() < 0.3
        self.fails = self.chance.random() < 0.3 and not self.is_orderly
        """Whether stores fail for a while; then tasks may fail."""
        self.has_outages = self.is_orderly and Random(f"{seed} outages").random() < 0.5
        """Whether the store is away for all workers at times."""
        room = self.chance.choice([1, 1, 2, 1_000])
        self.limits = replace(ORDERLY_LIMITS if self.is_orderly else LIMITS, runs_at_once=room)
        self.seconds = 0.0
        self.is_calm = False
        self.database = MemoryDatabase(now=lambda: self.seconds)
        self.hints = LossyHints(self.chance, self.chance.choice([0.0, 0.5, 1.0]))
        self.calls = Calls()
        self.trace: list[str] = []
        """What happened, step by step."""
        self.number_of_workers = workers
        self.workers: list[SimulatedWorker] = []
        self.begun: Counter[str] = Counter()
        """How many runs began, by the text of the message that began their task."""
        self.sent: dict[str, set[str]] = {}
        """The tasks that each message got."""
        self.requests: list[SendMessageRequest] = []
        self.readers: list[Reader] = []
        self.under_way: set[asyncio.Task[None]] = set()
        self._ids = count(1)
        self._names = count(1)

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    def agent(self, clock: FakeClock) -> Agent:
        agent = Agent("Talker", id="talker", run_attempts=10_000)

        async def effect() -> int:  # a plain function would run in a thread, in real time
            return 1

        @agent.on_message
        async def talk(turn: Turn) -> Any:
            self.begun[turn.text] += 1
            for number in range(WORDS):
                yield f"{number} "
                await asyncio.sleep(0)
            if "sleep" in turn.text:
                await turn.sleep(5)
            if "ask" in turn.text:
                await turn.ask("And?")
                yield "yes "
            if "slow" in turn.text:
                await clock.sleep(3)
            await turn.step("effect", effect)
            for number in range(WORDS):
                yield f"{number} "
                await asyncio.sleep(0)

        return agent

    # --- what happens -------------------------------------------------------------------------------------------------

    async def start_worker(self) -> None:
        worker = SimulatedWorker(self, f"w{next(self._names)}")
        self.workers.append(worker)
        await worker.start()

    async def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        for worker in self.workers:
            if not worker.store.is_paused:
                await worker.clock.advance(self.seconds - worker.clock.monotonic() + START)
        self.hints.deliver_late()
        for worker in tuple(self.workers):
            if worker.engine.drain_asked.is_set():
                worker.drain()
            if worker.has_drained:
                await self._replace(worker, SimulatedWorker.stop)
        await self.breathe()

    async def breathe(self) -> None:
        for _ in range(self.random.randint(1, 30)):
            await asyncio.sleep(0)

    async def step(self, number: int) -> None:
        """Let one thing happen: the same in every play with this seed, whichever steps came before."""
        self.random = Random(self.seed * 1_000_003 + number)
        does = self.random.choice(CALLS + (OUTAGES if self.has_outages else DRAINS if self.is_orderly else FAULTS))
        self.trace.append(f"{number}. {does.__name__.strip('_')}")
        await does(self)
        await self.pass_time(self.random.choice([0, 0.1, 1] if self.is_orderly else [0, 0.1, 1, 4]))

    def _note(self, what: str) -> None:
        self.trace.append(f"    {what}")

    def _any(self) -> SimulatedWorker:
        return self.random.choice(self.workers)

    async def _send(self) -> None:
        if len(self.requests) < MESSAGES:
            number = len(self.requests) + 1
            text = f"{'ask' if self.random.random() < 0.5 else 'say'} {number}"
            text += self.random.choice([" and sleep", " and be slow", " and be slow", ""])
            config = PushConfig("https://hook.example") if self.random.random() < 0.5 else None
            configuration = SendConfiguration(return_immediately=self.random.random() < 0.5, push_config=config)
            request = SendMessageRequest(Message(f"m-{number}", Role.USER, (TextPart(text),)), configuration)
            self.requests.append(request)
            for _ in range(self.random.choice([1, 1, 2, 3])):  # to several workers at once
                self._do(self._deliver(self._any(), request))

    async def _repeat(self) -> None:
        if self.requests:
            self._do(self._deliver(self._any(), self.random.choice(self.requests)))

    async def _deliver(self, worker: SimulatedWorker, request: SendMessageRequest) -> None:
        task = await worker.operations.send_message(request)
        assert isinstance(task, Task)
        self.sent.setdefault(request.message.message_id, set()).add(task.id)
        if not request.configuration.return_immediately and not self._has_paused(task.id):
            raise Violation(f"{worker.name}: a blocking send returned while {task.id} is {task.status.state}")

    def _has_paused(self, task_id: str) -> bool:
        """Whether a task ended or waited at some time; an answer may have let it go on since."""
        events = self.database.tasks[OWNER.tenant, task_id].events
        return any(isinstance(event, StatusUpdate) and ends(event.status.state) for event in events)

    async def _answer(self) -> None:
        for record in self._heads():
            if record.state is TaskState.INPUT_REQUIRED and self.random.random() < 0.7:
                message = Message(f"a-{record.key.task_id}", Role.USER, (TextPart("yes"),), None, record.key.task_id)
                request = SendMessageRequest(message, SendConfiguration(return_immediately=True))
                for _ in range(self.random.choice([1, 2])):
                    self._do(self._deliver(self._any(), request))

    async def _cancel(self) -> None:
        heads = self._heads()
        if heads and self.random.random() < 0.3:
            task_id = self.random.choice(heads).key.task_id
            self._do(self._cancel_at(self._any(), task_id))

    async def _cancel_at(self, worker: SimulatedWorker, task_id: str) -> None:
        task = await worker.operations.cancel_task(CancelTaskRequest(task_id))
        if task.status.state is not TaskState.CANCELED:
            raise Violation(f"{task_id}: canceled, and {task.status.state}")

    async def _subscribe(self) -> None:
        if heads := self._heads():
            self.readers.append(Reader(self.random.choice(heads).key.task_id))
        for reader in self.readers:
            if self.random.random() < 0.5:
                await reader.stop()
            reader.go_on(self._any())

    async def _add(self) -> None:
        """Send one more message to a task, whatever it is doing, to several workers."""
        if heads := self._heads():
            task_id, number = self.random.choice(heads).key.task_id, next(self._ids)
            message = Message(f"more-{number}", Role.USER, (TextPart("more"),), None, task_id)
            configuration = SendConfiguration(return_immediately=self.random.random() < 0.5)
            for _ in range(self.random.choice([1, 2])):
                self._do(self._add_at(self._any(), SendMessageRequest(message, configuration)))

    async def _add_at(self, worker: SimulatedWorker, request: SendMessageRequest) -> None:
        task = await worker.operations.send_message(request)
        assert isinstance(task, Task)
        events = self.database.tasks[OWNER.tenant, task.id].events
        added = [event.message.message_id for event in events if isinstance(event, MessageAdded)]
        if added.count(request.message.message_id) != 1:
            raise Violation(f"{task.id}: {request.message.message_id} was taken, and its messages are {added}")

    async def _stream(self) -> None:
        if self.requests:
            self._do(self._stream_at(self._any(), self.random.choice(self.requests)))

    async def _stream_at(self, worker: SimulatedWorker, request: SendMessageRequest) -> None:
        seqs, task_id, state = list[int](), "", None
        async for batch in worker.operations.send_streaming_message(request):
            for seq, event in batch:
                seqs.append(seq)
                task_id = event.id if isinstance(event, Task) else task_id
                state = event.status.state if isinstance(event, StatusUpdate) else state
        if seqs != sorted(seqs):
            raise Violation(f"{task_id}: a stream showed {seqs}")
        if state is None or not ends(state):
            raise Violation(f"{task_id}: a stream ended with {state}")
        self.sent.setdefault(request.message.message_id, set()).add(task_id)

    async def _register(self) -> None:
        if heads := self._heads():
            task_id, config = self.random.choice(heads).key.task_id, PushConfig("https://other.example", id="other")
            self._do(self._register_at(self._any(), CreatePushConfigRequest(task_id, config)))

    async def _register_at(self, worker: SimulatedWorker, request: CreatePushConfigRequest) -> None:
        await worker.operations.create_push_config(request)

    async def _fail(self) -> None:
        if self.fails:
            self._any().store.is_failing = True

    async def _recover(self) -> None:
        for worker in self.workers:
            worker.store.is_failing = False

    async def _lose_store(self) -> None:
        """No worker reaches the store; then one after the other does, and sometimes a new one among the first."""
        if self.random.random() < 0.5:
            return
        leases = self.random.choice([0.7, 0.9, 1.5, 2.5])
        self._note(f"for {leases:g} leases")
        await self._send()
        await self.pass_time(self.random.choice([0, 0.1]))
        for worker in self.workers:
            worker.store.go_away()
        end = self.seconds + leases * self.limits.lease_seconds
        while self.seconds < end:
            await self.pass_time(min(self.random.choice([0.1, 1, 4]), end - self.seconds))
        coming = self.random.sample(self.workers, len(self.workers))
        joins_after = self.random.choice([None, 0, 0, 1]) if len(coming) < MOST_WORKERS else None
        for number, worker in enumerate(coming):
            if number == joins_after:
                self._note("one more starts")
                await self.start_worker()
            self._note(f"{worker.name} is back")
            worker.store.come_back()
            await self.pass_time(self.random.choice([0, 0.1, 1]))

    async def _pause(self) -> None:
        worker = self._any()
        self._note(worker.name)
        worker.store.pause()

    async def _wake(self) -> None:
        for worker in self.workers:
            if worker.store.is_paused and self.random.random() < 0.5:
                self._note(worker.name)
                worker.store.wake()

    async def _kill(self) -> None:
        if self.random.random() < 0.5:
            await self._replace(self._any(), SimulatedWorker.die)

    async def _leave(self) -> None:
        """A worker is told to stop. It may be paused or killed while it drains."""
        if self.random.random() < 0.3:
            worker = self._any()
            self._note(worker.name)
            worker.drain()

    async def _ask_to_drain(self) -> None:
        if self.random.random() < 0.3:
            worker = self._any().name
            self._note(worker)
            await MemoryStore(self.database).leases.ask_to_drain(worker)

    async def _replace(self, worker: SimulatedWorker, end: Callable[[SimulatedWorker], Awaitable[None]]) -> None:
        self._note(f"{worker.name} is gone")
        self.workers.remove(worker)
        await end(worker)
        await self.start_worker()

    async def _wait(self) -> None:
        await self.pass_time(self.random.choice([1, 3] if self.is_orderly else [3, 12]))

    def _do(self, call: Awaitable[None]) -> None:
        """Let a caller call. Errors that say to come back are not violations: its process may have died."""

        async def attempt() -> None:
            with suppress(ParleyError):
                await call

        task = asyncio.get_running_loop().create_task(attempt())
        self.under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    failures: list[BaseException]

    def _heads(self) -> list[Any]:
        return [record.head() for record in self.database.tasks.values() if record.key.owner == OWNER]

    # --- from the beginning to the end --------------------------------------------------------------------------------

    async def play(self, steps: Iterable[int]) -> None:
        """Some steps of disorder, by their numbers, then calm; the log must then be in order."""
        self.failures = []
        for _ in range(self.number_of_workers):
            await self.start_worker()
        try:
            for number in steps:
                await self.step(number)
                if self.failures:
                    raise self.failures[0]
            await self._calm_down()
            await self.check()
        finally:
            for reader in self.readers:
                await reader.stop()
            for task in tuple(self.under_way):
                task.cancel()
            await asyncio.gather(*self.under_way, return_exceptions=True)
            for worker in self.workers:
                await worker.stop()

    async def _calm_down(self) -> None:
        """Let everybody wake up and finish."""
        self.is_calm = True
        self.random = self.chance
        await self._recover()
        for worker in self.workers:
            worker.store.wake()
        for request in self.requests:  # every message arrives in the end
            self._do(self._deliver(self.workers[0], request))
        for number in range(60):
            # Workers whose clocks are late wake up late for what others recorded.
            await self.pass_time(2 * CLOCK_ERROR if number == 20 and not self.is_orderly else 2)
            for reader in self.readers:
                reader.go_on(self._any())
            if self.failures:
                raise self.failures[0]
            if not self.under_way and all(ends(head.state) for head in self._heads()):
                break
        for _ in range(20):
            await self.pass_time(2)

    # --- what must hold -----------------------------------------------------------------------------------------------

    async def check(self) -> None:
        store = MemoryStore(self.database)
        for message_id, task_ids in self.sent.items():
            if len(task_ids) > 1:
                raise Violation(f"{message_id} got the tasks {sorted(task_ids)}")
            if missing := [id for id in task_ids if (OWNER.tenant, id) not in self.database.tasks]:
                raise Violation(f"{message_id} got the task {missing}, which is not there")
        texts = Counter[str]()
        for head in self._heads():
            events = await store.tasks.events(head.key, after=0, limit=10_000)
            task = fold(None, [event for _, event in events])
            texts[task.history[0].text] += 1
            self._check_task(head, task, [event for _, event in events])
            await self._check_webhooks(store, head.key, events)
            for reader in self.readers:
                if reader.task_id == head.key.task_id:
                    self._check_reader(reader, events)
        if doubled := [text for text, number in texts.items() if number > 1]:
            raise Violation(f"two tasks for {doubled}")

    def _check_task(self, head: Any, task: Task, events: list[TaskEvent]) -> None:
        task_id, opening = head.key.task_id, task.history[0].text
        if not ends(task.status.state):
            runs = [worker.name for worker in self.workers if worker.engine.runs.find(head.key) is not None]
            raise Violation(f"{task_id} is {task.status.state}, held by {head.holder!r}, runs at {runs}: {events[-4:]}")
        if head.holder:
            raise Violation(f"{task_id} is {task.status.state}, and {head.holder} holds it")
        if task.status.state is TaskState.FAILED and not self.fails:
            raise Violation(f"{task_id} failed: {task.status.message}")
        ids = [message.message_id for message in task.history]
        if len(set(ids)) < len(ids):
            raise Violation(f"{task_id} has a message twice: {ids}")
        said = "".join(
            [part.text for artifact in task.artifacts for part in artifact.parts if isinstance(part, TextPart)]
        )
        half = "".join([f"{number} " for number in range(WORDS)])
        whole = f"{half}yes {half}" if opening.startswith("ask") else half + half
        if not whole.startswith(said) or (task.status.state is TaskState.COMPLETED and said != whole):
            raise Violation(f"{task_id} says {said!r}")
        ended = [event for event in events if isinstance(event, StatusUpdate) and is_terminal(event.status.state)]
        if len(ended) > 1:
            raise Violation(f"{task_id} has ended twice: {ended}")
        steps = [event for event in events if isinstance(event, StepRecorded) and event.name == "effect"]
        if len(steps) > 1:
            raise Violation(f"{task_id}: a step was recorded twice")
        claims = len([event for event in events if isinstance(event, TaskClaimed)])
        messages = len([event for event in events if isinstance(event, MessageAdded)])
        if self.begun[opening] > claims + messages:
            raise Violation(f"{task_id}: {self.begun[opening]} runs, {messages} messages, {claims} claims")

    def _check_reader(self, reader: Reader, events: Any) -> None:
        shown = [(seq, event) for seq, event in events if isinstance(event, StatusUpdate | ArtifactUpdate)]
        if reader.seen != [(seq, event) for seq, event in shown if seq <= reader.cursor]:
            raise Violation(f"{reader.task_id}: a reader saw {[seq for seq, _ in reader.seen]}")

    async def _check_webhooks(self, store: Store, key: TaskKey, events: Any) -> None:
        called = [seq for task_id, seq in self.calls.made if task_id == key.task_id]
        for webhook in await store.outbox.webhooks(key):
            if webhook.delivered_seq < webhook.last_seq:
                raise Violation(f"{key.task_id}: its webhook was told up to {webhook.delivered_seq} of {len(events)}")
        if any(seq > len(events) for seq in called):
            raise Violation(f"{key.task_id}: a webhook was told of an event that is not there")


def ends(state: TaskState) -> bool:
    """Whether nothing more comes by itself."""
    return is_terminal(state) or is_interrupted(state)


START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

Action: TypeAlias = Callable[[World], Awaitable[None]]
CALLS: tuple[Action, ...] = (
    World._send,
    World._send,
    World._send,
    World._repeat,
    World._answer,
    World._answer,
    World._cancel,
    World._add,
    World._stream,
    World._register,
    World._subscribe,
    World._wait,
    World._wait,
)
"""What callers do."""
DRAINS: tuple[Action, ...] = (World._leave, World._leave, World._ask_to_drain)
"""What operators do."""
OUTAGES: tuple[Action, ...] = (World._lose_store, World._lose_store)
"""What happens to the store of all workers."""
FAULTS: tuple[Action, ...] = (
    World._pause,
    World._fail,
    World._recover,
    World._wake,
    World._wake,
    World._kill,
    World._leave,
    World._ask_to_drain,
)
"""What else happens."""
