"""The engine's operations, each as a call to the agent behind the proxy.

Nothing is stored except in the ledger.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.reading.following import Batch
from parley.engine.reading.paging import cut_history
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard
from parley.protocol.errors import (
    InvalidAgentResponseError,
    MethodNotFoundError,
    TaskNotCancelableError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.proxy.addressing import Addressing
from parley.proxy.listing import Listing
from parley.proxy.read_ahead import ReadAhead
from parley.proxy.remote_agent import RemoteAgent
from parley.proxy.remote_webhooks import RemoteWebhooks
from parley.proxy.sending import Sending
from parley.proxy.subscribing import subscribed
from parley.proxy.upstream import Traffic, Upstream
from parley.proxy.webhook_relay import Relay


class RemoteEngine:
    """The operations of an engine, done by the agent. Without a `relay`, the agent calls callers' webhooks itself."""

    def __init__(
        self, agent: RemoteAgent, upstream: Upstream, addressing: Addressing, relay: Relay | None = None
    ) -> None:
        webhooks = relay or RemoteWebhooks(upstream, addressing)
        self.create_push_config = webhooks.create_push_config
        self.get_push_config = webhooks.get_push_config
        self.list_push_configs = webhooks.list_push_configs
        self.delete_push_config = webhooks.delete_push_config
        self._agent = agent
        upstream.traffic.agent = agent.id
        self._upstream = upstream
        self._addressing = addressing
        self._sending = Sending(upstream, addressing, relay)
        self._streams = ReadAhead()
        self._listing = Listing()

    @property
    def runs(self) -> Traffic:
        """The requests that are being forwarded."""
        return self._upstream.traffic

    def agent(self, agent_id: str) -> RemoteEngine:
        """The operations on the tasks of the one agent there is."""
        return self

    async def __aenter__(self) -> RemoteEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()
        self._sending.close()
        await self._streams.close()

    async def drain(self) -> None:
        """Refuse new requests, and end streams with an error that asks to subscribe again."""
        self._upstream.is_draining = True
        self._streams.cut(UnavailableError("The proxy is being stopped; subscribe again later"))

    async def send_message(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Forward a message and wait for the result."""
        with self._upstream.working():
            return await self._sending.send(request, caller)

    async def send_streaming_message(
        self, request: r.SendMessageRequest, caller: Caller, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Forward a message and stream its events."""
        # a2a-sdk 0.2 stops the work on a task when its only reader goes; no caller of 1.0 would expect that.
        to_the_end = self._upstream.version is Version.V0_2
        with self._upstream.working():
            events = self._sending.stream(request, caller, after)
            async with aclosing(self._streams.batches(events, to_the_end=to_the_end)) as batches:
                async for batch in batches:
                    yield batch

    async def get_task(self, request: r.GetTaskRequest, caller: Caller) -> Task:
        """A task as the agent has it."""
        with self._upstream.working():
            task = await self._upstream.client.get_task(self._addressing.of_task(request, caller))
            return self._addressing.view(caller).task(cut_history(task, request.history_length))

    async def list_tasks(self, request: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        """A page of the agent's list, or of the tasks in the ledger.

        The ledger is used where the agent has no list, and where it sees the proxy as its only caller: its totals and
        page tokens would then reveal tasks of other callers.
        """
        with self._upstream.working():
            asked = self._addressing.of_list(request, caller)
            page = None if self._addressing.isolates_callers else await self._list_at_the_agent(asked)
            if page is None:
                page = await self._list_remembered(asked, caller)
            shown = tuple(self._addressing.view(caller).task(task) for task in page.tasks)
            return structs.replace(page, tasks=shown)

    async def _list_at_the_agent(self, asked: r.ListTasksRequest) -> r.TaskPage | None:
        """A page of the agent's list, or None if it has none: agents before 1.0, and some of 1.0."""
        if self._upstream.version not in ops.LIST_TASKS.methods:
            return None
        try:
            return await self._upstream.client.list_tasks(asked)
        except (UnsupportedOperationError, MethodNotFoundError):
            return None

    async def _list_remembered(self, asked: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        def read(remote_id: str) -> Awaitable[Task]:
            wanted = r.GetTaskRequest(remote_id, asked.history_length, tenant=asked.tenant)
            return self._upstream.client.get_task(wanted)

        return await self._listing.page(self._addressing.ledger.tasks.all_of(caller), read, asked)

    async def cancel_task(self, request: r.CancelTaskRequest, caller: Caller) -> Task:
        """Stop a task."""
        with self._upstream.working():
            task = await self._upstream.client.cancel_task(self._addressing.of_task(request, caller))
            if is_terminal(task.status.state) and task.status.state is not TaskState.CANCELED:
                raise TaskNotCancelableError(details={"taskId": request.task_id})  # some agents return the task instead
            return self._addressing.view(caller).task(task)

    async def subscribe_to_task(
        self, request: r.SubscribeToTaskRequest, caller: Caller, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Follow a task."""
        with self._upstream.working():
            events = subscribed(self._upstream, self._addressing, request, caller, after)
            async with aclosing(self._streams.batches(events)) as batches:
                async for batch in batches:
                    yield batch

    async def created_in(self, task_id: str, caller: Caller) -> Version | None:
        """The version in which a task was started here, if it is known."""
        entry = self._addressing.ledger.tasks.find(caller, task_id)
        return None if entry is None else entry.created_in

    async def get_extended_card(self, caller: Caller) -> AgentCard:
        """The card that the agent shows to this caller."""
        with self._upstream.working():
            # Not with the client's method, which would make this caller's card the card of all.
            request = self._addressing.of_tenant(r.GetExtendedCardRequest(), caller)
            card = await self._upstream.client.calls.call(ops.GET_EXTENDED_CARD, request)
            if not isinstance(card, AgentCard):
                raise InvalidAgentResponseError("The agent behind the proxy does not return its extended card")
            return self._agent.shown(card)
