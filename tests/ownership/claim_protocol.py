"""The claim protocol played by workers that sleep, wake up late, misjudge leases and die, and a checker of the log.

A worker here is the least that can follow the protocol: it remembers how far it has written each task that it believes
to hold, and writes with that. Nothing tells it that it has lost a task but the store's refusal. A seed decides
everything, so that a failure can be played again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from msgspec import structs

from parley.protocol.events import ArtifactUpdate, StatusUpdate, TaskClaimed, TaskCreated, TaskEvent
from parley.protocol.messages import TextPart
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import ConflictError, NewTask, Owner, Store, TaskHead, TaskKey, Write

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWNER = Owner("acme", "ada")
LEASE_SECONDS = 10.0
MISJUDGED = 0.2
"""How often a worker believes a live one to be dead, as one whose clock is wrong does."""


class Violation(AssertionError):
    """The log breaks a rule of the protocol."""


@dataclass
class Worker:
    """One worker, as it sees itself."""

    name: str
    store: Store
    held: dict[str, int] = field(default_factory=dict[str, int])
    """The tasks that it believes to hold, and the last number that it has seen of each."""
    seen: list[TaskHead] = field(default_factory=list[TaskHead])
    """Tasks that it found orphaned or parked some time ago, and may claim or resume now."""
    asleep: int = 0


@dataclass
class Play:
    """One run of the protocol with a seed."""

    random: Random
    open_handle: Callable[[], Store]
    pass_time: Callable[[float], None]
    workers: list[Worker] = field(default_factory=list[Worker])
    acknowledged: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    """Which worker was told that it wrote an event, by task and number."""
    tasks: int = 0
    started: int = 0

    def start(self) -> None:
        """A new worker appears."""
        self.started += 1
        self.workers.append(Worker(f"w{self.started}", self.open_handle()))

    async def step(self) -> None:
        """Let something happen."""
        self.pass_time(self.random.random() * 3)
        for worker in self.workers:
            worker.asleep = max(0, worker.asleep - 1)
        awake = [worker for worker in self.workers if not worker.asleep]
        if not awake:
            return
        worker = self.random.choice(awake)
        does = self.random.choice(
            [
                self._create,
                self._append,
                self._append,
                self._append,
                self._end,
                self._look,
                self._take,
                self._take,
                self._renew,
                self._renew,
                self._renew,
                self._sleep,
                self._die,
            ]
        )
        await does(worker)

    async def _renew(self, worker: Worker) -> None:
        await worker.store.leases.renew(worker.name, seconds=LEASE_SECONDS)

    async def _sleep(self, worker: Worker) -> None:
        worker.asleep = self.random.randint(1, 20)

    async def _die(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.start()

    async def _create(self, worker: Worker) -> None:
        if self.tasks < 4:
            await self._renew(worker)
            self.tasks += 1
            key = TaskKey(OWNER, f"t{self.tasks}")
            created = TaskCreated(key.task_id, "c", TaskStatus(TaskState.SUBMITTED, None, NOON))
            new = NewTask("agent", "c", Version.V1_0, NOON)
            write = Write(key, 0, (created,), TaskState.WORKING, NOON, new=new, holder=worker.name)
            await self._write(worker, write)

    async def _append(self, worker: Worker) -> None:
        if worker.held:
            task_id = self.random.choice(list(worker.held))
            said = tuple([_said(task_id, worker) for _ in range(self.random.randint(0, 2))])
            await self._write(worker, _owned(worker, task_id, said, TaskState.WORKING, holder=worker.name))

    async def _end(self, worker: Worker) -> None:
        """End or park a task."""
        if worker.held:
            task_id = self.random.choice(list(worker.held))
            state = self.random.choice([TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.INPUT_REQUIRED])
            await self._write(worker, _owned(worker, task_id, (_status(task_id, state),), state, holder=""))

    async def _look(self, worker: Worker) -> None:
        """Look for what can be claimed or resumed; it may be long outdated when it is."""
        live = await worker.store.leases.live()
        live = frozenset([name for name in live if self.random.random() >= MISJUDGED])
        worker.seen += await worker.store.tasks.orphaned(live, limit=9)
        for number in range(1, self.tasks + 1):
            head = await worker.store.tasks.head(TaskKey(OWNER, f"t{number}"))
            if head is not None and head.state is TaskState.INPUT_REQUIRED:
                worker.seen.append(head)

    async def _take(self, worker: Worker) -> None:
        """Claim or resume a task that was seen."""
        if not worker.seen:
            return
        head = worker.seen.pop(self.random.randrange(len(worker.seen)))
        task_id = head.key.task_id
        if head.state is TaskState.INPUT_REQUIRED:
            event: TaskEvent = _status(task_id, TaskState.WORKING)
        else:
            event = TaskClaimed(task_id, "c", worker.name)
        write = Write(head.key, head.last_seq, (event,), TaskState.WORKING, NOON)
        await self._write(worker, _with_holders(write, expected=head.holder, after=worker.name))

    async def _write(self, worker: Worker, write: Write) -> None:
        task_id = write.key.task_id
        try:
            await worker.store.tasks.write(write)
        except ConflictError:
            if write.expected_holder == worker.name:
                worker.held.pop(task_id, None)
            return
        for number in range(write.expected_seq + 1, write.expected_seq + len(write.events) + 1):
            if (task_id, number) in self.acknowledged:
                raise Violation(f"{task_id}: two workers were told that they wrote event {number}")
            self.acknowledged[task_id, number] = worker.name
        if write.holder == worker.name:
            worker.held[task_id] = write.expected_seq + len(write.events)
        else:
            worker.held.pop(task_id, None)

    async def check(self) -> None:
        """Look at every log.

        Raises:
            Violation: an event is missing, doubled, or of a worker that did not hold the task.
        """
        store = self.open_handle()
        for number in range(1, self.tasks + 1):
            key = TaskKey(OWNER, f"t{number}")
            events = await store.tasks.events(key, after=0, limit=10_000)
            if [seq for seq, _ in events] != list(range(1, len(events) + 1)):
                raise Violation(f"{key.task_id}: numbers with gaps")
            _check_holders(key.task_id, events, self.acknowledged)
            written = sum([1 for task_id, _ in self.acknowledged if task_id == key.task_id])
            if written != len(events):
                raise Violation(f"{key.task_id}: {written} events were acknowledged, {len(events)} are there")


def _check_holders(
    task_id: str, events: Sequence[tuple[int, TaskEvent]], acknowledged: dict[tuple[str, int], str]
) -> None:
    holder, is_free = "", True
    for seq, event in events:
        writer = acknowledged.get((task_id, seq))
        if writer is None:
            raise Violation(f"{task_id}: event {seq} is there and was never acknowledged")
        if isinstance(event, TaskClaimed) or is_free:
            holder, is_free = writer, False
        if writer != holder:
            raise Violation(f"{task_id}: event {seq} is of {writer}, while {holder} holds the task")
        if isinstance(event, StatusUpdate) and event.status.state is not TaskState.WORKING:
            is_free = True
        if isinstance(event, ArtifactUpdate) and event.artifact.artifact_id != writer:
            raise Violation(f"{task_id}: event {seq} is not what {writer} wrote")


def _said(task_id: str, worker: Worker) -> ArtifactUpdate:
    return ArtifactUpdate(task_id, "c", Artifact(worker.name, (TextPart("word"),)), append=True)


def _status(task_id: str, state: TaskState) -> StatusUpdate:
    return StatusUpdate(task_id, "c", TaskStatus(state, None, NOON))


def _owned(worker: Worker, task_id: str, events: tuple[TaskEvent, ...], state: TaskState, *, holder: str) -> Write:
    write = Write(TaskKey(OWNER, task_id), worker.held[task_id], events, state, NOON)
    return _with_holders(write, expected=worker.name, after=holder)


def _with_holders(write: Write, *, expected: str, after: str) -> Write:
    return structs.replace(write, expected_holder=expected, holder=after)
