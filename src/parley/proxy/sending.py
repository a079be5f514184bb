"""Messages on their way to the agent: what they need to be understood there, and what their senders may expect of it.

What the agent's dialect lacks and a caller's rules demand is made up here, as far as that is possible: ids for tasks
that callers want to name, names for tasks where the agent wants its callers to choose them, a send that waits or does
not, a snapshot at a stream's beginning, the right error for a task that has ended.
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
from parley.engine.following import Numbered
from parley.engine.paging import cut_history
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
from parley.proxy.relay import Inbox, Relay
from parley.proxy.translating import View
from parley.proxy.upstream import Upstream

FIRST_GLANCE_SECONDS = 0.05
"""When to look first for a task that was begun a moment ago."""

MOST_BEHIND = 1_000
"""Sends that go on although nobody waits for them."""

WORDS_FOR_FINISHED = (UnsupportedOperationError, InvalidParamsError, InvalidRequestError)
"""What agents say of a message to a task that has ended: 1.0, a2a-sdk before it, and @a2a-js/sdk before it."""


@dataclass(frozen=True, slots=True)
class Send:
    """A send as the agent understands it, as its caller asked for it, and how that caller sees the outcome.

    `known` is the task that it continues, if it was looked up; `inbox` is where the agent is to tell of it, if it is.
    """

    asked: r.SendMessageRequest
    request: r.SendMessageRequest
    view: View
    known: Task | None = None
    inbox: Inbox | None = None


class Sending:
    """Sends messages to the agent. `relay` takes the webhooks that come with them, if the agent is not to have them."""

    def __init__(self, upstream: Upstream, addressing: Addressing, relay: Relay | None = None) -> None:
        self._upstream = upstream
        self._addressing = addressing
        self._relay = relay
        self._behind: set[asyncio.Task[Task | Message]] = set()

    def close(self) -> None:
        """Wait no longer for sends whose callers have gone on."""
        for sending in tuple(self._behind):
            sending.cancel()

    async def send(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Hand a message on and wait for what the agent makes of it."""
        send = await self._addressed(request, caller)
        try:
            answer = await self._outcome(send)
        except A2AError as error:
            send = await self._reconsidered(error, send)
            answer = await self._outcome(send)
        if isinstance(answer, Message):
            return send.view.message(answer)
        return send.view.task(cut_history(answer, request.configuration.history_length))

    async def _outcome(self, send: Send) -> Task | Message:
        async with self._expecting(send):
            answer = await self._answer(send)
            await self._heard(send, answer)
            return answer

    async def stream(
        self, request: r.SendMessageRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Numbered]:
        """Hand a message on and follow what happens."""
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
            send = await self._reconsidered(error, send)
        async with aclosing(self._events(send, None)) as events:
            async for numbered in events:
                yield numbered

    async def _events(self, send: Send, after: int | None) -> AsyncGenerator[Numbered]:
        is_first = True
        async with self._expecting(send):
            send = await self._with_task(send)
            async with aclosing(self._upstream.follow(send.asked, after)) as events:
                async for number, event in events:
                    if is_first:
                        is_first = False
                        await self._heard(send, event)
                        if (opening := _opening(event, send)) is not None:
                            yield 0, opening
                    yield number, send.view.event(event)

    @asynccontextmanager
    async def _expecting(self, send: Send) -> AsyncGenerator[None]:
        """The inbox of a send that fails is for nobody."""
        try:
            yield
        except BaseException:
            if self._relay is not None and send.inbox is not None:
                await self._relay.give_up(send.inbox, send.request.configuration.push_config)
            raise

    async def _heard(self, send: Send, event: StreamEvent) -> None:
        """The agent says something of the task."""
        if self._relay is not None and send.inbox is not None:
            await self._relay.begin(send.inbox, event)

    # --- what is sent -------------------------------------------------------------------------------------------------

    async def _addressed(self, request: r.SendMessageRequest, caller: Caller) -> Send:
        """The send that the agent understands."""
        asked = self._addressing.of_tenant(request, caller)
        message = self._addressing.of_message(request.message, caller)
        view = self._addressing.view(caller, begins=True, context_id=request.message.context_id)
        is_0_1 = self._upstream.version is Version.V0_1
        name, known = request.message.task_id, None
        if request.caller_names_task:
            view.name = name
            message = structs.replace(message, task_id=self._named(name, caller))
        elif name is not None:
            message = structs.replace(message, task_id=self._addressing.remote_id(name, caller))
            if is_0_1:  # it would begin a task of that name, or begin it again
                known = await self._upstream.read(message.task_id or "", asked.tenant)
                if is_terminal(known.status.state):
                    raise TaskFinishedError.for_task(name, known.status.state)
        elif is_0_1:
            message = structs.replace(message, task_id=str(uuid4()))
        asked = structs.replace(asked, message=message, caller_names_task=is_0_1)
        return await self._expected(Send(asked, request, view, known))

    def _named(self, name: str | None, caller: Caller) -> str | None:
        """The agent's id of a task that its caller names: the one it has, or a new one where callers choose it."""
        entry = self._addressing.ledger.tasks.find(caller, name or "")
        if entry is not None:
            return entry.remote_id
        if self._upstream.version is not Version.V0_1:
            return None
        return str(uuid4()) if self._addressing.keeps_apart else name

    async def _expected(self, send: Send) -> Send:
        """The same send with the proxy's webhook in the place of the caller's, if the proxy is to call that."""
        if self._relay is None:
            return send
        asked, inbox = await self._relay.expect(send.asked, send.view)
        return replace(send, asked=asked, inbox=inbox)

    async def _with_task(self, send: Send) -> Send:
        """The same send with the task that it continues, where the agent's stream will not begin with it."""
        is_new = send.request.message.task_id is None or send.view.name is not None
        begins_with_task = self._upstream.version is Version.V1_0 or send.view.caller.version is Version.V0_1
        if is_new or begins_with_task or send.known is not None:
            return send
        # While the task waits for this message nothing happens to it, so what is read now is what it was.
        task = await self._upstream.read(send.asked.message.task_id or "", send.asked.tenant)
        return replace(send, known=task)

    async def _reconsidered(self, error: A2AError, send: Send) -> Send:
        """What to send instead, after the agent has refused a message: 0.1 begins again what has ended.

        Raises: the reason why not, in the word for it that all dialects know.
        """
        message = send.asked.message
        is_candidate = isinstance(error, (*WORDS_FOR_FINISHED, TaskNotFoundError))
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

    # --- what comes of it ---------------------------------------------------------------------------------------------

    async def _answer(self, send: Send) -> Task | Message:
        """What the agent answers, when its caller wants to have it."""
        if self._upstream.version is Version.V0_1:
            if send.asked.configuration.return_immediately:
                return await self._begun(send.asked)
        elif send.view.name is not None or self._must_be_known(send):
            return await self._known_early(send)
        answer = await self._upstream.client.send_message(send.asked)
        if send.asked.configuration.return_immediately:
            return answer
        # Before 1.0 an agent need not wait, and some of 1.0 do not either; their callers wait all the same.
        return await self._upstream.client.settled(answer, tenant=send.asked.tenant)

    async def _begun(self, asked: r.SendMessageRequest) -> Task | Message:
        """A task of 0.1 as soon as the agent knows it: 0.1 makes callers wait, so the send goes on behind."""
        sending = self._started(self._upstream.client.send_message(asked))
        pause = FIRST_GLANCE_SECONDS
        while True:
            await asyncio.wait([sending], timeout=pause)
            if sending.done():
                return sending.result()
            with suppress(TaskNotFoundError):
                return await self._upstream.read(asked.message.task_id or "", asked.tenant)
            pause = min(pause * 2, 1.0)

    def _started(self, send: Coroutine[Any, Any, Task | Message]) -> asyncio.Task[Task | Message]:
        """A send that goes on when its caller does not wait for it."""
        sending = asyncio.create_task(send)
        self._behind.add(sending)
        sending.add_done_callback(self._has_been_sent)
        return sending

    def _has_been_sent(self, sending: asyncio.Task[Task | Message]) -> None:
        self._behind.discard(sending)
        if not sending.cancelled():
            sending.exception()  # who asked is gone; the task tells what became of it

    def _must_be_known(self, send: Send) -> bool:
        """Whether a caller who leaves could not find its task again, because nothing here says whose it is."""
        return self._addressing.keeps_apart and not send.asked.configuration.return_immediately

    async def _known_early(self, send: Send) -> Task | Message:
        """The task at its end, whose id is learned at its beginning: its caller may cancel it by name meanwhile.

        It is waited for, within bounds, also when its caller is gone: an agent of 0.2 would stop otherwise.
        """
        sending = self._started(self._followed(send))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            if len(self._behind) > MOST_BEHIND:
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
                await self._heard(send, last)
        match last:
            case Message():
                return last
            case Task():
                return await self._upstream.read(last.id, send.asked.tenant)
            case StatusUpdate() | ArtifactUpdate():
                return await self._upstream.read(last.task_id, send.asked.tenant)
            case None:
                raise InvalidAgentResponseError("The agent says nothing to a message")


def _opening(first: StreamEvent, send: Send) -> StreamEvent | None:
    """The snapshot that a stream must begin with, where the agent begins without: in 0.1, and carelessly later."""
    if send.view.caller.version is Version.V0_1 or not isinstance(first, StatusUpdate | ArtifactUpdate):
        return None
    if send.known is not None:
        taken = _with_message(send.known, send.asked.message)
        return send.view.task(cut_history(taken, send.request.configuration.history_length))
    if send.request.message.task_id is not None:
        return None  # an agent of 1.0 that does so is wrong, and what is there already is not known here
    status = TaskStatus(TaskState.SUBMITTED)
    return send.view.task(Task(first.task_id, first.context_id, status, history=(send.request.message,)))


def _with_message(task: Task, message: Message) -> Task:
    """A task that waited, as it is now that the agent has taken a message: what it asked before is history.

    Who would see the old question as the status would ask its user again.
    """
    if not is_interrupted(task.status.state):
        return task
    asked = task.status.message
    is_told = asked is None or any(known.message_id == asked.message_id for known in task.history)
    history = (*task.history, *(() if is_told or asked is None else (asked,)), message)
    return structs.replace(task, status=TaskStatus(TaskState.WORKING), history=history)
