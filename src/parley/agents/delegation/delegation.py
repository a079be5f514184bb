"""Delegations of one run: steps that another agent takes.

The outcome of a delegation is recorded, also a failure, so that a handler that begins again takes the same path. A task
that the other agent is still at work on when our task has ended is canceled. A run that only pauses, or is cut off,
leaves it alone: the next run goes on with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from parley.agents.delegation.delegated_task import (
    DelegatedTask,
    DelegateProgress,
    DelegateRequest,
    OpenTask,
    first_message_id,
)
from parley.agents.delegation.mirror import Mirror
from parley.agents.delegation.peers import Peer, Peers, name_of
from parley.agents.delegation.result import DelegateFailedError, DelegateResult
from parley.agents.streams import StreamedContent, UnusedContents
from parley.engine.caller import Caller
from parley.engine.runs.journal import Journal
from parley.engine.runs.run import idempotency_key
from parley.protocol.errors import LocalProtocolError, ParleyError, TaskNotCancelableError
from parley.protocol.extensions import DELEGATION
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import Message, Role, joined
from parley.protocol.tasks import Artifact, Task, TaskState
from parley.stores.interface import StoreError

if TYPE_CHECKING:
    from parley.engine.engine import Engine
    from parley.engine.runs.journal import Emission
    from parley.engine.runs.run import Run
    from parley.engine.runs.steps import StepInProgress
    from parley.stores.interface import TaskKey

logger = logging.getLogger(__name__)

MOST_DEPTH = 16
"""Agents in a chain of delegations: more than any organisation has levels. An agent that delegates to itself is
stopped there."""

ARRIVAL_SECONDS = 1.0
"""How long a message may take to arrive after its sender has given up."""

_OpenTasks: TypeAlias = dict[tuple[str, int], OpenTask]
"""By the name and number of their step."""

_encoder = msgspec.json.Encoder(order="deterministic")


class _Failed(Struct, omit_defaults=True, tag="failed"):
    """A delegation that failed, as the log keeps it."""

    reason: str
    state: TaskState | None = None
    task: Task | None = None


class _Streamed(Struct, tag="streamed"):
    """A delegation whose result is in an artifact and is not used otherwise."""


_Outcome: TypeAlias = Task | Message | _Failed | _Streamed


class _DelegationRecord(Struct, omit_defaults=True):
    """The outcome of a delegation, and which emissions of ours it made, as the log keeps them."""

    outcome: _Outcome
    artifact: str | None = None
    first: int | None = None
    count: int | None = None


class Delegation(StreamedContent, Coroutine[Any, Any, DelegateResult]):
    """A piece of work for another agent: awaited for its result; or yielded, returned or written, to stream it.

    It is a coroutine, so that `asyncio.gather` and task groups take it.
    """

    def __init__(self, delegations: Delegations, name: str, request: DelegateRequest, into: str | None) -> None:
        hint = "Await it for its result, or yield it, return it, or write it to an artifact."
        super().__init__(delegations.unused, f"turn.delegate({name_of(request.agent)!r}, …)", hint)
        self._delegations = delegations
        self._run = delegations.run
        self._name = name
        self._request = request
        self._into = Artifact(into, (), into) if into is not None else None
        self._coroutine: Coroutine[Any, Any, DelegateResult] | None = None

    def __await__(self) -> Generator[Any, Any, DelegateResult]:
        return self._begun().__await__()

    def send(self, value: Any) -> Any:
        """Continue, as in any coroutine."""
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where it waits, as in any coroutine."""
        return self._begun().throw(*error)

    def close(self) -> None:
        """Stop it, as any coroutine."""
        if self._coroutine is not None:
            self._coroutine.close()
        else:
            self._unused.pop(self, None)

    def _begun(self) -> Coroutine[Any, Any, DelegateResult]:
        if self._coroutine is None:
            self.use()
            self._coroutine = self._take(self._into, keeps_result=True)
        return self._coroutine

    async def write_to(self, artifact: Artifact) -> None:
        """Write the result to an artifact as it comes; to the one that the author named, if there is one."""
        self.use()
        await self._take(self._into or artifact, keeps_result=False)

    async def _take(self, artifact: Artifact | None, *, keeps_result: bool) -> DelegateResult:
        """The outcome: from the log if it is recorded, otherwise from the other agent."""
        self._delegations.check_depth()
        step = self._run.steps.begin(self._name, "delegate")
        mirror = None
        try:
            mirror = Mirror(self._run, artifact, self._name) if artifact is not None else None
            if step.recorded is None:
                with self._delegations.at_work():
                    return await self._work(step, mirror, keeps_result=keeps_result)
            if mirror is not None:
                await mirror.repeat(step.chunks)
            return self._recorded(msgspec.convert(step.recorded[0], _DelegationRecord).outcome, step.chunks)
        finally:
            if mirror is not None:
                mirror.close()
            step.close()

    async def _work(self, step: StepInProgress, mirror: Mirror | None, *, keeps_result: bool) -> DelegateResult:
        outcome: _Outcome
        try:
            content = await DelegatedTask(self._delegations, step, self._request, mirror).result()
            outcome = content if keeps_result else _Streamed()
        except DelegateFailedError as error:
            if error.state is None:  # it may still be at work
                self._delegations.cancel(step)
            outcome = _Failed(error.reason, error.state, error.task)
            await self._record(step, outcome, mirror)
            raise
        await self._record(step, outcome, mirror)
        return DelegateResult(content)

    async def _record(self, step: StepInProgress, outcome: _Outcome, mirror: Mirror | None) -> None:
        record = _DelegationRecord(outcome) if mirror is None else _DelegationRecord(outcome, *mirror.position)
        await step.record(msgspec.to_builtins(record))
        if isinstance(outcome, _Failed) and outcome.state is not None and is_interrupted(outcome.state):
            self._delegations.cancel(step)  # it would wait for an answer for ever
        else:
            self._delegations.forget(step)

    def _recorded(self, outcome: _Outcome, chunks: Sequence[Emission]) -> DelegateResult:
        match outcome:
            case _Failed():
                agent = name_of(self._request.agent)
                raise DelegateFailedError(agent, outcome.reason, state=outcome.state, task=outcome.task)
            case _Streamed():
                parts = joined(part for chunk, _ in chunks for part in chunk.parts)
                return DelegateResult(Message("", Role.AGENT, parts))
            case _:
                return DelegateResult(outcome)


def depth_of(message: Message) -> int:
    """How many agents have delegated to one another before this message was sent."""
    depth = _origin_of(message).get("depth")
    return max(depth, 0) if isinstance(depth, int) else 0


def _origin_of(message: Message) -> JsonObject:
    """What a message says of the task that delegates."""
    origin = message.metadata.get(DELEGATION)
    return origin if isinstance(origin, dict) else {}


class Delegations:
    """The delegations of one run."""

    def __init__(self, run: Run, unused: UnusedContents) -> None:
        self.run = run
        self.unused = unused
        self._named: dict[str, int] = {}
        self._at_work: set[asyncio.Task[Any]] = set()
        self._open_tasks: _OpenTasks | None = None

    @property
    def peers(self) -> Peers:
        """The agents to which this engine delegates."""
        return self.run.engine.shared(Peers)

    @property
    def depth(self) -> int:
        """How many agents have delegated to one another to get here."""
        return depth_of(self.run.message)

    def check_depth(self) -> None:
        """Raise LocalProtocolError if too many agents have delegated to one another."""
        if self.depth >= MOST_DEPTH:
            raise LocalProtocolError(
                f"{MOST_DEPTH} agents have delegated to one another in a chain; does one of them call itself?"
            )

    def begin(self, request: DelegateRequest, name: str | None, into: str | None) -> Delegation:
        """A delegation that begins when it is awaited.

        Raises:
            LocalProtocolError: the agent is neither named nor a client.
        """
        if not (isinstance(request.agent, str) or hasattr(request.agent, "target")):
            kind = type(request.agent).__name__
            raise LocalProtocolError(
                f"turn.delegate needs a URL, a Client, or the id of an agent on this server, not {kind}"
            )
        if name is None:
            digest = hashlib.blake2b(_encoder.encode((request.parts, request.metadata)), digest_size=6)
            name = f"{name_of(request.agent)} {digest.hexdigest()}"
            number = self._named[name] = self._named.get(name, 0) + 1
            name = name if number == 1 else f"{name} {number}"
        return Delegation(self, name, request, into)

    # --- the other agents' tasks --------------------------------------------------------------------------------------

    @property
    def _open(self) -> _OpenTasks:
        """The tasks of other agents that have begun, in this run or before, and have no outcome in the log yet."""
        if self._open_tasks is None:
            self._open_tasks = _open_tasks(self.run.journal, lambda: self.run.idempotency_key)
        return self._open_tasks

    def note(self, step: StepInProgress, task: OpenTask) -> None:
        """Remember the other agent's task."""
        self._open[step.name, step.number] = task

    def forget(self, step: StepInProgress) -> None:
        """Forget a delegation that has an outcome."""
        self._open.pop((step.name, step.number), None)

    def cancel(self, step: StepInProgress) -> None:
        """Cancel the other agent's task, if one is known, in the background."""
        task = self._open.pop((step.name, step.number), None)
        if task is not None and task.task_id is not None:
            self._cancel(task)

    def cancel_named(self, prefix: str) -> None:
        """Cancel the other agents' tasks of delegations whose names begin so, in the background."""
        for key in [key for key in self._open if key[0].startswith(prefix)]:
            self._cancel(self._open.pop(key))

    def _cancel(self, task: OpenTask) -> None:
        run = self.run
        run.engine.in_background(_cancel(run.engine, run.key, task, run.caller))

    # --- the end of the run -------------------------------------------------------------------------------------------

    @contextmanager
    def at_work(self) -> Generator[None]:
        """A block in which a delegation is at work, perhaps in an asyncio task of the author."""
        task = asyncio.current_task()
        assert task is not None
        is_added = task not in self._at_work
        self._at_work.add(task)
        try:
            yield
        finally:
            if is_added:
                self._at_work.discard(task)

    def end(self) -> None:
        """Stop the delegations that are still at work when the handler has ended, and cancel those that are open.

        If the task goes on in another run, the other agents' tasks go on as well.
        """
        run = self.run
        if self._open_tasks is None and not (self._at_work or run.journal.is_replayed):
            return  # as in nearly every run
        own = asyncio.current_task()
        for task in self._at_work:
            if task is not own:
                task.cancel()
        is_paused = run.is_closed and not is_terminal(run.state)
        if not (run.is_cut_off or run.failure is not None or is_paused):
            for open_task in self._open.values():
                self._cancel(open_task)


async def cancel_open(engine: Engine, key: TaskKey) -> None:
    """Cancel the tasks of other agents that a task without a run has left open."""
    try:
        journal = Journal.read(await engine.views.events(key))
        head = await engine.store.tasks.head(key)
    except StoreError as error:
        logger.warning("Task %s: its delegated tasks could not be looked up: %s", key.task_id, error)
        return
    opening = journal.opening
    if head is None or opening is None:  # the task has been deleted
        return
    named = partial(idempotency_key, key, head.agent, opening, head.created_in, journal.opening_number)
    caller = Caller(key.owner.name, key.owner.tenant)
    for task in _open_tasks(journal, named).values():
        agent = engine.shared(Peers).named_in_log(str(task.agent), key.owner)
        await _cancel(engine, key, structs.replace(task, agent=agent), caller)


def _open_tasks(journal: Journal, named: Callable[[], str]) -> _OpenTasks:
    """The tasks of other agents that have begun according to the log, and of which it has no outcome.

    A task that the log does not name is found by its first message, whose id follows from the idempotency key.
    """
    open_tasks: _OpenTasks = {}
    for name, number, entry in journal.open_steps:
        if entry.kind == "delegate":
            progress = msgspec.convert(entry.progress, DelegateProgress)
            message_id = "" if progress.task is not None else first_message_id(named(), name, number)
            open_tasks[name, number] = OpenTask(progress.agent, progress.task, message_id, progress.context)
    return open_tasks


async def _cancel(engine: Engine, key: TaskKey, task: OpenTask, caller: Caller) -> None:
    """Cancel a task of another agent, to which a task of ours has delegated, if that can be done in time."""
    try:
        async with asyncio.timeout(engine.limits.cancel_seconds):
            peer = await engine.shared(Peers).find(task.agent, caller)
            task_id = task.task_id or await _find_task(engine, peer, key, task)
            if task_id is not None:
                await peer.cancel(task_id)
    except TaskNotCancelableError:
        pass  # it has ended
    except (ParleyError, TimeoutError) as error:
        reason = str(error) or "it does not answer"
        text = "The task %s, delegated to %s, could not be canceled: %s"
        logger.warning(text, task.task_id or "that was begun", name_of(task.agent), reason)


async def _find_task(engine: Engine, peer: Peer, key: TaskKey, task: OpenTask) -> str | None:
    """The task that a message has begun, although no answer to it came; None if it has begun none, or that has ended.

    An agent that remembers the message of this run says so again. What only the log knows of is never sent again, but
    looked up, and once more a little later, because the message may still have been on its way.
    """
    if task.message is None or not peer.is_repeat(engine.clock.monotonic() - task.sent_at):
        found = await _look_up(peer, key, task)
        if found is None:
            await asyncio.sleep(ARRIVAL_SECONDS)
            found = await _look_up(peer, key, task)
        return found
    async with aclosing(peer.send(task.message)) as events:
        async for event in events:
            return event.id if isinstance(event, Task) else event.task_id
    return None


async def _look_up(peer: Peer, key: TaskKey, task: OpenTask) -> str | None:
    """The other agent's task that has the message of an open task, unless it names another task of ours."""
    async with aclosing(peer.open_tasks(task.context_id)) as others:
        async for other in others:
            found = next((message for message in other.history if message.message_id == task.message_id), None)
            if found is not None and _origin_of(found).get("taskId", key.task_id) == key.task_id:
                return other.id
    return None
