"""The operations of A2A on one agent's tasks, each a short method over canonical values.

Rules: nothing is visible before it is durable; a task that the caller may not see is reported as not found; a
refused request has changed nothing. Spec: 1.0 section 3.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.endings import cancel
from parley.engine.reading.following import Batch, Follower, LogFollower
from parley.engine.reading.paging import cut_history
from parley.engine.runs.run import Run
from parley.engine.store_errors import translated
from parley.engine.webhooks.delivery_operations import DeliveryOperations
from parley.protocol.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import ends_stream, fold, is_terminal
from parley.protocol.masking import without_sealed_message
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CancelTaskRequest,
    CreatePushConfigRequest,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    PushConfigPage,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPage,
)
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import TaskHead, TaskKey

if TYPE_CHECKING:
    from parley.engine.engine import Engine


class AgentOperations:
    """What callers may ask of one agent. The agent's program is looked up whenever a message comes."""

    __slots__ = ("_engine", "agent_id")

    def __init__(self, engine: Engine, agent_id: str) -> None:
        self._engine = engine
        self.agent_id = agent_id

    # --- send ---------------------------------------------------------------------------------------------------------

    async def send_message(self, request: SendMessageRequest, caller: Caller = ANONYMOUS_CALLER) -> Task | Message:
        """Take a message in; answer when the task has ended or waits, or at once if the caller wants that.

        Raises:
            TaskNotFoundError, TaskFinishedError, InvalidParamsError: the message cannot be taken.
            RateLimitedError, UnavailableError: not now.
        """
        engine = self._engine
        with translated:
            program = engine.program(self.agent_id)
            seconds = engine.limits.wait_seconds
            accepted = await engine.intake.accept(program, request, caller, undecided_seconds=seconds)
            if accepted.reply is not None:
                return accepted.reply
            run, task = accepted.run or engine.runs.find(accepted.key), None
            if not (request.configuration.return_immediately or accepted.has_waited):
                waiting = self._wait(accepted.key, run)
                await (waiting if seconds is None else _at_most(seconds, waiting))
            elif run is not None:
                await run.wait_until_known()
            if run is not None and run.failure is None and run.wake_at is None:
                task = run.feed.whole_task()
            task = task or await engine.views.task(accepted.key, self.agent_id)
            return cut_history(task, request.configuration.history_length)

    async def _wait(self, key: TaskKey, run: Run | None) -> None:
        """Return when a task has ended or waits for its caller, whichever worker is at work on it, and if it sleeps."""
        if run is not None:
            await run.wait_for_end()
            if run.failure is not None and not run.is_abandoned:
                raise run.failure
            if run.failure is None and run.wake_at is None:
                return
        head = await self._engine.views.head(key, self.agent_id)
        if not ends_stream(head.state):  # another worker is at work on it, or it sleeps
            try:
                async for _ in Follower(self._engine.feeds, partial(self._follow_on, head)):
                    pass
            except UnavailableError as error:
                if self._engine.runs.is_stopping:
                    raise self._engine.runs.restart_error(key.task_id) from error
                raise

    async def _follow_on(self, head: TaskHead, follower: Follower) -> None:
        follower.use(head.key, self.agent_id)
        follower.begin(after=head.last_seq)

    def send_streaming_message(
        self, request: SendMessageRequest, caller: Caller = ANONYMOUS_CALLER, *, after: int | None = None
    ) -> Follower:
        """Take a message in and follow what happens: the task first, then its updates, each with its number.

        A sender whose stream broke may repeat its message and pass `after`, the last number it received; for a new
        message `after` is ignored. A direct reply has the number 0.

        Raises: as `send_message`, before the first event.
        """
        return Follower(self._engine.feeds, partial(self._start_send, request, caller, after))

    async def _start_send(
        self, request: SendMessageRequest, caller: Caller, after: int | None, follower: Follower
    ) -> None:
        engine = self._engine
        program = engine.program(self.agent_id)
        seconds = engine.limits.undecided_seconds
        accepted = await engine.intake.accept(program, request, caller, undecided_seconds=seconds)
        if accepted.reply is not None:
            follower.finish_with([(0, accepted.reply)])
            return
        key = accepted.key
        follower.use(key, self.agent_id)
        run = accepted.run or engine.runs.find(key)
        if run is not None:
            await run.wait_until_known()
        if accepted.events:
            seq, task = len(accepted.events), fold(None, accepted.events)
            opening = cut_history(task, request.configuration.history_length)
            follower.begin(after=seq, opening=[(seq, opening)])
        elif accepted.is_repeat and after is not None:
            await self._resume_stream(key, caller, after, follower)
        else:
            await self._catch_up(key, follower)

    async def _resume_stream(self, key: TaskKey, caller: Caller, after: int, follower: Follower) -> None:
        """Follow a task for a sender whose stream broke; ends at once if the sender has the last event."""
        head = await self._engine.views.head(key, self.agent_id)
        if after != head.last_seq or not ends_stream(head.state) or self._has_live_run(key):
            await self._start_subscription(key, caller, after, follower)

    async def _catch_up(self, key: TaskKey, follower: Follower) -> None:
        """Follow a task that was at work before: the task as it stands, and its last status if nothing more comes."""
        last, task = await self._engine.views.snapshot(key, self.agent_id)
        if ends_stream(task.status.state) and not self._has_live_run(key):
            follower.finish_with([(last, task), (last, StatusUpdate(task.id, task.context_id, task.status))])
        else:
            follower.begin(after=last, opening=[(last, task)])

    def _has_live_run(self, key: TaskKey) -> bool:
        run = self._engine.runs.find(key)
        return run is not None and not run.is_closed

    # --- subscribe ----------------------------------------------------------------------------------------------------

    def subscribe_to_task(
        self, request: SubscribeToTaskRequest, caller: Caller = ANONYMOUS_CALLER, *, after: int | None = None
    ) -> Follower:
        """Follow a task: from a cursor exactly where it left off, otherwise from a snapshot of now.

        Raises, before the first event:
            TaskNotFoundError: the caller has no such task.
            InvalidParamsError: the task has no such event yet.
            UnsupportedOperationError: the task has ended, and 1.0 has no subscription to it without a cursor.
        """
        key = TaskKey(caller.owner, request.task_id)
        return Follower(self._engine.feeds, partial(self._start_subscription, key, caller, after))

    async def _start_subscription(self, key: TaskKey, caller: Caller, after: int | None, follower: Follower) -> None:
        opening: Batch = []
        if after is None:
            last, task = await self._engine.views.snapshot(key, self.agent_id)
            if is_terminal(task.status.state):
                if caller.version is Version.V1_0:
                    raise UnsupportedOperationError("The task has ended; read it, or subscribe from a cursor")
                follower.finish_with([(last, StatusUpdate(task.id, task.context_id, task.status))])
                return
            after, opening = last, [(last, task)]
        else:
            head = await self._engine.views.head(key, self.agent_id)
            last = head.last_seq
            _check_cursor(after, last)
            if after == last and is_terminal(head.state):
                return
        follower.use(key, self.agent_id)
        follower.begin(after=after, until=last, opening=opening)

    def follow_log(self, task_id: str, caller: Caller = ANONYMOUS_CALLER, *, after: int = 0) -> LogFollower:
        """Every event of a task's log after a number, also those that no stream shows, and those to come.

        Raises, before the first event:
            TaskNotFoundError: the caller has no such task.
            InvalidParamsError: the task has no such event yet.
        """
        key = TaskKey(caller.owner, task_id)
        return LogFollower(self._engine.feeds, partial(self._start_log, key, after))

    async def _start_log(self, key: TaskKey, after: int, follower: Follower) -> None:
        run = self._engine.runs.find(key)
        if run is not None:
            await run.wait_until_known()
        head = await self._engine.views.head(key, self.agent_id)
        _check_cursor(after, head.last_seq)
        if after < head.last_seq or not ends_stream(head.state):
            follower.use(key, self.agent_id)
            follower.begin(after=after, until=head.last_seq)

    # --- read, list, cancel -------------------------------------------------------------------------------------------

    async def get_task(self, request: GetTaskRequest, caller: Caller = ANONYMOUS_CALLER) -> Task:
        """A task as it stands.

        Raises:
            TaskNotFoundError: the caller has no such task.
        """
        with translated:
            task = await self._engine.views.task(TaskKey(caller.owner, request.task_id), self.agent_id)
            return cut_history(task, request.history_length)

    async def created_in(self, task_id: str, caller: Caller = ANONYMOUS_CALLER) -> Version | None:
        """The dialect in which a task was created, or None if the caller has no such task."""
        with translated:
            head = await self._engine.store.tasks.head(TaskKey(caller.owner, task_id))
        return head.created_in if head is not None and head.agent == self.agent_id else None

    async def answers_demand(self, request: SendMessageRequest, caller: Caller = ANONYMOUS_CALLER) -> bool:
        """Whether a message for a task answers a demand for authorization, or may have: it is a repeat of any message.

        What a repeat answered is not looked up, because only the log has it, and the log may be long.
        """
        engine, key = self._engine, TaskKey(caller.owner, request.message.task_id or "")
        with translated:
            head = await engine.store.tasks.head(key)
            if head is None or head.agent != self.agent_id:
                return False
            if head.state is TaskState.AUTH_REQUIRED:
                return True
            send = engine.sends.key_of(without_sealed_message(request.message), self.agent_id, request.idempotency_key)
            return await engine.sends.was_sent(caller.owner, send)

    async def list_tasks(self, request: ListTasksRequest, caller: Caller = ANONYMOUS_CALLER) -> TaskPage:
        """A page of the caller's tasks, newest status first. Raises as `Views.page` does."""
        with translated:
            return await self._engine.views.page(request, caller, self.agent_id)

    async def cancel_task(self, request: CancelTaskRequest, caller: Caller = ANONYMOUS_CALLER) -> Task:
        """Stop a task, for real: its handler is cancelled, and the task is canceled once.

        Raises:
            TaskNotFoundError: the caller has no such task.
            TaskNotCancelableError: it has ended already.
        """
        engine, key = self._engine, TaskKey(caller.owner, request.task_id)
        with translated:
            await cancel(engine, key, self.agent_id)
            task = await engine.views.task(key, self.agent_id)
        if task.status.state is not TaskState.CANCELED:
            raise TaskNotCancelableError(details={"taskId": task.id, "state": task.status.state.value})
        if engine.observer is not None:
            engine.observer.canceled(key, self.agent_id, caller)
        return task

    # --- webhooks -----------------------------------------------------------------------------------------------------

    @property
    def deliveries(self) -> DeliveryOperations:
        """The operations on the deliveries to webhooks, which are not part of A2A."""
        return DeliveryOperations(self._engine, self.agent_id)

    async def create_push_config(
        self, request: CreatePushConfigRequest, caller: Caller = ANONYMOUS_CALLER
    ) -> PushConfig:
        """Register a webhook; it comes back with its id. Raises as `Webhooks.create` does."""
        return await self._engine.webhooks.create(request, caller, self.agent_id)

    async def get_push_config(self, request: GetPushConfigRequest, caller: Caller = ANONYMOUS_CALLER) -> PushConfig:
        """A webhook by its id, or the one registered without. Raises TaskNotFoundError."""
        return await self._engine.webhooks.get(request, caller, self.agent_id)

    async def list_push_configs(
        self, request: ListPushConfigsRequest, caller: Caller = ANONYMOUS_CALLER
    ) -> PushConfigPage:
        """All webhooks of a task. Raises TaskNotFoundError."""
        return await self._engine.webhooks.list(request, caller, self.agent_id)

    async def delete_push_config(self, request: DeletePushConfigRequest, caller: Caller = ANONYMOUS_CALLER) -> None:
        """Delete a webhook, if there is one. Raises TaskNotFoundError."""
        await self._engine.webhooks.delete(request, caller, self.agent_id)


def _check_cursor(after: int, last: int) -> None:
    if not 0 <= after <= last:
        raise InvalidParamsError(f"The task has {last} events; there is none with number {after}")


async def _at_most(seconds: float, waiting: Coroutine[None, None, None]) -> None:
    """Wait for something, but no longer than this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
