"""Sends messages to the agent, and adds what its dialect lacks and the caller's dialect requires.

That is, as far as possible: ids for tasks that callers name, names for tasks where the agent lets callers choose them,
sends that wait or return at once, the task at the beginning of a stream, the right error for a task that has ended.
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
from parley.proxy.addressing import Addressing
from parley.proxy.caller_view import CallerView
from parley.proxy.upstream import Upstream
from parley.proxy.webhook_relay import NotificationInbox, Relay

FIRST_POLL_SECONDS = 0.05
"""When to poll first for a task that was just started."""

MAX_BACKGROUND = 1_000
"""Sends that go on after their callers have left."""

FINISHED_ERRORS = (UnsupportedOperationError, InvalidParamsError, InvalidRequestError)
"""Errors for a message to a finished task: of 1.0, and of a2a-sdk and @a2a-js/sdk before 1.0."""


@dataclass(frozen=True, slots=True)
class Send:
    """A send as the agent gets it (`asked`), as the caller sent it (`request`), and the caller's view of the result.

    `known` is the task that it continues, if it was read; `inbox` receives the agent's notifications, if any.
    """

    asked: r.SendMessageRequest
    request: r.SendMessageRequest
    view: CallerView
    known: Task | None = None
    inbox: NotificationInbox | None = None


class Sending:
    """Sends messages to the agent. `relay` handles their webhooks, if the agent is not to call them itself."""

    def __init__(self, upstream: Upstream, addressing: Addressing, relay: Relay | None = None) -> None:
        self._upstream = upstream
        self._addressing = addressing
        self._relay = relay
        self._background: set[asyncio.Task[Task | Message]] = set()

    def close(self) -> None:
        """Cancel sends in the background."""
        for sending in tuple(self._background):
            sending.cancel()

    async def send(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Forward a message and wait for the result."""
        send = await self._addressed(request, caller)
        try:
            answer = await self._send_once(send)
        except A2AError as error:
            send = await self._retry_after(error, send)
            answer = await self._send_once(send)
        if isinstance(answer, Message):
            return send.view.message(answer)
        return send.view.task(cut_history(answer, request.configuration.history_length))

    async def _send_once(self, send: Send) -> Task | Message:
        async with self._cleaning_up_inbox(send):
            answer = await self._answer(send)
            await self._notify_relay(send, answer)
            return answer

    async def stream(
        self, request: r.SendMessageRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Numbered]:
        """Forward a message and stream its events."""
        send = await self._addressed(request, caller)
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
            send = await self._retry_after(error, send)
        async with aclosing(self._events(send, None)) as events:
            async for numbered in events:
                yield numbered

    async def _events(self, send: Send, after: int | None) -> AsyncGenerator[Numbered]:
        is_first = True
        async with self._cleaning_up_inbox(send):
            send = await self._with_task(send)
            async with aclosing(self._upstream.follow(send.asked, after)) as events:
                async for number, event in events:
                    if is_first:
                        is_first = False
                        await self._notify_relay(send, event)
                        if (opening := _opening(event, send)) is not None:
                            yield 0, opening
                    yield number, send.view.event(event)

    @asynccontextmanager
    async def _cleaning_up_inbox(self, send: Send) -> AsyncGenerator[None]:
        """Remove the inbox if the send fails."""
        try:
            yield
        except BaseException:
            if self._relay is not None and send.inbox is not None:
                await self._relay.abandon(send.inbox, send.request.configuration.push_config)
            raise

    async def _notify_relay(self, send: Send, event: StreamEvent) -> None:
        """Tell the relay which task the send has started."""
        if self._relay is not None and send.inbox is not None:
            await self._relay.begin(send.inbox, event)

    # --- what is sent -------------------------------------------------------------------------------------------------

    async def _addressed(self, request: r.SendMessageRequest, caller: Caller) -> Send:
        """The send with the agent's ids."""
        asked = self._addressing.of_tenant(request, caller)
        message = self._addressing.of_message(request.message, caller)
        view = self._addressing.view(caller, begins=True, context_id=request.message.context_id)
        is_0_1 = self._upstream.version is Version.V0_1
        name, known = request.message.task_id, None
        if request.caller_names_task:
            view.name = name
            message = structs.replace(message, task_id=self._id_for_name(name, caller))
        elif name is not None:
            message = structs.replace(message, task_id=self._addressing.remote_id(name, caller))
            if is_0_1:  # it would start the task, or restart it
                known = await self._upstream.read(message.task_id or "", asked.tenant)
                if is_terminal(known.status.state):
                    raise TaskFinishedError.for_task(name, known.status.state)
        elif is_0_1:
            message = structs.replace(message, task_id=str(uuid4()))
        asked = structs.replace(asked, message=message, caller_names_task=is_0_1)
        return await self._expected(Send(asked, request, view, known))

    def _id_for_name(self, name: str | None, caller: Caller) -> str | None:
        """The agent's id for a name that the caller chose: the known one, or a new one where callers choose ids."""
        entry = self._addressing.ledger.tasks.find(caller, name or "")
        if entry is not None:
            return entry.remote_id
        if self._upstream.version is not Version.V0_1:
            return None
        return str(uuid4()) if self._addressing.isolates_callers else name

    async def _expected(self, send: Send) -> Send:
        """The same send with the proxy's webhook instead of the caller's, if there is a relay."""
        if self._relay is None:
            return send
        asked, inbox = await self._relay.expect(send.asked, send.view)
        return replace(send, asked=asked, inbox=inbox)

    async def _with_task(self, send: Send) -> Send:
        """The same send with the task that it continues, if the agent's stream does not begin with it."""
        is_new = send.request.message.task_id is None or send.view.name is not None
        begins_with_task = self._upstream.version is Version.V1_0 or send.view.caller.version is Version.V0_1
        if is_new or begins_with_task or send.known is not None:
            return send
        # The task does not change while it waits for this message.
        task = await self._upstream.read(send.asked.message.task_id or "", send.asked.tenant)
        return replace(send, known=task)

    async def _retry_after(self, error: A2AError, send: Send) -> Send:
        """What to send after the agent has refused a message: in 0.1, a finished task is started again.

        Raises the error that all dialects have for the refusal, if there is nothing to send.
        """
        message = send.asked.message
        is_candidate = isinstance(error, (*FINISHED_ERRORS, TaskNotFoundError))
        if message.task_id is None or not is_candidate or self._upstream.version is Version.V0_1:
            raise error
        context_id = message.context_id
        if not isinstance(error, TaskNotFoundError):
            task = await self._upstream.read(message.task_id, send.asked.tenant)
            if not is_terminal(task.status.state):
                raise error
            if send.view.name is None:
                raise TaskFinishedError.for_task(send.request.message.task_id or "", task.status.state) from error
            context_id = task.context_id
        elif send.view.name is None:
            raise TaskNotFoundError.for_task(send.request.message.task_id or "") from error
        message = structs.replace(message, task_id=None, context_id=context_id)
        asked = structs.replace(send.asked, message=message, configuration=send.request.configuration)
        return await self._expected(replace(send, asked=asked, inbox=None))

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _answer(self, send: Send) -> Task | Message:
        """The agent's answer, at the time when the caller wants it."""
        if self._upstream.version is Version.V0_1:
            if send.asked.configuration.return_immediately:
                return await self._started_task(send.asked)
        elif send.view.name is not None or self._must_learn_id_early(send):
            return await self._send_and_learn_id(send)
        answer = await self._upstream.client.send_message(send.asked)
        if send.asked.configuration.return_immediately:
            return answer
        # Agents before 1.0 need not wait, and some of 1.0 do not either, so the proxy waits.
        return await self._upstream.client.settled(answer, tenant=send.asked.tenant)

    async def _started_task(self, asked: r.SendMessageRequest) -> Task | Message:
        """A task of 0.1 as soon as it exists: sends of 0.1 wait, so this one goes on in the background."""
        sending = self._in_background(self._upstream.client.send_message(asked))
        pause = FIRST_POLL_SECONDS
        while True:
            await asyncio.wait([sending], timeout=pause)
            if sending.done():
                return sending.result()
            with suppress(TaskNotFoundError):
                return await self._upstream.read(asked.message.task_id or "", asked.tenant)
            pause = min(pause * 2, 1.0)

    def _in_background(self, send: Coroutine[Any, Any, Task | Message]) -> asyncio.Task[Task | Message]:
        """Start a send that goes on if its caller leaves."""
        sending = asyncio.create_task(send)
        self._background.add(sending)
        sending.add_done_callback(self._on_sent)
        return sending

    def _on_sent(self, sending: asyncio.Task[Task | Message]) -> None:
        self._background.discard(sending)
        if not sending.cancelled():
            sending.exception()  # retrieve it: the caller has left, and can read the task

    def _must_learn_id_early(self, send: Send) -> bool:
        """Whether a caller that disconnects could not find its task again, because the ledger does not have it yet."""
        return self._addressing.isolates_callers and not send.asked.configuration.return_immediately

    async def _send_and_learn_id(self, send: Send) -> Task | Message:
        """The task at its end. Its id is learned at the start, so that the caller can cancel it by name meanwhile.

        The send goes on, within a limit, after the caller has left: an agent of 0.2 would stop otherwise.
        """
        sending = self._in_background(self._followed(send))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            if len(self._background) > MAX_BACKGROUND:
                sending.cancel()
            raise

    async def _followed(self, send: Send) -> Task | Message:
        client, last = self._upstream.client, None
        if not client.card.capabilities.streaming:
            configuration = structs.replace(send.asked.configuration, return_immediately=True)
            answer = await client.send_message(structs.replace(send.asked, configuration=configuration))
            send.view.event(answer)
            return await client.settled(answer, tenant=send.asked.tenant)
        async with aclosing(self._upstream.follow(send.asked, None)) as events:
            async for _, last in events:
                send.view.event(last)
                await self._notify_relay(send, last)
        match last:
            case Message():
                return last
            case Task():
                return await self._upstream.read(last.id, send.asked.tenant)
            case StatusUpdate() | ArtifactUpdate():
                return await self._upstream.read(last.task_id, send.asked.tenant)
            case None:
                raise InvalidAgentResponseError("The agent does not answer a message")


def _opening(first: StreamEvent, send: Send) -> StreamEvent | None:
    """The task that a stream must begin with, if the agent's stream does not: in 0.1, and with some later agents."""
    if send.view.caller.version is Version.V0_1 or not isinstance(first, StatusUpdate | ArtifactUpdate):
        return None
    if send.known is not None:
        taken = _with_message(send.known, send.asked.message)
        return send.view.task(cut_history(taken, send.request.configuration.history_length))
    if send.request.message.task_id is not None:
        return None  # the agent breaks 1.0, and the task is not known here
    status = TaskStatus(TaskState.SUBMITTED)
    return send.view.task(Task(first.task_id, first.context_id, status, history=(send.request.message,)))


def _with_message(task: Task, message: Message) -> Task:
    """A task that waited for input, after the agent has accepted a message: its question moves to the history.

    A caller that saw the old question as the status would ask its user again.
    """
    if not is_interrupted(task.status.state):
        return task
    asked = task.status.message
    is_told = asked is None or any(known.message_id == asked.message_id for known in task.history)
    history = (*task.history, *(() if is_told or asked is None else (asked,)), message)
    return structs.replace(task, status=TaskStatus(TaskState.WORKING), history=history)
