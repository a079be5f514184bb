"""Taking messages in: a new task, an answer, a word to a task at work, or the same message once more.

Whatever it is, it ends in a run that has the message in its hands, or in an error that has changed nothing. Between the
last look at a task and the begin of its run nothing waits, so that no two runs begin for one task.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from parley.engine.caller import Caller
from parley.engine.clock import Clock, NewId
from parley.engine.feed import Feeds
from parley.engine.journal import Journal
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.program import Program
from parley.engine.run import Run, Workplace
from parley.engine.sends import Sends
from parley.engine.sizes import size_of
from parley.engine.store_health import StoreHealth
from parley.engine.supervisor import Supervisor
from parley.engine.views import Views
from parley.engine.webhooks import Webhooks
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnavailableError
from parley.protocol.events import MessageAdded, StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.lifecycle import admit_message, is_interrupted, is_terminal
from parley.protocol.messages import Message
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import NewTask, SendKey, SendRecord, Store, TaskHead, TaskKey, Write


class Accepted(Struct, frozen=True):
    """A message that was taken in: its task, and the run that has it, unless the same message came before."""

    key: TaskKey
    run: Run | None = None
    events: Sequence[TaskEvent] = ()
    """All events of the task up to the message, where that can be told without asking the store."""


class Reception:
    """Where messages become runs."""

    def __init__(
        self,
        *,
        program: Program,
        store: Store,
        feeds: Feeds,
        views: Views,
        sends: Sends,
        supervisor: Supervisor,
        webhooks: Webhooks,
        clock: Clock,
        new_id: NewId,
        limits: Limits,
        store_health: StoreHealth,
        observer: Observer | None = None,
    ) -> None:
        self._program = program
        self._store = store
        self._feeds = feeds
        self._views = views
        self._sends = sends
        self._supervisor = supervisor
        self._webhooks = webhooks
        self._clock = clock
        self._new_id = new_id
        self._limits = limits
        self._workplace = Workplace(
            program=program,
            store=store,
            views=views,
            sends=sends,
            clock=clock,
            new_id=new_id,
            limits=limits,
            observer=observer,
            store_health=store_health,
            on_webhook_kept=webhooks.kept,
        )

    async def accept(self, request: SendMessageRequest, caller: Caller) -> Accepted:
        """Take a message in: begin a task, go on with one, or find out that the message came before."""
        message = self.checked(request.message, caller)
        owner, send = caller.owner, self._sends.key_of(message)
        record = await self._sends.find(owner, send)
        if record is not None and record.task_id is not None:
            key = TaskKey(owner, record.task_id)
            if request.configuration.push_config is not None:
                if (run := self._supervisor.find(key)) is not None:
                    await run.settle()  # announced, but perhaps not stored yet
                await self._webhooks.register(key, request.configuration.push_config, caller, after=0)
            return Accepted(key)
        if message is not request.message:
            request = structs.replace(request, message=message)
        try:
            return await self._take_in(request, caller, send)
        except BaseException:
            self._sends.abandon(owner, send)
            raise

    def checked(self, message: Message, caller: Caller) -> Message:
        """A message that may come in; 0.1 has no message ids, so it gets one here."""
        if size_of(message.parts) > self._limits.message_bytes:
            raise InvalidParamsError(f"A message may have {self._limits.message_bytes} bytes", path="$.message.parts")
        self._program.admit(message, caller)
        return message if message.message_id else structs.replace(message, message_id=self._new_id())

    def _admit_opening(self, opening: Message, caller: Caller) -> None:
        """Ask whether the caller may have the work that a message began, or begins under an id of the caller's."""
        self._program.admit(structs.replace(opening, task_id=None), caller)

    async def _take_in(self, request: SendMessageRequest, caller: Caller, send: SendKey) -> Accepted:
        self._supervisor.check_capacity()
        task_id = request.message.task_id
        if task_id is None:
            return await self._begin_task(request, caller, send, self._new_id())
        key = TaskKey(caller.owner, task_id)
        while True:
            await self._supervisor.wait_for_reserved(key)
            head = await self._store.tasks.head(key)
            if head is not None and head.agent != self._program.id:
                raise TaskNotFoundError.for_task(task_id)
            run = self._supervisor.find(key)
            if head is None and run is not None:
                await run.settle()  # begun by another message a moment ago
                continue
            if head is None:
                if not request.caller_names_task:
                    raise TaskNotFoundError.for_task(task_id)
                self._admit_opening(request.message, caller)
                return await self._begin_task(request, caller, send, task_id)
            context_id = request.message.context_id
            if context_id is not None and context_id != head.context_id:
                raise InvalidParamsError("The task belongs to another context", path="$.message.contextId")
            accepted = await self._go_on(head, request, caller, send)
            if accepted is not None:
                return accepted

    async def _begin_task(self, request: SendMessageRequest, caller: Caller, send: SendKey, task_id: str) -> Accepted:
        now = self._clock.now()
        key = TaskKey(caller.owner, task_id)
        self._webhooks.check_number(0 if request.configuration.push_config is None else 1)
        context_id = request.message.context_id or self._new_id()
        message = structs.replace(request.message, task_id=task_id, context_id=context_id)
        events: tuple[TaskEvent, ...] = (
            TaskCreated(task_id, context_id, TaskStatus(TaskState.SUBMITTED, timestamp=now)),
            MessageAdded(task_id, context_id, message),
        )
        run = Run(
            self._workplace,
            key=key,
            context_id=context_id,
            caller=caller,
            message=message,
            configuration=request.configuration,
            feed=self._feeds.use(key),
            journal=Journal.begun_by(message),
            status_at=now,
            created_in=caller.version,
        )
        new = NewTask(self._program.id, context_id, caller.version, now)
        self._start(run, events, (send, self._sends.record(task_id)), new=new)
        return Accepted(key, run, events)

    async def _go_on(
        self, head: TaskHead, request: SendMessageRequest, caller: Caller, send: SendKey
    ) -> Accepted | None:
        """Give a message to a task that exists; None if the task changed meanwhile and must be looked at again."""
        key = head.key
        message = structs.replace(request.message, task_id=key.task_id, context_id=head.context_id)
        remembered = (send, self._sends.record(key.task_id))
        await self._webhooks.check_room(key, request.configuration.push_config)
        run = self._supervisor.find(key)
        if run is not None:
            if run.is_closed:
                await run.wait_for_end()
                return None
            if len(run.journal.messages) >= self._limits.history_messages:
                raise InvalidParamsError(f"A task may have {self._limits.history_messages} messages")
            self._admit_opening(run.message, caller)
            run.add_message(message, remembered, request.configuration.push_config, caller)
            self._sends.announce(key.owner, *remembered)
            return Accepted(key, run)
        if not (is_terminal(head.state) or is_interrupted(head.state)):
            if await self._store.tasks.head(key) != head:
                return None  # its run ended after the first look
            raise UnavailableError("The task is being recovered; try again in a moment")
        admit_message(key.task_id, head.state, may_reopen=request.caller_names_task)
        events = await self._views.events(key)
        if len(events) != head.last_seq or not self._supervisor.is_free(key):
            return None
        return await self._resume(head, events, message, request, caller, remembered)

    async def _resume(
        self,
        head: TaskHead,
        events: list[TaskEvent],
        message: Message,
        request: SendMessageRequest,
        caller: Caller,
        remembered: tuple[SendKey, SendRecord],
    ) -> Accepted:
        """Begin another run of a task that waited for its caller, or (0.1) had ended."""
        now = self._clock.now()
        added = MessageAdded(head.key.task_id, head.context_id, message)
        is_reopened = is_terminal(head.state)
        state = TaskState.SUBMITTED if is_reopened else TaskState.WORKING
        status = StatusUpdate(head.key.task_id, head.context_id, TaskStatus(state, timestamp=now))
        news: tuple[TaskEvent, ...] = (status, added) if is_reopened else (added, status)
        journal = Journal([*events, *news])
        if len(journal.messages) > self._limits.history_messages:
            raise InvalidParamsError(f"A task may have {self._limits.history_messages} messages")
        self._admit_opening(journal.opening or message, caller)
        run = Run(
            self._workplace,
            key=head.key,
            context_id=head.context_id,
            caller=caller,
            message=journal.opening or message,
            configuration=request.configuration,
            feed=self._feeds.use(head.key),
            journal=journal,
            status_at=now,
            created_in=head.created_in,
            seq=head.last_seq,
            state=state,
        )
        self._start(run, news, remembered)
        self._webhooks.watch(head.key)
        return Accepted(head.key, run, [*events, *news])

    def _start(
        self,
        run: Run,
        events: Sequence[TaskEvent],
        remembered: tuple[SendKey, SendRecord],
        *,
        new: NewTask | None = None,
    ) -> None:
        """Begin a run with what brought it about. From here on the message has been taken, whatever its sender does."""
        run.begin(events, remembered, new=new, webhook=run.configuration.push_config)
        self._sends.announce(run.key.owner, *remembered)
        self._supervisor.start(run)
        run.write_soon()  # behind the program's first breath, so that what it says is written along

    async def begin_again(self, head: TaskHead) -> None:
        """Begin another run of a task that was at work when the process died, and count it before it can die again."""
        attempt = Write(head.key, head.last_seq, (), head.state, head.status_at, attempts=head.attempts + 1)
        await self._store.tasks.write(attempt)
        journal = Journal(await self._views.events(head.key))
        caller = Caller(head.key.owner.name, head.key.owner.tenant, version=head.created_in)
        run = Run(
            self._workplace,
            key=head.key,
            context_id=head.context_id,
            caller=caller,
            message=journal.opening or journal.messages[-1],
            configuration=SendConfiguration(),
            feed=self._feeds.use(head.key),
            journal=journal,
            status_at=head.status_at,
            created_in=head.created_in,
            seq=head.last_seq,
            state=head.state,
            attempts=head.attempts + 1,
            is_recovered=True,
        )
        self._supervisor.start(run)
        self._webhooks.watch(head.key)
