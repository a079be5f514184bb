"""Accepting messages: a new task, an answer, a message to a running task, or a repeated message.

Whatever it is, it ends in a run that has the message, in a task that waits in a shared store for a worker with room, or
in an error that has changed nothing. There is no `await` between the last check of a task and the start of its run, so
that no two runs begin for one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from parley.engine.caller import Caller
from parley.engine.direct_replies import claim_message, find_send, may_reply, wait_for_decision
from parley.engine.ownership.inbox import forward_to_holder
from parley.engine.ownership.waiting import notes_of_sender, sender_of
from parley.engine.program import Program
from parley.engine.reading.sizes import size_of
from parley.engine.runs.journal import Journal
from parley.engine.runs.run import AbandonedError, Run
from parley.engine.sealed_answers import seal_answer
from parley.protocol.authorization import (
    GivenCredential,
    credential_in_parts,
    decode_authorization,
    decode_credential,
    stored_credential,
    without_credential,
    without_credential_in_parts,
)
from parley.protocol.errors import A2AError, InvalidParamsError, TaskNotFoundError
from parley.protocol.events import MessageAdded, StatusUpdate, TaskClaimed, TaskCreated, TaskEvent
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.lifecycle import admit_message, ends_stream, is_terminal
from parley.protocol.masking import without_sealed_message
from parley.protocol.messages import Message
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import (
    ConflictError,
    InboxItem,
    NewTask,
    Owner,
    RepeatedSendError,
    SendKey,
    SendRecord,
    TaskHead,
    TaskKey,
    Write,
)

if TYPE_CHECKING:
    from parley.engine.engine import Engine


class Accepted(Struct, frozen=True):
    """A message that was accepted: its task, and the run that handles it, if it is on this worker."""

    key: TaskKey
    run: Run | None = None
    events: Sequence[TaskEvent] = ()
    """All events of the task up to the message, where they are known without reading the store."""
    is_repeat: bool = False
    """Whether the same message came before."""
    reply: Message | None = None
    """What the message was answered with, instead of a task."""
    has_waited: bool = False
    """Whether the sender has waited as long as it should."""


class _CredentialInPartsError(Exception):
    """The parts of a message that answers a demand for authorization hold the credential, which is taken out first."""

    def __init__(self, credential: GivenCredential) -> None:
        self.credential = credential


class Intake:
    """Turns messages into runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def accept(
        self, program: Program, request: SendMessageRequest, caller: Caller, *, undecided_seconds: float | None
    ) -> Accepted:
        """Begin a task, continue one, or find out that the message came before.

        A program that may reply without a task decides first, but gets a task after `undecided_seconds`.
        """
        engine = self._engine
        message = self.checked(program, request.message, caller)
        owner, send = caller.owner, engine.sends.key_of(message, program.id, request.idempotency_key)
        if message is not request.message:
            request = structs.replace(request, message=message)
        if request.idempotency_key is not None:
            await engine.sends.claim_key(owner, send)
        while True:
            record = await engine.sends.find(owner, send)
            if record is not None and record.holder:
                record = await find_send(engine, owner, send)
            if record is not None and record.task_id is not None:
                return await self._accept_repeat(program, TaskKey(owner, record.task_id), request, caller)
            if record is not None and record.reply is not None:
                return Accepted(TaskKey(owner, ""), is_repeat=True, reply=record.reply)
            attempt = request  # the credential is taken out of every attempt anew
            try:
                if AUTHORIZATION_REQUEST in request.message.metadata:
                    attempt = await self._without_credential(program, request, caller)
                former = record.holder if record else ""
                try:
                    accepted = await self._accept_new(program, attempt, caller, send, former)
                except _CredentialInPartsError as found:
                    attempt = await self._without_credential_in_parts(request, caller, found.credential)
                    accepted = await self._accept_new(program, attempt, caller, send, former, is_counted=True)
            except RepeatedSendError:
                engine.sends.release(owner, send)
                await engine.credentials.delete_unused(owner, attempt.message)
                continue  # another worker was faster
            except BaseException:
                engine.sends.release(owner, send)
                # Only what this attempt has stored: a message that was refused may name any id.
                if attempt is not request and (kept_as := stored_credential(attempt.message)) is not None:
                    engine.in_background(engine.credentials.delete(owner, kept_as))
                raise
            if accepted.run is not None and accepted.run.starts_at_once and accepted.run.decision is None:
                return accepted  # as nearly always
            if accepted.is_repeat:
                await engine.credentials.delete_unused(owner, attempt.message)
            try:
                return await self._until_known(accepted, owner, send, undecided_seconds)
            except AbandonedError:
                await engine.credentials.delete_unused(owner, attempt.message)
                continue  # another worker was faster

    async def _without_credential(
        self, program: Program, request: SendMessageRequest, caller: Caller
    ) -> SendMessageRequest:
        """The request without the credential in its message, which is kept for the run that waits for it.

        Raises:
            InvalidParamsError: the credential is invalid, or the task does not wait for one.
        """
        message = request.message
        credential = decode_credential(message)
        if credential is None:
            return request
        key = TaskKey(caller.owner, message.task_id or "")
        head = await self._engine.store.tasks.head(key) if message.task_id else None
        if message.task_id and (head is None or head.agent != program.id):
            raise TaskNotFoundError.for_task(message.task_id)
        if head is None or head.state is not TaskState.AUTH_REQUIRED:
            raise InvalidParamsError("The task does not wait for a credential", path="$.message.metadata")
        kept_as = await self._engine.credentials.put(key, credential)
        return structs.replace(request, message=without_credential(message, kept_as))

    async def _without_credential_in_parts(
        self, request: SendMessageRequest, caller: Caller, credential: GivenCredential
    ) -> SendMessageRequest:
        """The request without the credential in its message's parts, which is kept for the run that waits for it."""
        message = request.message
        kept_as = await self._engine.credentials.put(TaskKey(caller.owner, message.task_id or ""), credential)
        return structs.replace(request, message=without_credential_in_parts(message, credential, kept_as))

    async def _until_known(
        self, accepted: Accepted, owner: Owner, send: SendKey, undecided_seconds: float | None
    ) -> Accepted:
        """Wait until it is certain what becomes of a message. Raises AbandonedError if another worker has taken it."""
        run = accepted.run
        if run is None:  # another worker has it, or it waits for one
            if not accepted.events:
                self._engine.sends.release(owner, send)
        elif run.decision is not None:
            is_decided = await wait_for_decision(run, run.decision, undecided_seconds)
            return structs.replace(accepted, reply=run.direct_reply, has_waited=not is_decided)
        elif not run.starts_at_once:
            await run.settle()  # if the store refuses, repeats of it may be tried
        return accepted

    async def _accept_repeat(
        self, program: Program, key: TaskKey, request: SendMessageRequest, caller: Caller
    ) -> Accepted:
        """Accept a message that came before: only its webhook may be new."""
        webhook, run = request.configuration.push_config, self._engine.runs.find(key)
        if webhook is not None:
            if run is not None:
                await run.wait_until_known()  # announced, but perhaps not stored yet
            await self._engine.webhooks.register(key, webhook, caller, program.id, after=0)
        return Accepted(key, is_repeat=True)

    def checked(self, program: Program, message: Message, caller: Caller) -> Message:
        """Check a message's size and whether the agent accepts it; give it an id if it has none (0.1)."""
        most = self._engine.limits.message_bytes
        if size_of(message.parts) > most:
            raise InvalidParamsError(f"A message may have at most {most} bytes", path="$.message.parts")
        program.admit(message, caller)
        message = without_sealed_message(message)
        return message if message.message_id else structs.replace(message, message_id=self._engine.new_id())

    def _check_messages(self, number: int) -> None:
        most = self._engine.limits.history_messages
        if number > most:
            raise InvalidParamsError(f"A task may have at most {most} messages")

    async def _accept_new(
        self,
        program: Program,
        request: SendMessageRequest,
        caller: Caller,
        send: SendKey,
        former: str,
        *,
        is_counted: bool = False,
    ) -> Accepted:
        """Accept a message that did not come before; `former` is a worker that died while it was to reply, or empty.

        One that `is_counted` has passed `Program.check_room` already.

        Raises:
            RepeatedSendError: another worker was faster.
            _CredentialInPartsError: the message is to be given again without it.
        """
        engine = self._engine
        engine.runs.check_capacity(program.id)
        task_id = request.message.task_id
        if task_id is None:
            program.check_room(request.message, caller)
        if may_reply(program, request, caller):
            former = await claim_message(engine, caller.owner, send, former=former)
            return self._begin_task(program, request, caller, send, engine.new_id(), former, is_undecided=True)
        if task_id is None:
            if engine.waiting.must_wait(program):
                return await self._wait_for_room(program, request, caller, send, engine.new_id(), former)
            return self._begin_task(program, request, caller, send, engine.new_id(), former)
        key = TaskKey(caller.owner, task_id)
        while True:
            head = await engine.store.tasks.head(key)
            if head is not None and head.agent != program.id:
                raise TaskNotFoundError.for_task(task_id)
            run = engine.runs.find(key)
            if head is None and run is not None:
                await run.wait_until_known()  # begun by another message a moment ago
                continue
            if head is None and not request.caller_names_task:
                raise TaskNotFoundError.for_task(task_id)
            if run is None and not is_counted:  # only now: nothing may come between this check and the start of a run
                program.check_room(request.message, caller)
                is_counted = True
            if head is None:
                program.admit(structs.replace(request.message, task_id=None), caller)
                if engine.waiting.must_wait(program):
                    return await self._wait_for_room(program, request, caller, send, task_id, former)
                return self._begin_task(program, request, caller, send, task_id, former)
            context_id = request.message.context_id
            if context_id is not None and context_id != head.context_id:
                raise InvalidParamsError("The task belongs to another context", path="$.message.contextId")
            try:
                accepted = await self._continue_task(program, head, request, caller, send)
            except A2AError:
                await self._check_not_repeated(key.owner, send)
                raise
            if accepted is not None:
                return accepted
            await self._check_not_repeated(key.owner, send)

    async def _check_not_repeated(self, owner: Owner, send: SendKey) -> None:
        """Look again whether a message is new, because its task has changed or does not take it.

        Raises:
            RepeatedSendError: the same message came another way, and that is why.
        """
        engine = self._engine
        if engine.store.is_shared:
            record = await engine.store.sends.find(owner, send, since=engine.sends.since())
            if record is not None and record.task_id is not None:
                raise RepeatedSendError(record)

    async def _wait_for_room(
        self, program: Program, request: SendMessageRequest, caller: Caller, send: SendKey, task_id: str, former: str
    ) -> Accepted:
        """Store a new task for any worker that has room."""
        engine = self._engine
        _, new, events = self._new_task(program, request, caller, task_id)
        configuration, key = request.configuration, TaskKey(caller.owner, task_id)
        events += notes_of_sender(task_id, new.context_id, caller, configuration)
        write = Write(key, 0, events, TaskState.SUBMITTED, new.created_at, new=new)
        remembered = (send, engine.sends.record(task_id, holder=former))
        try:
            await self._put(write, program, remembered, configuration, caller)
        except ConflictError:  # as in a run, only callers of 0.1 choose ids
            raise InvalidParamsError("This task id cannot be used; choose another", path="$.id") from None
        return Accepted(key, None, events)

    async def _put(
        self,
        write: Write,
        program: Program,
        remembered: tuple[SendKey, SendRecord],
        configuration: SendConfiguration,
        caller: Caller,
    ) -> None:
        """Store a message that waits, with what came with it. Raises as `SharedQueue.put`."""
        engine, webhook = self._engine, configuration.push_config
        write = structs.replace(
            write,
            sends=(remembered,),
            sends_since=engine.sends.since() if engine.limits.idempotency_seconds else None,
            webhooks=((webhook.of_task(write.key.task_id), caller.version),) if webhook is not None else (),
        )
        await engine.waiting.put(write, agent=program.id, caller=caller)

    def _new_task(
        self, program: Program, request: SendMessageRequest, caller: Caller, task_id: str, *, is_undecided: bool = False
    ) -> tuple[Message, NewTask, tuple[TaskEvent, ...]]:
        """The message as its task has it, the task's fixed fields, and its first events."""
        now = self._engine.clock.now()
        if (webhook := request.configuration.push_config) is not None:
            self._engine.webhooks.check_first(webhook, has_task=not is_undecided)
        context_id = request.message.context_id or self._engine.new_id()
        message = structs.replace(request.message, task_id=task_id, context_id=context_id)
        created = TaskCreated(task_id, context_id, TaskStatus(TaskState.SUBMITTED, timestamp=now))
        new = NewTask(program.id, context_id, caller.version, now)
        return message, new, (created, MessageAdded(task_id, context_id, message))

    def _begin_task(
        self,
        program: Program,
        request: SendMessageRequest,
        caller: Caller,
        send: SendKey,
        task_id: str,
        former: str,
        *,
        is_undecided: bool = False,
    ) -> Accepted:
        engine = self._engine
        message, new, events = self._new_task(program, request, caller, task_id, is_undecided=is_undecided)
        key = TaskKey(caller.owner, task_id)
        run = Run(
            engine=engine,
            program=program,
            key=key,
            context_id=new.context_id,
            caller=caller,
            message=message,
            configuration=request.configuration,
            feed=engine.feeds.use(key, program.id),
            journal=Journal.begun_by(message),
            status_at=new.created_at,
            created_at=new.created_at,
            created_in=caller.version,
        )
        if is_undecided:
            run.is_undecided = run.starts_at_once = True
            run.decision = run.loop.create_future()
        self._start(run, events, (send, engine.sends.record(task_id, holder=former)), new=new)
        return Accepted(key, run, events)

    async def _continue_task(
        self, program: Program, head: TaskHead, request: SendMessageRequest, caller: Caller, send: SendKey
    ) -> Accepted | None:
        """Give a message to a task that exists. Return None if the task has changed and must be read again."""
        engine, key = self._engine, head.key
        message = structs.replace(request.message, task_id=key.task_id, context_id=head.context_id)
        remembered = (send, engine.sends.record(key.task_id))
        if (webhook := request.configuration.push_config) is not None:
            completed = await engine.webhooks.completed(key, webhook)
            if completed is not webhook:
                configuration = structs.replace(request.configuration, push_config=completed)
                request = structs.replace(request, configuration=configuration)
        run = engine.runs.find(key)
        if run is not None:
            if run.is_closed:
                await run.wait_for_end()
                return None
            if engine.store.is_shared:
                # Another worker may have taken the message before this one held the task.
                record = await engine.store.sends.find(key.owner, send, since=engine.sends.since())
                if record is not None or run.is_closed:
                    return Accepted(key, is_repeat=True) if record is not None else None
            self._check_messages(len(run.journal.messages) + 1)
            program.admit_to_task(run.journal, caller)
            program.admit_while_running(message, caller)
            run.add_message(message, remembered, request.configuration.push_config, caller)
            engine.sends.announce(key.owner, *remembered)
            return Accepted(key, run)
        if not ends_stream(head.state) and head.wake_at is None:
            holder = await engine.claims.live_holder(head)
            if holder is not None:
                return await self._forward_to_holder(program, head, message, request, caller, remembered, holder)
            if engine.waiting.must_wait(program):
                return await self._add_to_waiting(program, head, message, request, caller, remembered)
            run = await engine.claims.claim(head, program)
            if run is not None:
                await run.wait_until_known()
            return None
        admit_message(key.task_id, head.state, may_reopen=request.caller_names_task)
        events = await engine.views.events(key)
        if len(events) != head.last_seq or engine.runs.find(key) is not None:
            return None
        return await self._resume_task(program, head, events, message, request, caller, remembered)

    async def _add_to_waiting(
        self,
        program: Program,
        head: TaskHead,
        message: Message,
        request: SendMessageRequest,
        caller: Caller,
        remembered: tuple[SendKey, SendRecord],
    ) -> Accepted | None:
        """Add a message to a task that waits for a worker, or that a dead one has left; None if it has changed."""
        key = head.key
        events = await self._engine.views.events(key)
        if len(events) != head.last_seq:
            return None
        journal = Journal.read(events)
        self._check_messages(len(journal.messages) + 1)
        program.admit_to_task(journal, caller)
        program.admit_while_running(message, caller)
        added = MessageAdded(key.task_id, head.context_id, message)
        notes = notes_of_sender(key.task_id, head.context_id, caller, request.configuration)
        write = Write(
            key,
            head.last_seq,
            (added, *notes),
            head.state,
            head.status_at,
            attempts=head.attempts,
            expected_holder=head.holder,
        )
        try:
            if not await self._engine.claims.may_rerun(head, program):
                return None
            await self._put(write, program, remembered, request.configuration, caller)
        except ConflictError:
            return None
        return Accepted(key, None, [*events, *write.events])

    async def _forward_to_holder(
        self,
        program: Program,
        head: TaskHead,
        message: Message,
        request: SendMessageRequest,
        caller: Caller,
        remembered: tuple[SendKey, SendRecord],
        holder: str,
    ) -> Accepted | None:
        """Leave a message for the worker that holds its task; None if the task must be looked at again."""
        engine, webhook = self._engine, request.configuration.push_config
        journal = Journal.read(await engine.views.events(head.key))
        self._check_messages(len(journal.messages) + 1)
        program.admit_to_task(journal, caller)
        program.admit_while_running(message, caller)
        item = InboxItem(engine.new_id(), head.key, caller.version, message, remembered, webhook)
        return Accepted(head.key) if await forward_to_holder(engine, item, holder, program.id) else None

    async def _resume_task(
        self,
        program: Program,
        head: TaskHead,
        events: list[TaskEvent],
        message: Message,
        request: SendMessageRequest,
        caller: Caller,
        remembered: tuple[SendKey, SendRecord],
    ) -> Accepted | None:
        """Begin another run of a task that waited for its caller or sleeps, or (0.1) had ended; or let it wait for one.

        None if the task has changed.

        Raises:
            _CredentialInPartsError: the message is to be given again without it.
        """
        if head.state is TaskState.AUTH_REQUIRED and AUTHORIZATION_REQUEST not in message.metadata:
            _check_for_credential(events, message)
        added = MessageAdded(head.key.task_id, head.context_id, message)
        state, status_at, new_events = head.state, head.status_at, list[TaskEvent]([added])
        if ends_stream(state):
            status_at = self._engine.clock.now()
            is_reopened = is_terminal(state)
            state = TaskState.SUBMITTED if is_reopened else TaskState.WORKING
            status = StatusUpdate(head.key.task_id, head.context_id, TaskStatus(state, timestamp=status_at))
            new_events.insert(0 if is_reopened else 1, status)
        journal = Journal.read([*events, *new_events])
        self._check_messages(len(journal.messages))
        program.admit_to_task(journal, caller)
        program.admit_answer(journal, caller)
        if head.state is TaskState.AUTH_REQUIRED:  # what was checked and the handler gets is plain, the log is not
            sealed = structs.replace(added, message=seal_answer(self._engine.store.sealer, head.key, message))
            new_events[new_events.index(added)] = sealed
        if self._engine.waiting.must_wait(program):
            new_events += notes_of_sender(head.key.task_id, head.context_id, caller, request.configuration)
            write = Write(head.key, head.last_seq, tuple(new_events), state, status_at, expected_holder=head.holder)
            try:
                await self._put(write, program, remembered, request.configuration, caller)
            except ConflictError:
                return None
            return Accepted(head.key, None, [*events, *new_events])
        run = self._run_of_stored(
            program, head, journal, caller, request.configuration, status_at=status_at, state=state
        )
        self._start(run, new_events, remembered)
        return Accepted(head.key, run, [*events, *new_events])

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
        attempt: int = 1,
        is_recovered: bool = False,
    ) -> Run:
        """A run of a task that is in the store."""
        return Run(
            engine=self._engine,
            program=program,
            key=head.key,
            context_id=head.context_id,
            caller=caller,
            message=journal.opening or journal.messages[-1],
            configuration=configuration,
            feed=self._engine.feeds.use(head.key, head.agent),
            journal=journal,
            status_at=status_at,
            created_at=head.created_at,
            created_in=head.created_in,
            seq=head.last_seq,
            state=state,
            attempt=attempt,
            holder=head.holder,
            is_recovered=is_recovered,
        )

    def _start(
        self,
        run: Run,
        events: Sequence[TaskEvent],
        remembered: tuple[SendKey, SendRecord] | None = None,
        *,
        new: NewTask | None = None,
    ) -> None:
        """Begin a run with what caused it. From here on the message is accepted, whatever its sender does."""
        run.begin(events, remembered, new=new, webhook=run.configuration.push_config)
        if remembered is not None and not run.is_undecided:
            self._engine.sends.announce(run.key.owner, *remembered)
        self._engine.runs.start(run)
        run.write_beginning()
        if new is None:
            self._engine.webhooks.watch(run.key)

    async def start_claimed_run(self, head: TaskHead, program: Program) -> Run | None:
        """Begin another run of a task that is due, waits or whose worker has died, for `Claims.claim`.

        Return None if the task has changed since, or other runs have taken the room in a shared store.

        Its first write claims the task and counts the attempt, and its program begins when that is durable.
        """
        engine, key = self._engine, head.key
        events = await engine.views.events(key)
        if len(events) != head.last_seq or engine.runs.find(key) is not None:
            return None
        if engine.store.is_shared and engine.runs.room(program.id) <= 0:
            engine.claims.note_waiting(program.id)
            return None
        caller, configuration = sender_of(head, events)
        run = self._run_of_stored(
            program,
            head,
            Journal.read(events),
            caller,
            configuration,
            status_at=head.status_at,
            state=head.state,
            attempt=head.attempts + 1,
            is_recovered=True,
        )
        self._start(run, (TaskClaimed(key.task_id, head.context_id, engine.lease.worker),))
        return run


def _check_for_credential(events: Sequence[TaskEvent], message: Message) -> None:
    """Raises _CredentialInPartsError if a message gives what a task that waits has asked for, in its parts."""
    status = next((event.status for event in reversed(events) if isinstance(event, StatusUpdate)), None)
    asked = decode_authorization(status) if status is not None else None
    found = credential_in_parts(asked, message) if asked is not None else ""
    if isinstance(found, GivenCredential):
        raise _CredentialInPartsError(found)
