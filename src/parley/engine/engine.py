"""The operations of A2A on durable tasks, each a short method over canonical values.

Rules: nothing is visible before it is durable; what a caller may not see does not exist; a refused request has changed
nothing. One engine serves one program. Several may share a log, which its owner opens before them and closes after
them; what is forgotten in time is then forgotten for all. Spec: 1.0 section 3.1, and the invariants in the design.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from datetime import timedelta
from time import perf_counter

from msgspec import structs

from parley.engine.caller import ANYBODY, Caller
from parley.engine.clock import Clock, NewId, SystemClock, random_id
from parley.engine.deliveries import Deliveries
from parley.engine.feed import Feeds
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.paging import cut_history
from parley.engine.program import Program, Recovery
from parley.engine.reception import Accepted, Reception
from parley.engine.retention import Retention
from parley.engine.run import Run
from parley.engine.sends import Sends
from parley.engine.store_errors import translated
from parley.engine.store_health import StoreHealth
from parley.engine.supervisor import Supervisor
from parley.engine.views import Batch, Views, fold_stored
from parley.engine.watchdog import Watchdog
from parley.engine.webhooks import Webhooks
from parley.protocol.errors import (
    InternalError,
    ParleyError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import ends_stream, fold, is_interrupted, is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPage,
)
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import (
    ConflictError,
    Store,
    StoreError,
    TaskHead,
    TaskKey,
    Write,
)

logger = logging.getLogger(__name__)

FORGOTTEN_AT_ONCE = 1_000
"""Old tasks deleted in one transaction, so that others get their turn in between."""

MAINTENANCE_SECONDS = 60.0
"""How often old sends and tasks are forgotten."""


class Engine:
    """One program's tasks, for any number of callers, in a log that is open: `async with Engine(program, log): …`."""

    def __init__(
        self,
        program: Program,
        store: Store,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        retention: timedelta | None = None,
        drain_seconds: float = 10.0,
        observer: Observer | None = None,
        deliveries: Deliveries | None = None,
        store_health: StoreHealth | None = None,
    ) -> None:
        self.program = program
        self.limits = limits or Limits()
        self._store = store
        self._clock: Clock = clock or SystemClock()
        self._new_id = new_id
        self._retention = Retention(retention, self._clock) if retention is not None else None
        self._drain_seconds = drain_seconds
        self._observer = observer
        self._draining: asyncio.Task[None] | None = None
        self._feeds = Feeds(store, self.limits)
        self._views = Views(store, self._feeds, self.limits, agent=program.id)
        self._sends = Sends(store, self._clock, agent=program.id, seconds=self.limits.idempotency_seconds)
        self._supervisor = Supervisor(
            limits=self.limits, clock=self._clock, new_id=new_id, on_end=self._run_ended, observer=observer
        )
        self._background: set[asyncio.Task[None]] = set()
        self._watchdog = Watchdog(self.limits.blocked_seconds, self._supervisor.run_of, self._loop_was_blocked)
        self.webhooks = Webhooks(
            store,
            self._views,
            self.limits,
            agent=program.id,
            feeds=self._feeds,
            deliveries=deliveries,
            observer=observer,
        )
        self._reception = Reception(
            program=program,
            store=store,
            feeds=self._feeds,
            views=self._views,
            sends=self._sends,
            supervisor=self._supervisor,
            webhooks=self.webhooks,
            clock=self._clock,
            new_id=new_id,
            limits=self.limits,
            store_health=store_health or StoreHealth(store, self._clock),
            observer=observer,
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Engine:
        """Take up what a crash left behind."""
        for head in await self._store.tasks.abandoned(frozenset(), limit=sys.maxsize):
            if head.agent == self.program.id:
                try:
                    await self._recover(head)
                except ParleyError as error:
                    logger.error("Task %s: not recovered now: %s", head.key.task_id, error, extra=_log_fields(head))
                    self._in_background(self._settle_later(head.key))
        self._in_background(self._maintain())
        self._watchdog.start()
        return self

    def _loop_was_blocked(self, run: Run | None, seconds: float) -> None:
        logger.warning("The event loop goes on after %.1f seconds", seconds, extra=run.log_fields if run else None)
        if self._observer is not None:
            self._observer.blocked(self.program.id if run is not None else None, seconds)

    async def __aexit__(self, *_: object) -> None:
        """Drain, unless that was done before, and stop all that goes on behind. The log stays open."""
        await self.drain()
        self._watchdog.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def drain(self) -> None:
        """Begin to stop: take no more messages, let runs finish for `drain_seconds`, cut off the rest.

        Tasks that were cut off are taken up by the next engine, and readers are told to come back. What is there can
        still be read; leaving the engine's block afterwards is quick. Draining twice waits for the same end.
        """
        self._supervisor.refuse()  # at once, not when the task below gets its turn
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        await asyncio.shield(self._draining)

    async def _drain(self) -> None:
        await self._supervisor.stop(grace=self._drain_seconds)
        self._feeds.fail_all()

    @property
    def runs(self) -> Supervisor:
        """The runs at work, for whoever counts them."""
        return self._supervisor

    # --- send ---------------------------------------------------------------------------------------------------------

    async def send_message(self, request: SendMessageRequest, caller: Caller = ANYBODY) -> Task | Message:
        """Take a message in; answer when the task has ended or waits, or at once if the caller wants that.

        Raises:
            TaskNotFoundError, TaskFinishedError, InvalidParamsError: the message cannot be taken.
            RateLimitedError, UnavailableError: not now.
        """
        with translated:
            if self.program.replies_directly:
                return await self._reply(request, caller)
            accepted = await self._reception.accept(request, caller)
            run, task = accepted.run or self._supervisor.find(accepted.key), None
            if run is not None:
                await (run.settle() if request.configuration.return_immediately else self._wait(run))
                task = run.feed.whole_task()
            return cut_history(task or await self._views.task(accepted.key), request.configuration.history_length)

    async def send_streaming_message(
        self, request: SendMessageRequest, caller: Caller = ANYBODY, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Take a message in and follow what happens: the task first, then its updates, each with its number.

        They come in batches: whatever is there, and never nothing. Whoever sends the same message again because its
        stream broke may say `after` which number it goes on; for a message that was not sent before, that is ignored.
        A direct reply has the number 0.

        Raises: as `send_message`, before the first event.
        """
        with translated:
            if self.program.replies_directly:
                yield [(0, await self._reply(request, caller))]
                return
            accepted = await self._reception.accept(request, caller)
            key = accepted.key
            feed = self._feeds.use(key)
            try:
                run = accepted.run or self._supervisor.find(key)
                if run is not None:
                    await run.settle()
                batches = self._follow_send(accepted, request, caller, after)
                del accepted, request, run  # a message may be large, and its stream long
                async with aclosing(batches):
                    async for batch in batches:
                        yield batch
            finally:
                self._feeds.release(key, feed)

    def _follow_send(
        self, accepted: Accepted, request: SendMessageRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Batch]:
        if accepted.events:
            seq, task = len(accepted.events), fold(None, accepted.events)
            opening: Batch = [(seq, cut_history(task, request.configuration.history_length))]
            return self._views.stream(accepted.key, after=seq, opening=opening)
        if accepted.run is None and after is not None:
            return self._go_on_after(accepted.key, caller, after)
        return self._catch_up(accepted.key)

    async def _go_on_after(self, key: TaskKey, caller: Caller, after: int) -> AsyncGenerator[Batch]:
        """Follow a task for somebody whose stream broke: nothing more, if it broke after its last event."""
        head = await self._views.head(key)
        if after == head.last_seq and ends_stream(head.state) and not self._is_at_work(key):
            return
        async with aclosing(self._views.subscribe(key, caller.version, after=after)) as batches:
            async for batch in batches:
                yield batch

    async def _catch_up(self, key: TaskKey) -> AsyncGenerator[Batch]:
        """Follow a task that was at work before: the task as it stands, and its last status if nothing more comes."""
        last, task = await self._views.snapshot(key)
        if ends_stream(task.status.state) and not self._is_at_work(key):
            yield [(last, task), (last, StatusUpdate(task.id, task.context_id, task.status))]
            return
        batches = self._views.stream(key, after=last, opening=[(last, task)])
        del task  # only the batch has it, which its reader empties
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    def _is_at_work(self, key: TaskKey) -> bool:
        run = self._supervisor.find(key)
        return run is not None and not run.is_closed

    async def _wait(self, run: Run) -> None:
        """Return when the run has ended, or when the wait has a cap and that is reached."""
        if self.limits.wait_seconds is None:
            await run.wait_for_end()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.wait_seconds):
                    await run.wait_for_end()
        if run.is_over and run.failure is not None:
            raise run.failure

    async def _reply(self, request: SendMessageRequest, caller: Caller) -> Message:
        """Answer a message directly; the same message gets the same answer."""
        message = self._reception.checked(request.message, caller)
        if message.task_id is not None:
            raise TaskNotFoundError.for_task(message.task_id)
        self._supervisor.check_capacity()
        send = self._sends.key_of(message)
        record = await self._sends.find(caller.owner, send)
        if record is not None and record.reply is not None:
            return record.reply
        record = None
        try:
            reply = await self._answer(message)
            record = self._sends.record(reply=reply)
            await self._store.sends.put(caller.owner, send, record)
            return reply
        finally:
            self._sends.resolve(caller.owner, send, record)

    async def _answer(self, message: Message) -> Message:
        context_id = message.context_id or self._new_id()
        try:
            async with self._clock.timeout(self.limits.run_seconds):
                reply = await self.program.reply(structs.replace(message, context_id=context_id))
        except Exception as exc:
            reference = self._new_id()
            logger.exception(
                "The agent failed to reply (reference %s)",
                reference,
                extra={"context": context_id, "reference": reference},
            )
            raise InternalError(f"The agent failed. Reference: {reference}") from exc
        return structs.replace(reply, message_id=reply.message_id or self._new_id(), context_id=context_id)

    # --- read, list, cancel, subscribe --------------------------------------------------------------------------------

    async def get_task(self, request: GetTaskRequest, caller: Caller = ANYBODY) -> Task:
        """A task as it stands.

        Raises:
            TaskNotFoundError: the caller has no such task.
        """
        with translated:
            task = await self._views.task(TaskKey(caller.owner, request.task_id))
            return cut_history(task, request.history_length)

    async def created_in(self, task_id: str, caller: Caller = ANYBODY) -> Version | None:
        """The dialect in which a task was created, or None if the caller has no such task."""
        with translated:
            head = await self._store.tasks.head(TaskKey(caller.owner, task_id))
        return head.created_in if head is not None and head.agent == self.program.id else None

    async def list_tasks(self, request: ListTasksRequest, caller: Caller = ANYBODY) -> TaskPage:
        """A page of the caller's tasks, newest status first. Raises as `Views.page` does."""
        with translated:
            return await self._views.page(request, caller)

    async def cancel_task(self, request: CancelTaskRequest, caller: Caller = ANYBODY) -> Task:
        """Stop a task, for real: its handler is cancelled, and the task is canceled once.

        Raises:
            TaskNotFoundError: the caller has no such task.
            TaskNotCancelableError: it has ended already.
        """
        key = TaskKey(caller.owner, request.task_id)
        with translated:
            await self._cancel(key)
            task = await self._views.task(key)
        if task.status.state is not TaskState.CANCELED:
            raise TaskNotCancelableError(details={"taskId": task.id, "state": task.status.state.value})
        if self._observer is not None:
            self._observer.canceled(key, self.program.id, caller)
        return task

    async def _cancel(self, key: TaskKey) -> None:
        while True:
            run = self._supervisor.find(key)
            if run is not None and not run.is_closed:
                await self._supervisor.cancel(run)
                return
            if run is not None:
                await run.wait_for_end()
                continue
            await self._supervisor.wait_for_reserved(key)
            head = await self._views.head(key)
            if self._supervisor.find(key) is not None:
                continue
            if is_terminal(head.state):
                raise TaskNotCancelableError(details={"taskId": key.task_id, "state": head.state.value})
            try:
                # To its end, also if the caller goes away: readers and webhooks are told when it is written.
                await asyncio.shield(self._in_background(self._cancel_waiting(head)))
                return
            except ConflictError:
                continue

    async def _cancel_waiting(self, head: TaskHead) -> None:
        if not self._supervisor.is_free(head.key):
            raise ConflictError
        with self._supervisor.reserved(head.key):
            await self._settle(head, TaskState.CANCELED)

    async def subscribe_to_task(
        self, request: SubscribeToTaskRequest, caller: Caller = ANYBODY, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Follow a task in batches, from a snapshot or exactly from a cursor. Raises as `Views.subscribe` does."""
        key = TaskKey(caller.owner, request.task_id)
        with translated:
            async with aclosing(self._views.subscribe(key, caller.version, after=after)) as batches:
                async for batch in batches:
                    yield batch

    # --- what goes on behind ------------------------------------------------------------------------------------------

    async def _settle(self, head: TaskHead, state: TaskState, text: str | None = None) -> None:
        """Put a task that nobody works on into a final state.

        Raises:
            ConflictError: somebody works on it after all.
        """
        now = self._clock.now()
        task_id, context_id = head.key.task_id, head.context_id
        message = text and Message(self._new_id(), Role.AGENT, (TextPart(text),), context_id, task_id)
        event = StatusUpdate(task_id, context_id, TaskStatus(state, message or None, now))
        begun = perf_counter()
        await self._store.tasks.write(Write(head.key, head.last_seq, (event,), state, now))
        if self._observer is not None:
            self._observer.committed(head.key, self.program.id, (event,), perf_counter() - begun)
        feed = self._feeds.get(head.key)
        if feed is not None:
            feed.publish(head.last_seq + 1, (event,))
        self.webhooks.notify(head.key)

    @property
    def _run_attempts(self) -> int:
        return self.program.run_attempts if self.limits.run_attempts is None else self.limits.run_attempts

    async def _recover(self, head: TaskHead) -> None:
        """Take up a task that was at work when the process died, as its program wants it."""
        if self.program.recovery is Recovery.FAIL:
            await self._settle(head, TaskState.FAILED, "The agent was restarted while it worked on this task.")
        elif head.attempts >= self._run_attempts:
            often = f"{head.attempts} times" if head.attempts > 1 else "once"
            text = f"The agent crashed {often} while it worked on this task, without making progress."
            await self._settle(head, TaskState.FAILED, text)
        else:
            attempt = head.attempts + 1
            logger.info(
                "Task %s: begun again after a restart (attempt %d)", head.key.task_id, attempt, extra=_log_fields(head)
            )
            await self._reception.begin_again(head)

    def _run_ended(self, run: Run) -> None:
        self._feeds.release(run.key, run.feed)
        if run.is_cut_off:
            return
        if run.failure is not None:
            self._in_background(self._settle_later(run.key))
        elif run.seq // self.limits.snapshot_events != run.first_seq // self.limits.snapshot_events:
            self._in_background(self._write_snapshot(run.key))

    async def _write_snapshot(self, key: TaskKey) -> None:
        """Spare readers of a long task the folding of all its events."""
        try:
            stored = await self._store.tasks.read(key)
            if stored is None:
                return
            head = stored.head
            snapshot = await asyncio.to_thread(fold_stored, stored)  # tens of milliseconds for a long task
            await self._store.tasks.write(Write(key, head.last_seq, (), head.state, head.status_at, snapshot=snapshot))
        except StoreError as error:
            logger.warning("Task %s: no snapshot written: %s", key.task_id, error, extra={"task": key.task_id})

    async def _settle_later(self, key: TaskKey) -> None:
        """Fail a task whose run could not write, as soon as the store takes writes again."""
        pause = 1.0
        while True:
            try:
                head = await self._store.tasks.head(key)
                if head is None or is_terminal(head.state) or is_interrupted(head.state):
                    return
                await self._settle(head, TaskState.FAILED, "The agent could not store its progress on this task.")
                return
            except StoreError as error:
                logger.warning("Task %s: still cannot be stored: %s", key.task_id, error, extra={"task": key.task_id})
                await self._clock.sleep(pause)
                pause = min(pause * 2, 30.0)

    async def _maintain(self) -> None:
        """Forget what is old, now and then."""
        while True:
            await self._clock.sleep(MAINTENANCE_SECONDS)
            try:
                await self._sends.forget()
                if self._retention is not None and (before := self._retention.forgotten_before()) is not None:
                    for forget in (self._store.tasks.delete_finished, self._store.contexts.delete_unused):
                        while await forget(before=before, limit=FORGOTTEN_AT_ONCE) == FORGOTTEN_AT_ONCE:
                            pass
            except StoreError as error:
                logger.warning("Old tasks and sends could not be forgotten: %s", error)

    def _in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _log_fields(head: TaskHead) -> dict[str, str]:
    return {"task": head.key.task_id, "context": head.context_id}
