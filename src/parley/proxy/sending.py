"""Forwards messages to the agent, and provides what its version lacks but the caller's version requires.

That is: ids for tasks that callers name themselves, names where the agent expects callers to choose them, sends that
wait or return at once, a task at the beginning of a stream, and the right error for a task that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.reading.following import Numbered
from parley.engine.reading.paging import cut_history
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    InvalidAgentResponseError,
    InvalidParamsError,
    InvalidRequestError,
    TaskFinishedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.id_mapping import CallerView, IdMapping
from parley.proxy.upstream import Upstream
from parley.proxy.upstream_webhooks import UpstreamWebhook
from parley.proxy.webhook_relay import WebhookRelay

FIRST_POLL_SECONDS = 0.05
"""The time until a new task is polled for the first time."""

MAX_ABANDONED = 1_000
"""Sends that continue after their callers have left."""

FINISHED_ERRORS = (UnsupportedOperationError, InvalidParamsError, InvalidRequestError)
"""How agents refuse a message to a task that has ended: 1.0, a2a-sdk before it, and @a2a-js/sdk before it."""


@dataclass(frozen=True, slots=True)
class ForwardedSend:
    """A caller's request, the request to the agent, and the caller's view of the answer.

    `continued` is the task that it continues, if that was read; `webhook` is the proxy's own, if there is one.
    """

    forwarded: r.SendMessageRequest
    request: r.SendMessageRequest
    view: CallerView
    continued: Task | None = None
    webhook: UpstreamWebhook | None = None


class MessageForwarder:
    """Sends messages to the agent. If there is a `relay`, it replaces the webhooks of the messages."""

    def __init__(self, upstream: Upstream, ids: IdMapping, relay: WebhookRelay | None = None) -> None:
        self._upstream = upstream
        self._ids = ids
        self._relay = relay
        self._running: set[asyncio.Task[Task | Message]] = set()

    def close(self) -> None:
        """Cancel sends whose callers have left."""
        for sending in tuple(self._running):
            sending.cancel()

    async def send(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Send a message and return the result."""
        send = await self._prepare(request, caller)
        try:
            answer = await self._result(send)
        except A2AError as error:
            send = await self._prepare_again(error, send)
            answer = await self._result(send)
        if isinstance(answer, Message):
            return send.view.message(answer)
        return send.view.task(cut_history(answer, request.configuration.history_length))

    async def _result(self, send: ForwardedSend) -> Task | Message:
        async with self._webhook_of(send):
            answer = await self._answer(send)
            await self._answered(send, answer)
            return answer

    async def stream(
        self, request: r.SendMessageRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Numbered]:
        """Send a message and stream the events of its task."""
        send = await self._prepare(request, caller)
        has_begun = False
        try:
            async with aclosing(self._events(send, after)) as events:
                async for numbered in events:
                    has_begun = True
                    yield numbered
            return
        except A2AError as error:
            if has_begun:
                raise
            send = await self._prepare_again(error, send)
        async with aclosing(self._events(send, None)) as events:
            async for numbered in events:
                yield numbered

    async def _events(self, send: ForwardedSend, after: int | None) -> AsyncGenerator[Numbered]:
        is_first = True
        async with self._webhook_of(send):
            send = await self._with_continued(send)
            async with aclosing(self._upstream.follow(send.forwarded, after)) as events:
                async for number, event in events:
                    if is_first:
                        is_first = False
                        await self._answered(send, event)
                        if (snapshot := _missing_snapshot(event, send)) is not None:
                            yield 0, snapshot
                    yield number, send.view.event(event)

    @asynccontextmanager
    async def _webhook_of(self, send: ForwardedSend) -> AsyncGenerator[None]:
        """A block that removes the webhook of the message if it fails."""
        try:
            yield
        except BaseException:
            if self._relay is not None and send.webhook is not None:
                await self._relay.failed(send.webhook, send.request.configuration.push_config)
            raise

    async def _answered(self, send: ForwardedSend, event: StreamEvent) -> None:
        """Tell the relay which task the message belongs to."""
        if self._relay is not None and send.webhook is not None:
            await self._relay.answered(send.webhook, event)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _prepare(self, request: r.SendMessageRequest, caller: Caller) -> ForwardedSend:
        """The request to the agent."""
        forwarded = self._ids.for_tenant(request, caller)
        message = self._ids.for_message(request.message, caller)
        view = self._ids.view(caller, creates=True, context_id=request.message.context_id)
        is_0_1 = self._upstream.version is Version.V0_1
        name, continued = request.message.task_id, None
        if request.caller_names_task:
            view.name = name
            message = structs.replace(message, task_id=self._id_for_name(name, caller))
        elif name is not None:
            message = structs.replace(message, task_id=self._ids.remote_id(name, caller))
            if is_0_1:  # the agent would create a task of that name, or restart the one that has ended
                continued = await self._upstream.read(message.task_id or "", forwarded.tenant)
                if is_terminal(continued.status.state):
                    raise TaskFinishedError.for_task(name, continued.status.state)
        elif is_0_1:
            message = structs.replace(message, task_id=str(uuid4()))
        forwarded = structs.replace(forwarded, message=message, caller_names_task=is_0_1)
        return await self._with_webhook(ForwardedSend(forwarded, request, view, continued))

    def _id_for_name(self, name: str | None, caller: Caller) -> str | None:
        """The agent's id of a task that its caller has named, or a new one if the agent lets callers choose ids."""
        entry = self._ids.ledger.tasks.find(caller, name or "")
        if entry is not None:
            return entry.remote_id
        if self._upstream.version is not Version.V0_1:
            return None
        return str(uuid4()) if self._ids.isolates_callers else name

    async def _with_webhook(self, send: ForwardedSend) -> ForwardedSend:
        """The send with a webhook of the proxy instead of the caller's, if there is a relay."""
        if self._relay is None:
            return send
        forwarded, webhook = await self._relay.replace_webhook(send.forwarded, send.view)
        return replace(send, forwarded=forwarded, webhook=webhook)

    async def _with_continued(self, send: ForwardedSend) -> ForwardedSend:
        """The send with the task that it continues, if the agent's stream will not begin with the task."""
        is_new = send.request.message.task_id is None or send.view.name is not None
        begins_with_task = self._upstream.version is Version.V1_0 or send.view.caller.version is Version.V0_1
        if is_new or begins_with_task or send.continued is not None:
            return send
        # The task does not change while it waits for this message.
        task = await self._upstream.read(send.forwarded.message.task_id or "", send.forwarded.tenant)
        return replace(send, continued=task)

    async def _prepare_again(self, error: A2AError, send: ForwardedSend) -> ForwardedSend:
        """The send of a new task, if the agent has refused to continue one that has ended: in 0.1 that restarts it.

        Raises the error, or the usual one for a task that has ended or is unknown.
        """
        message = send.forwarded.message
        may_be_finished = isinstance(error, (*FINISHED_ERRORS, TaskNotFoundError))
        if message.task_id is None or not may_be_finished or self._upstream.version is Version.V0_1:
            raise error
        context_id = message.context_id
        if not isinstance(error, TaskNotFoundError):
            task = await self._upstream.read(message.task_id, send.forwarded.tenant)
            if not is_terminal(task.status.state):
                raise error
            if send.view.name is None:
                raise TaskFinishedError.for_task(send.request.message.task_id or "", task.status.state) from error
            context_id = task.context_id
        elif send.view.name is None:
            raise TaskNotFoundError.for_task(send.request.message.task_id or "") from error
        message = structs.replace(message, task_id=None, context_id=context_id)
        forwarded = structs.replace(send.forwarded, message=message, configuration=send.request.configuration)
        return await self._with_webhook(replace(send, forwarded=forwarded, webhook=None))

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _answer(self, send: ForwardedSend) -> Task | Message:
        """The agent's answer, at once or when the task is settled, as the caller asked."""
        if self._upstream.version is Version.V0_1:
            if send.forwarded.configuration.return_immediately:
                return await self._new_task(send.forwarded)
        elif send.view.name is not None or self._needs_early_id(send):
            return await self._answer_with_early_id(send)
        answer = await self._upstream.client.send_message(send.forwarded)
        if send.forwarded.configuration.return_immediately:
            return answer
        # Before 1.0 an agent need not wait, and some agents of 1.0 do not.
        return await self._upstream.client.settled(answer, tenant=send.forwarded.tenant)

    async def _new_task(self, forwarded: r.SendMessageRequest) -> Task | Message:
        """A task of a 0.1 agent as soon as it exists. A send of 0.1 always waits, so it continues in the background."""
        sending = self._start(self._upstream.client.send_message(forwarded))
        pause = FIRST_POLL_SECONDS
        while True:
            await asyncio.wait([sending], timeout=pause)
            if sending.done():
                return sending.result()
            with suppress(TaskNotFoundError):
                return await self._upstream.read(forwarded.message.task_id or "", forwarded.tenant)
            pause = min(pause * 2, 1.0)

    def _start(self, send: Coroutine[Any, Any, Task | Message]) -> asyncio.Task[Task | Message]:
        """A send that continues if its caller leaves."""
        sending = asyncio.create_task(send)
        self._running.add(sending)
        sending.add_done_callback(self._finished)
        return sending

    def _finished(self, sending: asyncio.Task[Task | Message]) -> None:
        self._running.discard(sending)
        if not sending.cancelled():
            sending.exception()  # retrieved, or asyncio would log it if the caller has left

    def _needs_early_id(self, send: ForwardedSend) -> bool:
        """Whether a caller that leaves could not find its task again, because its owner was not recorded yet."""
        return self._ids.isolates_callers and not send.forwarded.configuration.return_immediately

    async def _answer_with_early_id(self, send: ForwardedSend) -> Task | Message:
        """The settled task. Its id is recorded when it is created, so that the caller can cancel it by name.

        The send continues if the caller leaves, because an agent of 0.2 would stop its work. There are limits.
        """
        sending = self._start(self._follow(send))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            if len(self._running) > MAX_ABANDONED:
                sending.cancel()
            raise

    async def _follow(self, send: ForwardedSend) -> Task | Message:
        client, last = self._upstream.client, None
        if not client.card.capabilities.streaming:
            configuration = structs.replace(send.forwarded.configuration, return_immediately=True)
            answer = await client.send_message(structs.replace(send.forwarded, configuration=configuration))
            send.view.event(answer)
            return await client.settled(answer, tenant=send.forwarded.tenant)
        async with aclosing(self._upstream.follow(send.forwarded, None)) as events:
            async for _, last in events:
                send.view.event(last)
                await self._answered(send, last)
        match last:
            case Message():
                return last
            case Task():
                return await self._upstream.read(last.id, send.forwarded.tenant)
            case StatusUpdate() | ArtifactUpdate():
                return await self._upstream.read(last.task_id, send.forwarded.tenant)
            case None:
                raise InvalidAgentResponseError("The agent sent no event in reply to a message")


def _missing_snapshot(first: StreamEvent, send: ForwardedSend) -> StreamEvent | None:
    """The task with which a stream must begin, if the agent's begins without: as in 0.1, and with some later agents."""
    if send.view.caller.version is Version.V0_1 or not isinstance(first, StatusUpdate | ArtifactUpdate):
        return None
    if send.continued is not None:
        task = _with_message(send.continued, send.forwarded.message)
        return send.view.task(cut_history(task, send.request.configuration.history_length))
    if send.request.message.task_id is not None:
        return None  # an agent of 1.0 must begin with the task; the proxy has not read it
    status = TaskStatus(TaskState.SUBMITTED)
    return send.view.task(Task(first.task_id, first.context_id, status, history=(send.request.message,)))


def _with_message(task: Task, message: Message) -> Task:
    """A task that waited for input, after it has received a message: its question is part of the history now.

    If the question were still the status, the caller would ask its user again.
    """
    if not is_interrupted(task.status.state):
        return task
    question = task.status.message
    is_new = question is not None and all(known.message_id != question.message_id for known in task.history)
    history = (*task.history, *((question,) if question is not None and is_new else ()), message)
    return structs.replace(task, status=TaskStatus(TaskState.WORKING), history=history)
