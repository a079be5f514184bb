"""Accepting messages: a new task, an answer, a message to a task at work, or the same message once more.

Whatever it is, it ends in a run that has the message, or in an error that has changed nothing. Between the last look at
a task and the begin of its run nothing waits, so that no two runs begin for one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from parley.engine.caller import Caller
from parley.engine.journal import Journal
from parley.engine.program import Program
from parley.engine.run import Run
from parley.engine.sizes import size_of
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnavailableError
from parley.protocol.events import MessageAdded, StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.lifecycle import admit_message, is_interrupted, is_terminal
from parley.protocol.messages import Message
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import NewTask, SendKey, SendRecord, TaskHead, TaskKey, Write

if TYPE_CHECKING:
    from parley.engine.engine import Engine


class Accepted(Struct, frozen=True):
    """A message that was accepted: its task, and the run that has it, unless the same message came before."""

    key: TaskKey
    run: Run | None = None
    events: Sequence[TaskEvent] = ()
    """All events of the task up to the message, where they are known without reading the store."""


class Intake:
    """Makes runs of messages."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def accept(self, program: Program, request: SendMessageRequest, caller: Caller) -> Accepted:
        """Begin a task, continue one, or find out that the message came before."""
        engine = self._engine
        message = self.checked(program, request.message, caller)
        owner, send = caller.owner, engine.sends.key_of(message, program.id)
        record = await engine.sends.find(owner, send)
        if record is not None and record.task_id is not None:
            key = TaskKey(owner, record.task_id)
            if request.configuration.push_config is not None:
                if (run := engine.runs.find(key)) is not None:
                    await run.settle()  # announced, but perhaps not stored yet
                await engine.webhooks.register(key, request.configuration.push_config, caller, program.id, after=0)
            return Accepted(key)
        if message is not request.message:
            request = structs.replace(request, message=message)
        try:
            return await self._accept_new(program, request, caller, send)
        except BaseException:
            engine.sends.abandon(owner, send)
            raise

    def checked(self, program: Program, message: Message, caller: Caller) -> Message:
        """A message that the agent accepts; 0.1 has no message ids, so it gets one here."""
        most = self._engine.limits.message_bytes
        if size_of(message.parts) > most:
            raise InvalidParamsError(f"A message may have {most} bytes", path="$.message.parts")
        program.admit(message, caller)
        return message if message.message_id else structs.replace(message, message_id=self._engine.new_id())

    def _check_messages(self, number: int) -> None:
        most = self._engine.limits.history_messages
        if number > most:
            raise InvalidParamsError(f"A task may have {most} messages")

    async def _accept_new(
        self, program: Program, request: SendMessageRequest, caller: Caller, send: SendKey
    ) -> Accepted:
        """Accept a message that did not come before."""
        engine = self._engine
        engine.runs.check_capacity(program.id)
        task_id = request.message.task_id
        if task_id is None:
            return self._begin_task(program, request, caller, send, engine.new_id())
        key = TaskKey(caller.owner, task_id)
        while True:
            await engine.runs.wait_for_reserved(key)
            head = await engine.store.tasks.head(key)
            if head is not None and head.agent != program.id:
                raise TaskNotFoundError.for_task(task_id)
            run = engine.runs.find(key)
            if head is None and run is not None:
                await run.settle()  # begun by another message a moment ago
                continue
            if head is None:
                if not request.caller_names_task:
                    raise TaskNotFoundError.for_task(task_id)
                _admit_opening(program, request.message, caller)
                return self._begin_task(program, request, caller, send, task_id)
            context_id = request.message.context_id
            if context_id is not None and context_id != head.context_id:
                raise InvalidParamsError("The task belongs to another context", path="$.message.contextId")
            accepted = await self._continue_task(program, head, request, caller, send)
            if accepted is not None:
                return accepted

    def _begin_task(
        self, program: Program, request: SendMessageRequest, caller: Caller, send: SendKey, task_id: str
    ) -> Accepted:
        engine = self._engine
        now = engine.clock.now()
        engine.webhooks.check_number(0 if request.configuration.push_config is None else 1)
        context_id = request.message.context_id or engine.new_id()
        message = structs.replace(request.message, task_id=task_id, context_id=context_id)
        events: tuple[TaskEvent, ...] = (
            TaskCreated(task_id, context_id, TaskStatus(TaskState.SUBMITTED, timestamp=now)),
            MessageAdded(task_id, context_id, message),
        )
        key = TaskKey(caller.owner, task_id)
        run = Run(
            engine,
            program,
            key=key,
            context_id=context_id,
            caller=caller,
            message=message,
            configuration=request.configuration,
            feed=engine.feeds.use(key, program.id),
            journal=Journal.begun_by(message),
            status_at=now,
            created_in=caller.version,
        )
        new = NewTask(program.id, context_id, caller.version, now)
        self._start(run, events, (send, engine.sends.record(task_id)), new=new)
        return Accepted(key, run, events)

    async def _continue_task(
        self, program: Program, head: TaskHead, request: SendMessageRequest, caller: Caller, send: SendKey
    ) -> Accepted | None:
        """Give a message to a task that exists; None if the task changed meanwhile and must be looked at again."""
        engine, key = self._engine, head.key
        message = structs.replace(request.message, task_id=key.task_id, context_id=head.context_id)
        remembered = (send, engine.sends.record(key.task_id))
        await engine.webhooks.check_room(key, request.configuration.push_config)
        run = engine.runs.find(key)
        if run is not None:
            if run.is_closed:
                await run.wait_for_end()
                return None
            self._check_messages(len(run.journal.messages) + 1)
            _admit_opening(program, run.message, caller)
            run.add_message(message, remembered, request.configuration.push_config, caller)
            engine.sends.announce(key.owner, *remembered)
            return Accepted(key, run)
        if not (is_terminal(head.state) or is_interrupted(head.state)):
            if await engine.store.tasks.head(key) != head:
                return None  # its run ended after the first look
            raise UnavailableError("The task is being recovered; try again in a moment")
        admit_message(key.task_id, head.state, may_reopen=request.caller_names_task)
        events = await engine.views.events(key)
        if len(events) != head.last_seq or not engine.runs.is_free(key):
            return None
        return self._resume(program, head, events, message, request, caller, remembered)

    def _resume(
        self,
        program: Program,
        head: TaskHead,
        events: list[TaskEvent],
        message: Message,
        request: SendMessageRequest,
        caller: Caller,
        remembered: tuple[SendKey, SendRecord],
    ) -> Accepted:
        """Begin another run of a task that waited for its caller, or (0.1) had ended."""
        now = self._engine.clock.now()
        added = MessageAdded(head.key.task_id, head.context_id, message)
        is_reopened = is_terminal(head.state)
        state = TaskState.SUBMITTED if is_reopened else TaskState.WORKING
        status = StatusUpdate(head.key.task_id, head.context_id, TaskStatus(state, timestamp=now))
        news: tuple[TaskEvent, ...] = (status, added) if is_reopened else (added, status)
        journal = Journal([*events, *news])
        self._check_messages(len(journal.messages))
        _admit_opening(program, journal.opening or message, caller)
        run = self._run_of_stored(program, head, journal, caller, request.configuration, status_at=now, state=state)
        self._start(run, news, remembered)
        self._engine.webhooks.watch(head.key)
        return Accepted(head.key, run, [*events, *news])

    def _run_of_stored(
        self,
        program: Program,
        head: TaskHead,
        journal: Journal,
        caller: Caller,
        configuration: SendConfiguration,
        *,
        status_at: datetime,
        state: TaskState,
        attempts: int = 1,
        is_recovered: bool = False,
    ) -> Run:
        """A run of a task that is in the store."""
        return Run(
            self._engine,
            program,
            key=head.key,
            context_id=head.context_id,
            caller=caller,
            message=journal.opening or journal.messages[-1],
            configuration=configuration,
            feed=self._engine.feeds.use(head.key, head.agent),
            journal=journal,
            status_at=status_at,
            created_in=head.created_in,
            seq=head.last_seq,
            state=state,
            attempts=attempts,
            is_recovered=is_recovered,
        )

    def _start(
        self,
        run: Run,
        events: Sequence[TaskEvent],
        remembered: tuple[SendKey, SendRecord],
        *,
        new: NewTask | None = None,
    ) -> None:
        """Begin a run with what caused it. From here on the message is accepted, whatever its sender does."""
        run.begin(events, remembered, new=new, webhook=run.configuration.push_config)
        self._engine.sends.announce(run.key.owner, *remembered)
        self._engine.runs.start(run)
        run.write_soon()  # after the program's first step, so that what it says is written in the same transaction

    async def begin_again(self, head: TaskHead, program: Program) -> None:
        """Begin another run of a task that was at work when the process died, and count it before it can die again."""
        engine = self._engine
        attempts = head.attempts + 1
        attempt = Write(head.key, head.last_seq, (), head.state, head.status_at, attempts=attempts)
        await engine.store.tasks.write(attempt)
        journal = Journal(await engine.views.events(head.key))
        caller = Caller(head.key.owner.name, head.key.owner.tenant, version=head.created_in)
        run = self._run_of_stored(
            program,
            head,
            journal,
            caller,
            SendConfiguration(),
            status_at=head.status_at,
            state=head.state,
            attempts=attempts,
            is_recovered=True,
        )
        engine.runs.start(run)
        engine.webhooks.watch(head.key)


def _admit_opening(program: Program, opening: Message, caller: Caller) -> None:
    """Check whether the caller may have the work that a message began, or begins under an id of the caller's."""
    program.admit(structs.replace(opening, task_id=None), caller)
