"""The agents that a handler delegates to: at a URL, behind a client of the author, or on the same server.

A peer takes messages and shows tasks as streams of events; delegation sees no difference between a call over the
network and one inside the engine. Clients by URL are opened once for each engine and closed when it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct, structs

from parley.ai_catalog.names import is_catalog_name, named_in_catalog
from parley.engine.caller import Caller
from parley.protocol.errors import LocalProtocolError, ParleyError, UnavailableError, UnsupportedOperationError
from parley.protocol.events import StreamEvent
from parley.protocol.messages import Message
from parley.protocol.requests import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import Owner

if TYPE_CHECKING:
    from parley.client.client import Client
    from parley.engine.engine import Engine
    from parley.engine.operations import AgentOperations
    from parley.engine.reading.following import Follower

OPEN_STATES = (TaskState.SUBMITTED, TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
"""The states of tasks that have not ended, in the order in which a task that begins is in them."""

MOST_GIVEN = 10_000
"""Pairs of an owner and an agent for which clients of handlers are remembered: about 2 MB."""

OtherAgent: TypeAlias = "str | Client"
"""Another agent as authors name it: its URL, its id or name on the same server, or a client."""

FindRemote: TypeAlias = "Callable[[str, Caller], Awaitable[OtherAgent | None]]"
"""Finds the agent elsewhere that a name means to a caller: by its URL or a client. None: there is none."""


def names_in(catalog: str) -> FindRemote:
    """Finds names in an AI Catalog, which is read when a name is called for the first time."""

    async def find(name: str, caller: Caller) -> OtherAgent:
        from parley.client.discovery.catalog_reader import catalog_url  # not above: see `_open`

        return named_in_catalog(catalog_url(catalog), name)

    return find


def name_of(agent: OtherAgent) -> str:
    """The agent in the log and in errors: its URL, or its name on this server."""
    return agent if isinstance(agent, str) else agent.target


class Peer(Protocol):
    """Another agent, however it is called."""

    @property
    def is_local(self) -> bool:
        """Whether it is on the same server."""
        ...

    def is_repeat(self, seconds: float) -> bool:
        """Whether a message that was sent so long ago, sent again, gets the same task."""
        ...

    def send(self, message: Message) -> AsyncGenerator[StreamEvent]:
        """Send a message, and stream its task until it ends or waits for input."""
        ...

    def follow(self, task_id: str) -> AsyncGenerator[StreamEvent]:
        """A task as it is now, and its events from then on. Of a task that has ended, only the task."""
        ...

    def open_tasks(self, context_id: str | None) -> AsyncGenerator[Task]:
        """The caller's tasks that have not ended, of one context if it is known, without artifacts."""
        ...

    async def cancel(self, task_id: str) -> None:
        """Cancel a task."""
        ...


class RemotePeer:
    """An agent that is called over the network."""

    is_local = False

    def __init__(self, client: Client) -> None:
        self._client = client

    def is_repeat(self, seconds: float) -> bool:
        """Whether a message that was sent so long ago, sent again, gets the same task."""
        return self._client.calls.is_repeat(seconds)

    def send(self, message: Message) -> AsyncGenerator[StreamEvent]:
        """Send a message, and stream its task until it ends or waits for input."""
        return self._client.send_streaming_message(SendMessageRequest(message))

    def follow(self, task_id: str) -> AsyncGenerator[StreamEvent]:
        """A task as it is now, and its events from then on."""
        return self._client.subscribe_to_task(SubscribeToTaskRequest(task_id))

    async def open_tasks(self, context_id: str | None) -> AsyncGenerator[Task]:
        """The caller's tasks that have not ended, of one context if it is known."""
        for state in OPEN_STATES:
            async with aclosing(self._client.list(context=context_id, state=state)) as tasks:
                async for task in tasks:
                    yield task

    async def cancel(self, task_id: str) -> None:
        """Cancel a task."""
        await self._client.cancel_task(CancelTaskRequest(task_id))


class LocalPeer:
    """An agent of the same engine, called as the caller of the task that delegates."""

    is_local = True

    def __init__(self, engine: Engine, agent: AgentOperations, caller: Caller) -> None:
        self._engine = engine
        self._agent = agent
        self._caller = structs.replace(caller, version=Version.V1_0)

    def is_repeat(self, seconds: float) -> bool:
        """Whether a message that was sent so long ago, sent again, gets the same task."""
        return seconds < self._engine.limits.idempotency_seconds

    async def send(self, message: Message) -> AsyncGenerator[StreamEvent]:
        """Send a message, and stream its task until it ends or waits for input."""
        follower = self._agent.send_streaming_message(SendMessageRequest(message), self._caller)
        async with aclosing(self._events(follower)) as events:
            async for event in events:
                yield event

    async def follow(self, task_id: str) -> AsyncGenerator[StreamEvent]:
        """A task as it is now, and its events from then on."""
        follower = self._agent.subscribe_to_task(SubscribeToTaskRequest(task_id), self._caller)
        try:
            async with aclosing(self._events(follower)) as events:
                async for event in events:
                    yield event
        except UnsupportedOperationError:  # it has ended
            yield await self._agent.get_task(GetTaskRequest(task_id), self._caller)

    async def open_tasks(self, context_id: str | None) -> AsyncGenerator[Task]:
        """The caller's tasks that have not ended, of one context if it is known."""
        for state in OPEN_STATES:
            token: str | None = None
            while token != "":
                page = await self._agent.list_tasks(ListTasksRequest(context_id, state, page_token=token), self._caller)
                for task in page.tasks:
                    yield task
                token = page.next_page_token

    async def _events(self, follower: Follower) -> AsyncGenerator[StreamEvent]:
        try:
            async with aclosing(follower):
                async for batch in follower:
                    for _, event in batch:
                        yield event
        except UnavailableError:
            if not self._engine.runs.is_stopping:
                raise
            await asyncio.Event().wait()  # the task that delegates is cut off, too, and goes on at the next start

    async def cancel(self, task_id: str) -> None:
        """Cancel a task."""
        await self._agent.cancel_task(CancelTaskRequest(task_id), self._caller)


class _OpenedClient(Struct):
    """A client that was opened for delegations, or is being opened."""

    opening: asyncio.Task[Client]
    used_at: float


class Peers:
    """The agents to which the agents of one engine delegate."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.find_remote: FindRemote | None = None
        """Asked for names that no agent of this server has; None: they mean no agent."""
        self._opened: dict[OtherAgent, _OpenedClient] = {}
        self._given: WeakValueDictionary[tuple[Owner, str], Client] = WeakValueDictionary()
        """The clients that handlers gave, by the owner of their task and the URL. They may have the owner's secrets."""

    async def find(self, agent: OtherAgent, caller: Caller) -> Peer:
        """The agent that a handler names, for a task of this caller.

        Raises:
            LocalProtocolError: no agent on this server or in its catalogue has the name, and it is not a URL.
            ClientError, PeerProtocolError: it cannot be found at its URL.
        """
        if isinstance(agent, str):
            local = self._engine.find_named(agent, caller)
            if local is not None:
                return LocalPeer(self._engine, self._engine.agent(local), caller)
            if is_catalog_name(agent):
                agent = await self._elsewhere(agent, caller)
        else:
            if len(self._given) >= MOST_GIVEN:
                self._given.clear()
            self._given[caller.owner, name_of(agent)] = agent
            if agent.is_open:
                return RemotePeer(agent)
        return RemotePeer(await self._client(agent))

    def named_in_log(self, name: str, owner: Owner) -> OtherAgent:
        """The agent that the log of an owner's task names: the client by which it was called, if that is still here."""
        return self._given.get((owner, name), name)

    async def _elsewhere(self, name: str, caller: Caller) -> OtherAgent:
        """The agent elsewhere that a name means. Raises LocalProtocolError if there is none."""
        found = None if self.find_remote is None else await self.find_remote(name, caller)
        if found is not None:
            return found
        known = "; there are: " + ", ".join(ids) if (ids := self._engine.public_ids) else ""
        raise LocalProtocolError(f"No agent on this server is called {name!r}{known}. Or give a URL.")

    # --- clients ------------------------------------------------------------------------------------------------------

    async def _client(self, agent: OtherAgent) -> Client:
        """An open client, which stays open for others."""
        now = self._engine.clock.monotonic()
        opened = self._opened.get(agent)
        if opened is None:
            self._close_unused(now)
            opening = asyncio.get_running_loop().create_task(_open(agent))
            opened = self._opened[agent] = _OpenedClient(opening, now)
            opening.add_done_callback(partial(self._forget_failed, agent))
        opened.used_at = now
        return await asyncio.shield(opened.opening)

    def _forget_failed(self, agent: OtherAgent, opening: asyncio.Task[Client]) -> None:
        """Let the next delegation try again, if a client could not be opened."""
        if opening.cancelled() or opening.exception() is not None:
            self._opened.pop(agent, None)

    def _close_unused(self, now: float) -> None:
        """Close the clients that no delegation can use any more, because no run lasts so long."""
        longest = self._engine.limits.run_seconds
        unused = [
            agent for agent, opened in self._opened.items() if longest is not None and now - opened.used_at > longest
        ]
        for agent in unused:
            self._engine.in_background(_close(self._opened.pop(agent)))

    async def close(self) -> None:
        """Close the clients that were opened here."""
        for opened in tuple(self._opened.values()):
            await _close(opened)


async def _open(agent: OtherAgent) -> Client:
    from parley.client.client import Client  # not above: an agent that calls no other needs no HTTP client

    return await (Client(agent) if isinstance(agent, str) else agent.copy()).__aenter__()


async def _close(opened: _OpenedClient) -> None:
    opened.opening.cancel()  # if it is not open yet
    with suppress(asyncio.CancelledError, ParleyError):
        client = await opened.opening
        await client.__aexit__(None, None, None)
