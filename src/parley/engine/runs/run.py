"""A run: one program working on one task, and the task's only writer while it lasts.

What a run emits is written in order, and readers see it once it is durable. Events are collected until the next
iteration of the event loop, the end of the previous write or the end of the run, and then written together. So a quick
answer is one write, and a long stream is as many writes as the disk allows. Steps and other effects begin only after
the run's first events are durable. A run ends its task in exactly one final state. It also ends when it pauses for its
caller: the answer begins another run, which finds in the journal what this one did.

While it lasts, its worker holds the task. When the store refuses a write because another worker holds the task now, the
run is abandoned: it writes nothing more, and readers and waiting senders continue from the log.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec import Struct, field, structs

from parley.cluster.hints import Hint, HintKind
from parley.engine.caller import Caller
from parley.engine.direct_replies import store_reply, withdraw_claim
from parley.engine.program import Program, Recovery
from parley.engine.reading.feed import Feed
from parley.engine.runs.emissions import Emissions, LimitExceededError
from parley.engine.runs.journal import Journal
from parley.engine.runs.sleeps import Sleeps
from parley.engine.runs.steps import Steps
from parley.engine.sealed_answers import is_left_out, open_answer
from parley.protocol.errors import InternalError, InvalidParamsError, LocalProtocolError, ParleyError, UnavailableError
from parley.protocol.events import ArtifactUpdate, MessageAdded, QuestionAsked, SleepStarted, StatusUpdate, TaskEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import INTERRUPTED, TERMINAL, ends_stream
from parley.protocol.messages import Message, Part, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import SendConfiguration
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import (
    ConflictError,
    LeaseLostError,
    NewTask,
    RepeatedSendError,
    SendKey,
    SendRecord,
    StoreError,
    StoreUnavailableError,
    TaskKey,
    Write,
)

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)

_key_encoder = msgspec.json.Encoder(order="deterministic")


_PROGRAM_STOPS = INTERRUPTED | {TaskState.REJECTED}
"""States other than completed in which a program stops by itself."""


class Stopped(BaseException):
    """Ends a handler from inside: the run is over, and everything it still does is ignored.

    A BaseException, like CancelledError, so that a handler's own `except Exception` does not swallow it.
    """


class AbandonedError(UnavailableError):
    """Another worker continues the task."""


class QuestionForbiddenError(LocalProtocolError):
    """The agent asks its caller for input, which is not allowed here"""


class Run(Struct, kw_only=True, eq=False):
    """One program at work on one task."""

    engine: Engine
    program: Program
    key: TaskKey
    context_id: str
    caller: Caller
    message: Message
    configuration: SendConfiguration
    feed: Feed
    journal: Journal
    created_in: Version
    status_at: datetime
    created_at: datetime
    """When its task was created."""
    state: TaskState = TaskState.SUBMITTED
    seq: int = 0
    holder: str = ""
    """The worker that holds the task after all writes of this run so far."""
    attempt: int = 1
    """Which attempt this is since the program last made progress."""
    is_recovered: bool = False
    """Whether it continues what another worker left behind."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    first_seq: int = 0
    starts_at_once: bool = False
    """Whether the program starts before the run's first events are durable, because no other worker can have started
    the same."""
    is_cancelled: bool = False
    is_cut_off: bool = False
    is_overdue: bool = False
    has_begun: bool = False
    """Whether its program was called."""
    is_queued: bool = False
    """Whether its program has not begun because others are at work; a crash meanwhile does not count as an attempt."""
    on_message: Callable[[Message], None] | None = None
    """Called with each message that comes while the run is at work, before the message is durable."""
    is_closed: bool = False
    is_over: bool = False
    """Whether its supervisor has removed it."""
    decision: asyncio.Future[None] | None = None
    """Done when a run that began without a task has one, a reply or a failure; None for a run that began with one."""
    is_undecided: bool = False
    """Whether it has no task and may still reply without one."""
    direct_reply: Message | None = None
    """What its message was answered with, instead of a task."""
    deadline: float = 0.0
    """When it has taken too long, on the clock's monotonic scale."""
    wake_at: datetime | None = None
    """When its task is to be continued, if the run ended in a sleep."""
    may_ask: bool = True
    """Whether its program may wait for its caller; if not, a question fails the task."""
    cancel_text: str = ""
    """What the last message of the task says if the run is canceled; empty: there is none."""
    final_metadata: JsonObject = {}
    """What is added to the metadata of the task when it ends."""
    failure: ParleyError | None = None
    """Why the run ended but its task did not: the store refused a write, or another worker has the task."""
    was_store_unavailable: bool = False
    """Whether the store refused a write for a reason of its own, so that another run may succeed."""
    _refusal: LocalProtocolError | None = None
    """Why its task cannot be completed."""
    _buffer: list[TaskEvent] = []
    _new: NewTask | None = None
    _sends: list[tuple[SendKey, SendRecord]] = []
    _sends_since: datetime | None = None
    _handled_inbox_items: list[str] = []
    _webhooks: list[tuple[PushConfig, Caller]] = []
    _lease_epoch: int | None = None
    _begun_seq: int = 0
    _effects_seq: int = 0
    """The last event that must be durable before an effect begins."""
    _written_seq: int = 0
    _dropped_seq: int = 0
    """The number of the last event that was dropped when the run ended, if it had been written."""
    _has_progressed: bool = False
    _last_written_status: tuple[TaskState, datetime] | None = None
    """The state of the task after all writes of this run so far, if there are any."""
    _is_writing: bool = False
    _last_write: asyncio.Future[None] | None = None
    """The write that was handed to the store last."""
    _is_scheduled: bool = False
    _waiting: list[tuple[int, asyncio.Future[None]]] = []
    _waiting_for_end: list[asyncio.Future[None]] = []
    _on_settled: Callable[[Run], None] | None = None
    _emissions: Emissions | None = None
    _steps: Steps | None = None
    _sleeps: Sleeps | None = None

    def __post_init__(self) -> None:
        self.first_seq = self._begun_seq = self._written_seq = self.seq
        self.starts_at_once = self.seq == 0 and not self.engine.store.is_shared
        self._lease_epoch = self.engine.lease.epoch

    @property
    def log_fields(self) -> dict[str, str]:
        """What a log line about the run says beside its text."""
        return {"task": self.key.task_id, "context": self.context_id}

    @property
    def idempotency_key(self) -> str:
        """The same for every repeat of a message, and different for every other message of its sender."""
        return idempotency_key(self.key, self.program.id, self.message, self.created_in, self.journal.opening_number)

    # --- what a program does ------------------------------------------------------------------------------------------

    @property
    def emissions(self) -> Emissions:
        """What the program emits into artifacts."""
        if self._emissions is None:
            self._emissions = Emissions(self)
        return self._emissions

    @property
    def steps(self) -> Steps:
        """The steps of the program."""
        if self._steps is None:
            self._steps = Steps(self)
        return self._steps

    @property
    def sleeps(self) -> Sleeps:
        """The sleeps of the program."""
        if self._sleeps is None:
            self._sleeps = Sleeps(self)
        return self._sleeps

    async def ask(
        self,
        state: TaskState,
        parts: tuple[Part, ...],
        metadata: JsonObject | None = None,
        *,
        name: str = "",
        message: Message | None = None,
        is_demanded: bool = False,
    ) -> Message:
        """The caller's answer to a question, if it was given already; otherwise ask it and end the run.

        A question of code that runs side by side gets its own answer; one that differs from all that were answered gets
        the next answer. Steps that are in progress are waited for. `message` has the parts of the question, if it is
        asked with a message that the program has made. One that is demanded, by rules and not by the program, is asked
        also where the program may ask nothing.

        Raises:
            Stopped: the question was asked, and the task waits.
            QuestionForbiddenError: the task must end without one.
        """
        answer, is_lost = self.journal.take_answer(name, parts), False
        while answer is not None and is_left_out(answer):  # the same question was asked again at this host, or will be
            answer, is_lost = self.journal.take_answer(name, parts), True
        if answer is None and not is_lost and await self.emissions.remains(lambda: self.journal.has_answer(name)):
            answer = self.journal.take_answer(name)
            self.emissions.report_question()
        if answer is not None and not is_left_out(answer):
            return open_answer(self.engine.store.sealer, self.key, answer)
        if not (self.may_ask or is_demanded):
            self.refuse(QuestionForbiddenError())
        await self.steps.wait_until_idle()
        if name and not self.is_closed:
            self._append(QuestionAsked(self.key.task_id, self.context_id, name))
        await self.end(state, message or self.agent_message(parts), metadata)
        raise Stopped

    def emit_before_effects(self, event: TaskEvent) -> None:
        """Append an event of the program without waiting; but no effect begins before it is durable.

        A run that may reply without a task still may.
        """
        self._emit(event)
        self._effects_seq = self.seq + len(self._buffer)

    async def reply(self, message: Message) -> None:
        """Answer with a message instead of a task. A task that there is already is completed with the message.

        Raises:
            UnavailableError: the reply could not be stored.
        """
        if not self.is_undecided:
            await self.end(TaskState.COMPLETED, message)
            return
        self._check_loop()
        ((send, _),), self._sends = self._sends, []
        self._buffer.clear()
        self.is_undecided, self.is_closed = False, True
        message = structs.replace(message, task_id=None)
        record = None
        try:
            record = await store_reply(self.engine, self.key.owner, send, message)
            self.direct_reply = message
        except StoreError as error:
            self._handle_write_error(error, is_new=True)
        finally:
            if record is None:
                self.failure = self.failure or UnavailableError("The agent could not store its reply")
                withdraw_claim(self.engine, self.key.owner, send)
            self.engine.sends.resolve(self.key.owner, send, record)
            self._decide()
        if self.failure is not None:
            raise self.failure

    def need_task(self) -> None:
        """Create the task of a run that began without one and has not replied.

        Raises:
            LocalProtocolError: the agent keeps no tasks.
        """
        if self.is_undecided:
            if self.program.replies_directly:
                raise LocalProtocolError("An agent with replies_directly keeps no tasks: it can only reply")
            self.is_undecided = False
            self.engine.sends.announce(self.key.owner, *self._sends[0])
            self._write_soon()
            self._decide()

    def _decide(self) -> None:
        if self.decision is not None and not self.decision.done():
            self.decision.set_result(None)

    async def prepare_effect(self) -> None:
        """Return when the program may do something that cannot be undone.

        Raises:
            Stopped: the run is over, or another worker holds the task.
            UnavailableError: what began the run could not be stored.
        """
        await self._settle_through(max(self._begun_seq, self._effects_seq))
        try:
            await self.check_held()
        except StoreError as error:  # whether it holds the task is not known: as if a write was refused
            self._handle_write_error(error, is_new=False)
        if self.is_closed:  # the handler ignored its cancellation, or calls this from a `finally` block
            raise Stopped

    async def check_held(self) -> None:
        """Abandon the run if its lease had expired and another worker holds the task now."""
        lease, epoch = self.engine.lease, self.engine.lease.epoch
        if epoch is not None and epoch == self._lease_epoch:
            return
        if not self.is_closed and self._written_seq >= self._begun_seq:
            head = await self.engine.store.tasks.head(self.key)
            if not self.is_closed and (head is None or head.holder != lease.worker):
                self.abandon()
            self._lease_epoch = epoch

    async def wait_until_known(self) -> None:
        """Return when all messages and events so far are stored, or another worker has the task. Raises as `settle`."""
        with suppress(AbandonedError):
            await self.settle()

    async def wait_until_stored(self) -> None:
        """Return when what began the run is durable: the task and its message.

        Raises:
            UnavailableError: it could not be stored.
        """
        await self._settle_through(self._begun_seq)

    async def end(self, state: TaskState, message: Message | None = None, metadata: JsonObject | None = None) -> None:
        """Put the task into a final or waiting state, once; return when that is durable."""
        self._check_loop()
        self.finish(state, message, metadata)
        await self.settle()

    async def sleep(self, wake_at: datetime) -> NoReturn:
        """End the run and let its task sleep until a moment. Raises Stopped when that is durable."""
        self._check_loop()
        if not self.is_closed:
            self._append(SleepStarted(self.key.task_id, self.context_id, wake_at))
            self.wake_at = wake_at
            self.is_closed = True
            self._write()
        await self.settle()
        raise Stopped

    def finish(self, state: TaskState, message: Message | None = None, metadata: JsonObject | None = None) -> None:
        """Put the task into a final or waiting state, once, and hand that to the store."""
        if not self.is_closed:
            self.need_task()
            if state is TaskState.COMPLETED and self._refusal is not None:
                raise self._refusal
            if self._has_said_all(state):
                self.emissions.drop_left_overs()
            if state is TaskState.COMPLETED:
                self._close_artifacts()
            if self.cancel_text and state is TaskState.CANCELED and message is None:
                message = self.agent_message((TextPart(self.cancel_text),))
            if self.final_metadata and state in TERMINAL:
                metadata = {**self.final_metadata, **(metadata or {})}
            self._append_status(state, message, metadata)
            self.is_closed = True
            self._write()  # now: nothing comes after it

    def _has_said_all(self, state: TaskState) -> bool:
        """Whether what earlier runs said beyond this one is taken back.

        A program that waits or refuses may have branches that have not repeated yet what they said. So there it is
        taken back only if a stream that was cut off has run again.
        """
        if not self.journal.is_replayed:
            return False
        return state is TaskState.COMPLETED or (state in _PROGRAM_STOPS and self.emissions.expects_differences)

    def _close_artifacts(self) -> None:
        """Mark the last chunk of every artifact that was not closed; if it was written already, an empty one is added.

        Which chunk is the last is known only at the end. The empty chunk is written together with the final state, so
        that a handler that begins again never finds it in its journal.
        """
        unclosed, buffer = self.journal.unclosed, self._buffer
        for place in range(len(buffer) - 1, -1, -1):
            if not unclosed:
                return
            event = buffer[place]
            if isinstance(event, ArtifactUpdate) and event.artifact.artifact_id in unclosed:
                buffer[place] = structs.replace(event, last_chunk=True)
                del unclosed[event.artifact.artifact_id]
        for name in unclosed:
            # Every dialect demands at least one part.
            nothing = Artifact(name, (TextPart(""),), index=self.journal.index_of(name))
            self._append(ArtifactUpdate(self.key.task_id, self.context_id, nothing, append=True, last_chunk=True))

    def close(self) -> None:
        """Accept no more events. What was handed to the store is still written."""
        if not self.is_closed:
            self.is_closed = True
            if self.is_undecided:
                self.is_undecided = False
                self.failure = self.failure or UnavailableError("The agent did not answer; try again in a moment")
                withdraw_claim(self.engine, self.key.owner, self._sends[0][0])
            self._drop_unwritten()

    def _drop_unwritten(self) -> None:
        """Drop what was not handed to the store; messages among it may be sent again."""
        self._dropped_seq = max(self._dropped_seq, self.seq + len(self._buffer))
        self._buffer.clear()
        for send, _ in self._sends:
            self.engine.sends.resolve(self.key.owner, send)
        self._sends.clear()

    async def hand_on(self) -> None:
        """Leave the task to the next worker, because the run was cut off on purpose; this is not counted as an attempt.

        This is written after everything else. In a shared store the task has no holder afterwards, so that another
        worker can claim it at once. A task that must fail because its program is not to be run again keeps its holder.
        """
        if self._last_write is not None and not self._last_write.done():
            await asyncio.wait({self._last_write})
        if not self.holder or self.wake_at is not None:
            return  # it has ended, waits for its caller or sleeps
        is_free = self.engine.store.is_shared and (self.is_queued or self.program.recovery is Recovery.RERUN)
        if is_free or not self._has_progressed:
            await self._write_attempts(
                0 if self._has_progressed else self.attempt - 1, holder="" if is_free else self.holder
            )
        if is_free and self.engine.hints is not None:
            self.engine.hints.publish(Hint(HintKind.WORK, self.key))

    async def _write_attempts(self, attempts: int, *, holder: str) -> None:
        """Keep how many attempts there were and who holds the task, without an event, unless the store refuses."""
        if self._last_written_status is None:
            return
        state, status_at = self._last_written_status
        write = Write(
            self.key, self.seq, (), state, status_at, attempts=attempts, expected_holder=self.holder, holder=holder
        )
        with suppress(StoreError):
            await self.engine.store.tasks.write(write)

    def abort(self, error: ParleyError) -> None:
        """End the run without ending its task: nothing more is written, and all waiters get the error."""
        self.failure = self.failure or error
        self.close()
        self._decide()
        self._wake()

    def abandon(self) -> None:
        """End the run because another worker continues the task; readers continue with what that one writes."""
        if self.failure is not None:
            return
        logger.info("Task %s: another worker continues it", self.key.task_id, extra=self.log_fields)
        self.abort(AbandonedError())
        self.engine.runs.give_up(self)

    @property
    def is_stopping(self) -> bool:
        """Whether its program was told to stop."""
        return self.is_cancelled or self.is_cut_off or self.is_overdue

    @property
    def is_abandoned(self) -> bool:
        """Whether another worker continues the task."""
        return isinstance(self.failure, AbandonedError)

    @property
    def is_settled(self) -> bool:
        """Whether everything emitted so far is durable, or never will be."""
        return self.failure is not None or self._written_seq >= self.seq + len(self._buffer)

    @property
    def is_stored(self) -> bool:
        """Whether the task is in the store."""
        return self._written_seq > 0

    def agent_message(self, parts: tuple[Part, ...]) -> Message:
        """A message of the agent in this task."""
        return Message(self.engine.new_id(), Role.AGENT, parts, self.context_id, self.key.task_id)

    # --- what the engine does -----------------------------------------------------------------------------------------

    def begin(
        self,
        events: Sequence[TaskEvent],
        send: tuple[SendKey, SendRecord] | None = None,
        *,
        new: NewTask | None = None,
        webhook: PushConfig | None = None,
    ) -> None:
        """Append what started the run: the task's creation, a message, its webhook, the send to remember.

        It is written by `write_beginning`.
        """
        self._new = new
        if send is not None:
            self._add_to_next_write(send, webhook, self.caller)
            if self.engine.store.is_shared and self.engine.limits.idempotency_seconds:
                self._sends_since = self.engine.sends.since()
        self._buffer.extend(events)
        self._begun_seq = self.seq + len(self._buffer)

    def write_beginning(self) -> None:
        """Write what started the run: now if its program waits for that, otherwise with the program's first events.

        This is called after the supervisor has started the run.
        """
        if self.starts_at_once:
            self._write_soon()
        else:
            self._write()

    def add_message(
        self,
        message: Message,
        send: tuple[SendKey, SendRecord],
        webhook: PushConfig | None,
        caller: Caller,
        *,
        item: str | None = None,
    ) -> None:
        """Add a message that came while the run was at work, perhaps as an item of the worker's inbox."""
        self._add_to_next_write(send, webhook, caller)
        if item is not None:
            self._handled_inbox_items.append(item)
        self.journal.messages.append(message)
        self.journal.later_messages.append(message)
        self._append(MessageAdded(self.key.task_id, self.context_id, message))
        if self.on_message is not None:
            self.on_message(message)

    def _add_to_next_write(self, send: tuple[SendKey, SendRecord], webhook: PushConfig | None, caller: Caller) -> None:
        """Write what came with a message in the same transaction as the message."""
        self._sends.append(send)
        if webhook is not None:
            self._webhooks.append((webhook.of_task(self.key.task_id), caller))

    def start_working(self) -> None:
        """Set the task to working."""
        if self.state is TaskState.SUBMITTED:
            self._append_status(TaskState.WORKING)

    async def leave_queue(self) -> None:
        """Set the task to working after it has waited. From now on, a crash counts as an attempt."""
        if self.is_queued:
            self.is_queued = False
            self.engine.runs.left_queue(self)
        was_working = self.state is TaskState.WORKING
        self.start_working()
        if self.is_recovered:  # counted before the program begins: it may be what crashes the process
            await self.settle()
            if was_working:
                await self._write_attempts(self.attempt, holder=self.holder)

    async def fail(self, text: str) -> None:
        """End the task as failed, with a text that its caller may read."""
        if self.is_undecided and self.program.replies_directly:
            self.abort(InternalError(text))
            return
        await self.end(TaskState.FAILED, self.agent_message((TextPart(text),)))

    def _append_status(
        self, state: TaskState, message: Message | None = None, metadata: JsonObject | None = None
    ) -> None:
        self.status_at = self.engine.clock.now()
        status = TaskStatus(state, message, self.status_at)
        self.state = state
        self._append(StatusUpdate(self.key.task_id, self.context_id, status, metadata or {}))

    # --- writing ------------------------------------------------------------------------------------------------------

    def emit(self, event: TaskEvent) -> None:
        """Append an event of the program."""
        if self.is_undecided:
            self.need_task()
        self._emit(event)

    def _emit(self, event: TaskEvent) -> None:
        self._check_loop()
        if self.is_closed:
            raise Stopped
        if self.seq + len(self._buffer) >= self.engine.limits.events_per_task:
            self.refuse(LimitExceededError(f"The task has more than {self.engine.limits.events_per_task} events"))
        self._has_progressed = True
        self._append(event)

    def refuse(self, error: LocalProtocolError) -> NoReturn:
        """Raise an error. The task cannot be completed after it, even if the program ignores it."""
        self._refusal = self._refusal or error
        raise error

    @property
    def is_far_ahead(self) -> bool:
        """Whether the program must wait for the store."""
        return len(self._buffer) >= self.engine.limits.unwritten_events

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise LocalProtocolError("A turn belongs to its own event loop; plain functions use `turn.wait(…)`")

    def _append(self, event: TaskEvent) -> None:
        self._buffer.append(event)
        if not (self._is_writing or self._is_scheduled):
            self._write_soon()

    def _write_soon(self) -> None:
        """Write what was emitted in the next iteration of the event loop."""
        self._is_scheduled = True
        self.loop.call_soon(self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._is_scheduled = False
        self._write()

    def _write(self) -> None:
        """Hand everything collected to the store; if a write is in progress, when that has completed."""
        if self._is_writing or not self._buffer or self.is_undecided:
            return
        self._is_writing = True
        webhooks = self._webhooks
        if webhooks:
            self._webhooks = []
        events = tuple(self._buffer)
        self._buffer.clear()
        is_last = ends_stream(self.state) or self.wake_at is not None
        write = Write(
            key=self.key,
            expected_seq=self.seq,
            events=events,
            state=self.state,
            status_at=self.status_at,
            new=self._new,
            sends=tuple(self._sends),
            webhooks=tuple([(config, caller.version) for config, caller in webhooks]) if webhooks else (),
            attempts=0 if self._has_progressed or is_last else self.attempt - self.is_queued,
            expected_holder=self.holder,
            holder="" if is_last else self.engine.lease.worker,
            sends_since=self._sends_since,
            taken=tuple(self._handled_inbox_items) if self._handled_inbox_items else (),
            wake_at=self.wake_at,
        )
        self._last_written_status = (self.state, self.status_at)
        self.holder = write.holder
        self.seq += len(events)
        self._new = self._sends_since = None
        self._sends.clear()
        self._handled_inbox_items.clear()
        begun = perf_counter() if self.engine.observer is not None else 0.0
        writing = self.engine.store.tasks.write(write)
        if not isinstance(writing, asyncio.Future):
            writing = asyncio.ensure_future(writing)
        self._last_write = writing
        if writing.done():  # as a store in memory has it
            self._written(write, webhooks, begun, writing)
        else:
            writing.add_done_callback(partial(self._written, write, webhooks, begun))

    def _written(
        self, write: Write, webhooks: list[tuple[PushConfig, Caller]], begun: float, done: asyncio.Future[None]
    ) -> None:
        if done.cancelled():
            return  # the process is going down
        first, events, error = write.expected_seq + 1, write.events, done.exception()
        for send, record in write.sends:
            self.engine.sends.resolve(self.key.owner, send, record if error is None else None)
        if error is not None:
            self._handle_write_error(error, is_new=write.new is not None)
        else:
            self._written_seq = first + len(events) - 1
            self.engine.store_health.accepted()
            if self.engine.observer is not None:
                self.engine.observer.committed(self.key, self.program.id, events, perf_counter() - begun)
            for config, caller in webhooks:
                self.engine.webhooks.kept(self.key, config, caller, self.program.id)
            self.feed.publish(first, events)
            if self.engine.hints is not None and write.new is None:  # a task that begins has no readers elsewhere
                self.engine.hints.publish(Hint(HintKind.EVENTS, self.key, self._written_seq))
            self._is_writing = False
            if self._buffer:
                self._write()
        self._wake()

    def _handle_write_error(self, error: BaseException, *, is_new: bool) -> None:
        """The store refused: nothing more of this run can be kept. It ends, and its readers are cut off."""
        self.is_closed = True
        self._drop_unwritten()
        self._is_writing = False
        # A lost lease is also a conflict; either way another worker has written to the task.
        is_conflict = isinstance(error, LeaseLostError | ConflictError)
        if isinstance(error, RepeatedSendError) or (is_conflict and not is_new):
            self.abandon()
            return
        if is_conflict:
            # Only callers of 0.1 choose ids, so only theirs can be in use already, by a task that they cannot see.
            self.failure = InvalidParamsError("This task id cannot be used; choose another", path="$.id")
        else:
            logger.error("Task %s: the store refuses: %s", self.key.task_id, error, extra=self.log_fields)
            self.failure = UnavailableError("The agent cannot store the task's progress now")
            self.was_store_unavailable = isinstance(error, StoreUnavailableError)
            self.engine.store_health.refused()
        self.feed.fail(self.failure)
        self.engine.runs.give_up(self)

    async def settle(self) -> None:
        """Return when everything emitted so far is durable.

        Raises:
            UnavailableError: it could not be stored.
        """
        await self._settle_through(self.seq + len(self._buffer))
        if self.failure is not None and self._written_seq < self._dropped_seq:
            raise self.failure

    async def _settle_through(self, seq: int) -> None:
        if self.is_undecided:
            self.need_task()
        if self.failure is None and self._written_seq < seq:
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._waiting.append((seq, waiter))
            await waiter
        if self.failure is not None and self._written_seq < seq:
            raise self.failure

    def _wake(self) -> None:
        if self._waiting:
            done = [pair for pair in self._waiting if self.failure is not None or pair[0] <= self._written_seq]
            self._waiting = [pair for pair in self._waiting if pair not in done]
            for _, waiter in done:
                if not waiter.done():
                    waiter.set_result(None)
        if self._on_settled is not None and self.is_settled:
            on_settled, self._on_settled = self._on_settled, None
            on_settled(self)

    # --- its end ------------------------------------------------------------------------------------------------------

    def when_settled(self, call: Callable[[Run], None]) -> None:
        """Call a function when everything emitted so far is durable, or never will be."""
        if self.is_settled:
            call(self)
        else:
            self._on_settled = call

    def notify_end(self) -> None:
        """Wake everything that waits for the end of the run."""
        self.is_over = True
        self._emissions = self._steps = self._sleeps = self.on_message = None  # they refer to this run
        self._decide()
        for waiter in self._waiting_for_end:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_end(self) -> None:
        """Return when the run is over."""
        if self.is_over:
            return
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._waiting_for_end.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            self._waiting_for_end.remove(waiter)
            raise


def idempotency_key(key: TaskKey, agent: str, message: Message, created_in: Version, opening_number: int) -> str:
    """The same for every repeat of the message that began a conversation of a task of an agent; all is in its log.

    The ids of task and context do not count, because a repeat may get others.
    """
    message = structs.replace(message, context_id=None, task_id=None)
    if created_in is Version.V0_1:
        # 0.1 has no message ids, but callers choose the ids of tasks: the task and the turn in it name the message.
        message = structs.replace(message, message_id=f"{key.task_id} {opening_number}")
    named = _key_encoder.encode((key.owner.tenant, key.owner.name, agent, message))
    return hashlib.blake2b(named, digest_size=16).hexdigest()
