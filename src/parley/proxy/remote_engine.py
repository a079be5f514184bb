"""The engine's verbs, done by an agent elsewhere: each is a call of it, in its dialect and over its binding.

What the agent's dialect lacks and a caller's rules demand is made up here, as far as that is possible: a snapshot at a
stream's beginning, the right error for a task that has ended, ids for tasks that callers want to name, and names for
tasks where the agent wants its callers to choose them. Nothing is stored but what the ledger holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar
from uuid import uuid4

from msgspec import structs

from parley.client.client import Client
from parley.client.resuming import Following
from parley.engine.caller import Caller
from parley.engine.paging import cut_history
from parley.engine.views import Batch, Numbered
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard
from parley.protocol.errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    InvalidParamsError,
    TaskFinishedError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.ledger import Ledger
from parley.proxy.listing import list_remembered
from parley.proxy.remote_agent import RemoteAgent
from parley.proxy.translating import View, translated_errors
from parley.server.cursor import CURSOR

R = TypeVar("R", bound=r.Request)
T = TypeVar(
    "T",
    r.GetTaskRequest,
    r.CancelTaskRequest,
    r.SubscribeToTaskRequest,
    r.CreatePushConfigRequest,
    r.GetPushConfigRequest,
    r.ListPushConfigsRequest,
    r.DeletePushConfigRequest,
)

FIRST_GLANCE_SECONDS = 0.05
"""When to look first for a task that was begun a moment ago."""

READ_AHEAD = 256
"""Events of one stream that wait for their reader. When there are more, the agent has to wait."""

DEFAULT_ID = "default"
"""What some peers call the webhook that was registered without an id."""


class Mark(Enum):
    """What a stream's queue says besides events and errors: that this is all for now, and that it is all."""

    NOW = "now"
    EVER = "ever"


Item = Numbered | BaseException | Mark


@dataclass(slots=True)
class Traffic:
    """What is under way. `waiting` is always nothing: the agent has the queue."""

    working: int = 0
    waiting: int = 0


class RemoteEngine:
    """An agent elsewhere with the verbs of an engine. `client` is open for as long as this is used.

    `are_credentials_ours` says that the agent sees one caller, the proxy, whoever calls: each caller is then kept to
    the tasks that it has begun here.
    """

    def __init__(
        self,
        agent: RemoteAgent,
        client: Client,
        *,
        are_credentials_ours: bool = False,
        keeps_apart: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        self.program = agent
        self.webhooks = RemoteWebhooks(self)
        self.runs = Traffic()
        self.ledger = ledger or Ledger()
        self.client = client
        self._are_credentials_ours = are_credentials_ours
        self._keeps_apart = keeps_apart
        self._has_cursors = any(extension.uri == CURSOR.uri for extension in agent.extensions)
        self._is_draining = False
        self._sending: set[asyncio.Task[Task | Message]] = set()
        self._pumps: set[asyncio.Queue[Item]] = set()

    async def __aenter__(self) -> RemoteEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()
        for sending in tuple(self._sending):
            sending.cancel()

    async def drain(self) -> None:
        """Take no more work, and end streams with an error that says to come back."""
        self._is_draining = True
        for pump in self._pumps:
            while not pump.empty():
                pump.get_nowait()
            pump.put_nowait(UnavailableError("The proxy is being stopped; subscribe again later"))

    # --- the verbs ----------------------------------------------------------------------------------------------------

    async def send_message(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Hand a message on and wait for what the agent makes of it."""
        with self.working():
            asked, view, _ = await self._addressed_send(request, caller)
            try:
                answer = await self._send(asked)
            except A2AError as error:
                asked = await self._reconsidered(error, asked, view)
                answer = await self.client.send_message(asked)
            if isinstance(answer, Message):
                return view.message(answer)
            return view.task(cut_history(answer, request.configuration.history_length))

    async def send_streaming_message(
        self, request: r.SendMessageRequest, caller: Caller, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Hand a message on and follow what happens."""
        with self.working():
            async with aclosing(self._pumped(self._send_and_follow(request, caller, after))) as batches:
                async for batch in batches:
                    yield batch

    async def get_task(self, request: r.GetTaskRequest, caller: Caller) -> Task:
        """A task as the agent has it."""
        with self.working():
            task = await self.client.get_task(self.addressed(request, caller))
            return View(caller, self.ledger).task(cut_history(task, request.history_length))

    async def list_tasks(self, request: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        """A page of tasks as the agent lists them; only the caller's own where the agent cannot tell callers apart."""
        with self.working():
            asked = self._with_tenant(request, caller)
            if self.version not in ops.LIST_TASKS.methods:
                page = await self._list_remembered(asked, caller)
            else:
                page = await self.client.list_tasks(asked)
            tasks = page.tasks
            if self._keeps_apart:
                tasks = tuple(task for task in tasks if self.ledger.owns(caller, task.id))
            total = page.total_size - (len(page.tasks) - len(tasks))
            shown = tuple(View(caller, self.ledger).task(task) for task in tasks)
            return structs.replace(page, tasks=shown, total_size=total)

    async def _list_remembered(self, asked: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        def read(remote_id: str) -> Awaitable[Task]:
            return self.client.get_task(r.GetTaskRequest(remote_id, asked.history_length, tenant=asked.tenant))

        return await list_remembered(self.ledger.tasks_of(caller), read, asked)

    async def cancel_task(self, request: r.CancelTaskRequest, caller: Caller) -> Task:
        """Stop a task."""
        with self.working():
            return View(caller, self.ledger).task(await self.client.cancel_task(self.addressed(request, caller)))

    async def subscribe_to_task(
        self, request: r.SubscribeToTaskRequest, caller: Caller, *, after: int | None = None
    ) -> AsyncGenerator[Batch]:
        """Follow a task."""
        with self.working():
            async with aclosing(self._pumped(self._subscribed(request, caller, after))) as batches:
                async for batch in batches:
                    yield batch

    async def created_in(self, task_id: str, caller: Caller) -> Version | None:
        """The dialect in which a task was begun here, if that is remembered."""
        entry = self.ledger.find(caller, task_id)
        return None if entry is None else entry.created_in

    async def get_extended_card(self, caller: Caller) -> AgentCard:
        """The card that the agent shows to this caller."""
        with self.working():
            # Not by the client's own verb: what one caller may see must not become the card of all.
            request = r.GetExtendedCardRequest(caller.tenant or self.client.interface.tenant)
            card = await self.client.calls.call(ops.GET_EXTENDED_CARD, request)
            if not isinstance(card, AgentCard):
                raise InvalidAgentResponseError("The agent behind the proxy has no extended card where it says so")
            return self.program.shown(card)

    # --- requests, as the agent needs them ----------------------------------------------------------------------------

    @contextmanager
    def working(self) -> Generator[None]:
        """Something is under way; what goes wrong on the way to the agent becomes an error that callers know."""
        if self._is_draining:
            raise UnavailableError("The proxy is being stopped")
        self.runs.working += 1
        try:
            with translated_errors(are_credentials_ours=self._are_credentials_ours):
                yield
        finally:
            self.runs.working -= 1

    @property
    def version(self) -> Version:
        """The dialect of the agent."""
        return self.client.calls.transport.version

    def addressed(self, request: T, caller: Caller) -> T:
        """A request about a task, with the agent's id of it.

        Raises:
            TaskNotFoundError: it is another caller's.
        """
        name: str = request.task_id
        entry = self.ledger.find(caller, name)
        if entry is None and self._keeps_apart:
            raise TaskNotFoundError.for_task(name)
        return structs.replace(self._with_tenant(request, caller), task_id=entry.remote_id if entry else name)

    def _with_tenant(self, request: R, caller: Caller) -> R:
        """The request with the tenant that the agent knows."""
        fixed, wanted = self.client.interface.tenant, caller.tenant or None
        if wanted is not None and (self.version is not Version.V1_0 or fixed not in (None, wanted)):
            raise InvalidParamsError("The agent behind the proxy does not have this tenant", path="$.tenant")
        return structs.replace(request, tenant=wanted or fixed)

    async def _addressed_send(
        self, request: r.SendMessageRequest, caller: Caller
    ) -> tuple[r.SendMessageRequest, View, Task | None]:
        """The send that the agent understands, how its caller sees the outcome, and the task if it was looked up."""
        message = request.message
        view = View(caller, self.ledger, context_id=message.context_id)
        asked = self._with_tenant(request, caller)
        known = None
        if request.caller_names_task:
            view.name = message.task_id
            if self.version is Version.V0_1:
                return asked, view, None
            entry = self.ledger.find(caller, message.task_id or "")
            message = structs.replace(message, task_id=entry.remote_id if entry else None)
        elif message.task_id is not None:
            named = self.addressed(r.GetTaskRequest(message.task_id), caller)
            message = structs.replace(message, task_id=named.task_id)
            if self.version is Version.V0_1:  # it would begin a task of that name, or begin it again
                known = await self.client.get_task(named)
                if is_terminal(known.status.state):
                    raise TaskFinishedError.for_task(request.message.task_id or "", known.status.state)
        elif self.version is Version.V0_1:
            message = structs.replace(message, task_id=str(uuid4()))
        names_task = self.version is Version.V0_1
        return structs.replace(asked, message=message, caller_names_task=names_task), view, known

    async def _reconsidered(self, error: A2AError, asked: r.SendMessageRequest, view: View) -> r.SendMessageRequest:
        """What to send instead, after the agent has refused a message: 0.1 begins again what has ended.

        Raises: the reason why not, in the word for it that all dialects know.
        """
        task_id = asked.message.task_id
        is_candidate = isinstance(error, UnsupportedOperationError | InvalidParamsError | TaskNotFoundError)
        if task_id is None or not is_candidate or self.version is Version.V0_1:
            raise error
        context_id: str | None = asked.message.context_id
        if not isinstance(error, TaskNotFoundError):
            task = await self.client.get_task(r.GetTaskRequest(task_id, tenant=asked.tenant))
            if not is_terminal(task.status.state):
                raise error
            if view.name is None:
                raise TaskFinishedError.for_task(task_id, task.status.state) from error
            context_id = task.context_id
        elif view.name is None:
            raise error
        message = structs.replace(asked.message, task_id=None, context_id=context_id)
        return structs.replace(asked, message=message)

    async def _send(self, asked: r.SendMessageRequest) -> Task | Message:
        """Send a message. 0.1 always makes callers wait; for one that will not, the send goes on behind."""
        if self.version is not Version.V0_1 or not asked.configuration.return_immediately:
            return await self.client.send_message(asked)
        sending = asyncio.create_task(self.client.send_message(asked))
        self._sending.add(sending)
        sending.add_done_callback(self._has_been_sent)
        pause = FIRST_GLANCE_SECONDS
        while True:
            await asyncio.wait([sending], timeout=pause)
            if sending.done():
                return sending.result()
            with suppress(TaskNotFoundError):
                return await self.client.get_task(r.GetTaskRequest(asked.message.task_id or "", tenant=asked.tenant))
            pause = min(pause * 2, 1.0)

    def _has_been_sent(self, sending: asyncio.Task[Task | Message]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # who asked is gone; the task tells what became of it

    # --- streams ------------------------------------------------------------------------------------------------------

    async def _send_and_follow(
        self, request: r.SendMessageRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Numbered]:
        asked, view, known = await self._addressed_send(request, caller)
        has_begun = False
        try:
            async with aclosing(self._followed(ops.SEND_STREAMING_MESSAGE, asked, after)) as events:
                async for number, event in events:
                    if not has_begun and (opening := self._opening(event, request, known, view)) is not None:
                        yield 0, opening
                    has_begun = True
                    yield number, view.event(event)
        except A2AError as error:
            if has_begun:
                raise
            asked = await self._reconsidered(error, asked, view)
            async with aclosing(self._followed(ops.SEND_STREAMING_MESSAGE, asked, None)) as events:
                async for number, event in events:
                    yield number, view.event(event)

    def _opening(
        self, first: StreamEvent, request: r.SendMessageRequest, known: Task | None, view: View
    ) -> StreamEvent | None:
        """The snapshot that a stream must begin with, where the agent begins without: in 0.1, and carelessly later."""
        if view.caller.version is Version.V0_1 or not isinstance(first, StatusUpdate | ArtifactUpdate):
            return None
        if known is not None:
            return view.task(known)
        if request.message.task_id is not None:
            return None  # what is there already is not known here
        status = TaskStatus(TaskState.SUBMITTED)
        return view.task(Task(first.task_id, first.context_id, status, history=(request.message,)))

    async def _subscribed(
        self, request: r.SubscribeToTaskRequest, caller: Caller, after: int | None
    ) -> AsyncGenerator[Numbered]:
        asked = self.addressed(request, caller)
        view = View(caller, self.ledger)
        following = Following(self.client.calls, tenant=asked.tenant)
        if after is None or not self._has_cursors:
            task = await self._read(asked)
            if is_terminal(task.status.state):
                if caller.version is Version.V1_0:
                    raise UnsupportedOperationError("The task has ended; read it instead")
                shown = view.task(task)
                yield 0, StatusUpdate(shown.id, shown.context_id, shown.status)
                return
            if not self._has_cursors:  # who has none may also begin without a snapshot, and with the next event
                following.begin_with(task)
                yield 0, view.task(task)
        try:
            async with aclosing(self._followed(ops.SUBSCRIBE_TO_TASK, asked, after, following)) as events:
                async for number, event in events:
                    yield number, view.event(event)
        except (UnsupportedOperationError, InvalidParamsError, TaskNotFoundError):
            if following.seen.task_id is None:
                raise
            for event in following.seen.difference(await self._read(asked)):  # it has ended in between
                yield 0, view.event(event)

    async def _read(self, asked: r.SubscribeToTaskRequest) -> Task:
        return await self.client.get_task(r.GetTaskRequest(asked.task_id, tenant=asked.tenant))

    async def _followed(
        self, operation: Operation, request: r.Request, after: int | None, following: Following | None = None
    ) -> AsyncGenerator[Numbered]:
        """The agent's events with the numbers that it gives them, and 0 if it gives none."""
        following = following or Following(self.client.calls, tenant=request.tenant)
        cursor = str(after) if after is not None and self._has_cursors else None
        async with aclosing(following.events(operation, request, after=cursor)) as events:
            async for event in events:
                yield _number(following.cursor) if self._has_cursors else 0, event

    async def _pumped(self, events: AsyncGenerator[Numbered]) -> AsyncGenerator[Batch]:
        """The events in batches, read ahead of their reader, until the proxy is stopped."""
        queue: asyncio.Queue[Item] = asyncio.Queue(READ_AHEAD)

        async def pump() -> None:
            try:
                async with aclosing(events):
                    async for event in events:
                        await queue.put(event)
                await queue.put(Mark.EVER)
            except Exception as error:  # it goes on where the reader is
                await queue.put(error)

        self._pumps.add(queue)
        task = asyncio.create_task(pump())
        try:
            while True:
                item = await queue.get()
                batch: Batch = []
                while isinstance(item, tuple):
                    batch.append(item)
                    item = Mark.NOW if queue.empty() else queue.get_nowait()
                if batch:
                    yield batch
                if isinstance(item, BaseException):
                    raise item
                if item is Mark.EVER:
                    return
        finally:
            self._pumps.discard(queue)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class RemoteWebhooks:
    """The operations on webhooks. The agent calls them itself, in its own dialect."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook at the agent."""
        with self._engine.working():
            asked = self._engine.addressed(request, caller)
            config = structs.replace(asked.config, task_id=asked.task_id)
            answer = await self._engine.client.create_push_config(structs.replace(asked, config=config))
            return structs.replace(answer, task_id=request.task_id)

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook; the one without an id is looked for where the agent's dialect demands an id."""
        with self._engine.working():
            asked = self._engine.addressed(request, caller)
            if request.id in (None, DEFAULT_ID) and self._engine.version is Version.V1_0:
                found = await self._find_unnamed(asked)
            else:
                found = await self._get(asked)
            return structs.replace(found, task_id=request.task_id)

    async def _get(self, asked: r.GetPushConfigRequest) -> PushConfig:
        try:
            return await self._engine.client.get_push_config(asked)
        except InternalError as error:
            # What a2a-sdk 0.3 says of a webhook that is not there.
            listing = r.ListPushConfigsRequest(asked.task_id, tenant=asked.tenant)
            configs = (await self._engine.client.list_push_configs(listing)).configs
            if any(config.id == asked.id for config in configs):
                raise
            raise _no_webhook(asked) from error

    async def _find_unnamed(self, asked: r.GetPushConfigRequest) -> PushConfig:
        listing = r.ListPushConfigsRequest(asked.task_id, tenant=asked.tenant)
        configs = (await self._engine.client.list_push_configs(listing)).configs
        for config in configs:
            if config.id in (asked.task_id, DEFAULT_ID, None):
                return config
        if len(configs) == 1:
            return configs[0]  # whatever id the agent has given it
        raise _no_webhook(asked)

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """Read all webhooks of a task."""
        with self._engine.working():
            page = await self._engine.client.list_push_configs(self._engine.addressed(request, caller))
            configs = tuple(structs.replace(config, task_id=request.task_id) for config in page.configs)
            return structs.replace(page, configs=configs)

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove a webhook."""
        with self._engine.working():
            await self._engine.client.delete_push_config(self._engine.addressed(request, caller))


def _no_webhook(asked: r.GetPushConfigRequest) -> TaskNotFoundError:
    return TaskNotFoundError(f"The task has no webhook {asked.id or DEFAULT_ID!r}", details={"taskId": asked.task_id})


def _number(cursor: str | None) -> int:
    """The number that a cursor is; a stream's reader can come back with nothing else."""
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) <= 15 else 0
