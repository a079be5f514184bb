"""Runs the operations of A2A by calling the agent behind the proxy. Only the ledger is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from msgspec import structs

from parley.client.streams.resuming import ResumableStream
from parley.engine.caller import Caller
from parley.engine.reading.following import Batch, Numbered
from parley.engine.reading.paging import cut_history
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard
from parley.protocol.errors import (
    InvalidAgentResponseError,
    InvalidParamsError,
    MethodNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.proxy.demands import Demands
from parley.proxy.id_mapping import IdMapping
from parley.proxy.listing import TaskLister
from parley.proxy.read_ahead import ReadAheadStreams
from parley.proxy.remote_agent import RemoteAgent
from parley.proxy.remote_webhooks import RemoteWebhooks
from parley.proxy.sending import MessageForwarder
from parley.proxy.upstream import ForwardedRequests, Upstream
from parley.proxy.webhook_relay import WebhookRelay


class RemoteEngine:
    """The operations on the agent's tasks. Without a `relay`, the agent itself calls the webhooks of callers."""

    deliveries: None = None
    """The agent's own, which A2A cannot name, or those of the relay, which are in memory."""

    def __init__(
        self,
        agent: RemoteAgent,
        upstream: Upstream,
        ids: IdMapping,
        relay: WebhookRelay | None = None,
        demands: Demands | None = None,
    ) -> None:
        webhooks = relay or RemoteWebhooks(upstream, ids)
        self.create_push_config = webhooks.create_push_config
        self.get_push_config = webhooks.get_push_config
        self.list_push_configs = webhooks.list_push_configs
        self.delete_push_config = webhooks.delete_push_config
        self._agent = agent
        upstream.traffic.agent = agent.id
        self._upstream = upstream
        self._ids = ids
        self._demands = demands
        self._messages = MessageForwarder(upstream, ids, relay)
        self._streams = ReadAheadStreams()
        self._lister = TaskLister()

    @property
    def runs(self) -> ForwardedRequests:
        """The number of requests that are being forwarded."""
        return self._upstream.traffic

    def agent(self, agent_id: str) -> RemoteEngine:
        """The operations on the tasks of the only agent."""
        return self

    async def __aenter__(self) -> RemoteEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()
        self._messages.close()
        await self._streams.close()

    async def drain(self) -> None:
        """Accept no more work, and end streams with an error that tells readers to subscribe again."""
        self._upstream.is_draining = True
        self._streams.fail(UnavailableError("The proxy is shutting down; subscribe again later"))

    async def send_message(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Send a message to the agent and return its result."""
        with self._upstream.working():
            return await self._messages.send(request, caller)

    def send_streaming_message(
        self, request: r.SendMessageRequest, caller: Caller, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Send a message to the agent and stream the events of its task."""
        # a2a-sdk 0.2 stops the work on a task when its only reader leaves; callers of 1.0 do not expect that.
        to_the_end = self._upstream.version is Version.V0_2
        return self._batches(self._messages.stream(request, caller, after), to_the_end=to_the_end)

    async def get_task(self, request: r.GetTaskRequest, caller: Caller) -> Task:
        """Read a task at the agent."""
        with self._upstream.working():
            task = await self._upstream.client.get_task(self._ids.for_task(request, caller))
            return self._ids.view(caller).task(cut_history(task, request.history_length))

    async def list_tasks(self, request: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        """A page of the agent's list, or of the tasks in the ledger.

        The ledger is used if the agent has no list, or cannot tell callers apart: its totals and page tokens would
        then reveal something about other callers.
        """
        with self._upstream.working():
            forwarded = self._ids.for_list(request, caller)
            page = None if self._ids.isolates_callers else await self._list_at_agent(forwarded)
            if page is None:
                page = await self._list_from_ledger(forwarded, caller)
            shown = tuple(self._ids.view(caller).task(task) for task in page.tasks)
            return structs.replace(page, tasks=shown)

    async def _list_at_agent(self, forwarded: r.ListTasksRequest) -> r.TaskPage | None:
        """A page of the agent's list, or None if it has none, as before 1.0 and with some agents of 1.0."""
        if self._upstream.version not in ops.LIST_TASKS.methods:
            return None
        try:
            return await self._upstream.client.list_tasks(forwarded)
        except (UnsupportedOperationError, MethodNotFoundError):
            return None

    async def _list_from_ledger(self, forwarded: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        def read(remote_id: str) -> Awaitable[Task]:
            request = r.GetTaskRequest(remote_id, forwarded.history_length, tenant=forwarded.tenant)
            return self._upstream.client.get_task(request)

        return await self._lister.page(self._ids.ledger.tasks.remote_ids(caller), read, forwarded)

    async def cancel_task(self, request: r.CancelTaskRequest, caller: Caller) -> Task:
        """Cancel a task."""
        with self._upstream.working():
            task = await self._upstream.client.cancel_task(self._ids.for_task(request, caller))
            if is_terminal(task.status.state) and task.status.state is not TaskState.CANCELED:
                # Some agents answer with the task instead of this error.
                raise TaskNotCancelableError(details={"taskId": request.task_id})
            return self._ids.view(caller).task(task)

    def subscribe_to_task(
        self, request: r.SubscribeToTaskRequest, caller: Caller, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Stream the events of a task."""
        return self._batches(self._subscription(request, caller, after))

    async def _batches(self, events: AsyncGenerator[Numbered], *, to_the_end: bool = False) -> AsyncGenerator[Batch]:
        with self._upstream.working():
            async with aclosing(self._streams.batches(events, to_the_end=to_the_end)) as batches:
                async for batch in batches:
                    yield batch

    async def _subscription(
        self, request: r.SubscribeToTaskRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Numbered]:
        """The events of a task, after a number if the agent numbers them; otherwise the task is the first event.

        A task that has ended gives the error or the last event that the caller's version requires.
        """
        forwarded, view, upstream = self._ids.for_task(request, caller), self._ids.view(caller), self._upstream
        stream = ResumableStream(upstream.client.calls, tenant=forwarded.tenant)
        if after is None or not upstream.has_cursors:
            task = await upstream.read(forwarded.task_id, forwarded.tenant)
            if is_terminal(task.status.state):
                if caller.version is Version.V1_0:
                    raise UnsupportedOperationError("The task has ended; read it instead")
                shown = view.task(task)
                yield 0, StatusUpdate(shown.id, shown.context_id, shown.status)
                return
            if not upstream.has_cursors:  # such an agent may begin with the next event instead of the task
                stream.begin_with(task)
                yield 0, view.task(task)
        try:
            async with aclosing(upstream.follow(forwarded, after, stream)) as events:
                async for number, event in events:
                    yield number, view.event(event)
        except (UnsupportedOperationError, InvalidParamsError, TaskNotFoundError):
            if stream.seen.task_id is None:
                raise
            # The task has ended since it was read.
            for event in stream.seen.difference(await upstream.read(forwarded.task_id, forwarded.tenant)):
                yield 0, view.event(event)

    async def created_in(self, task_id: str, caller: Caller) -> Version | None:
        """The version in which a task was created here, or None if that is unknown."""
        entry = self._ids.ledger.tasks.find(caller, task_id)
        return None if entry is None else entry.created_in

    async def answers_demand(self, request: r.SendMessageRequest, caller: Caller) -> bool:
        """Whether a message for a task answers a demand for authorization that the trace has seen."""
        message = request.message
        if self._demands is None or message.task_id is None:
            return False
        return self._demands.is_answer(self._ids.remote_id(message.task_id, caller), message)

    async def get_extended_card(self, caller: Caller) -> AgentCard:
        """The extended card that the agent returns to this caller."""
        with self._upstream.working():
            # Not with the method of the client, which would use this caller's card for all callers.
            request = self._ids.for_tenant(r.GetExtendedCardRequest(), caller)
            card = await self._upstream.client.calls.call(ops.GET_EXTENDED_CARD, request)
            if not isinstance(card, AgentCard):
                raise InvalidAgentResponseError("The agent behind the proxy did not return an extended card")
            return self._agent.shown(card)
