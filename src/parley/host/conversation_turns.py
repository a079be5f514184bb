"""One request at a time in each conversation; the others wait in the order in which they came.

A conversation is that of the native API, or a context of A2A with one agent. What agents delegate belongs to the
request that they work on and never waits here, so no run waits for itself. A request that has ended, asks its caller or
sleeps lets the next one begin. The order is that of the tasks' creation, so it is the same after a restart. A message
that interrupts comes first, and cancels what is at work.

In a store that several processes share, a request also takes its conversation in the store (`ConversationHolders`), so
that one at a time is at work in all of them. Their order is that of the clocks of the processes that created the tasks.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from parley.agents.delegation.delegation import depth_of
from parley.engine.endings import cancel
from parley.engine.engine import Engine
from parley.engine.reading.views import fold_stored
from parley.engine.runs.run import Run
from parley.host.data.conversation_holders import ConversationHolders, HeldConversation, holder_key
from parley.host.data.conversations import CONTEXT_PREFIX
from parley.host.data.run_requests import RunRequest, RunRequests
from parley.host.orchestration.narration import PREFIX, failure_metadata
from parley.protocol.errors import ParleyError
from parley.protocol.messages import Message
from parley.protocol.tasks import TaskState
from parley.stores.interface import Owner, StoreError, TaskFilter, TaskHead

logger = logging.getLogger(__name__)

ConversationKey: TypeAlias = tuple[Owner, str, str]
"""The owner, the agent (none for a conversation of the native API, in which agents may differ) and the context."""

INTERRUPTED = "interrupted"
"""The error code of a request that a newer message has interrupted."""

INTERRUPTED_TEXT = "The request was interrupted by a newer message."

MOST_ELSEWHERE = 50
"""Requests of one conversation that are looked up in the store: more than one are at work only for a moment."""


def conversation_key(owner: Owner, program_id: str, context_id: str) -> ConversationKey:
    """The conversation that a context is part of."""
    return owner, "" if context_id.startswith(CONTEXT_PREFIX) else program_id, context_id


def conversation_of_run(run: Run) -> ConversationKey | None:
    """The conversation of a run; None if an agent has delegated its work."""
    return None if depth_of(run.message) else conversation_key(run.key.owner, run.program.id, run.context_id)


@dataclass(slots=True, order=True)
class _WaitingRequest:
    does_not_interrupt: bool
    arrived_at: datetime
    task_id: str
    run: Run = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


@dataclass(slots=True)
class _Conversation:
    at_work: Run | None = None
    waiting: list[_WaitingRequest] = field(default_factory=list[_WaitingRequest])
    """The next one first."""

    def has_earlier_than(self, request: _WaitingRequest) -> bool:
        """Whether a request waits that comes before another one, although it arrived later."""
        return bool(self.waiting) and self.waiting[0] < request

    async def line_up_again(self, request: _WaitingRequest) -> None:
        """Let the requests that come before the first one go first; return when it is its turn again."""
        self.at_work = None
        request.turn = asyncio.get_running_loop().create_future()
        insort(self.waiting, request)
        self.admit()
        await request.turn

    def admit(self) -> None:
        """Let the next request begin if none is at work."""
        while self.at_work is None and self.waiting:
            first = self.waiting.pop(0)
            if not first.turn.done():
                self.at_work = first.run
                first.turn.set_result(None)


class ConversationTurns:
    """The conversations of an engine in which requests are at work or wait."""

    def __init__(self, engine: Engine, holders: ConversationHolders, requests: RunRequests) -> None:
        """`holders` and `requests` are of use only in a store that is shared."""
        self._engine = engine
        self._holders = holders
        self._requests = requests
        self._conversations: dict[ConversationKey, _Conversation] = {}
        self._waiting: Counter[str] = Counter()
        self._left: dict[str, asyncio.Event] = {}
        """Set when a request has left its conversation, by the id of the conversation's record, if a request waits."""

    def wake(self, record_id: str = "") -> None:
        """Look again for requests in other processes: one has left its conversation; an empty id may be any of them."""
        for id in [record_id] if record_id else list(self._left):
            left = self._left.pop(id, None)
            if left is not None:
                left.set()

    def waiting(self, tenant: str) -> int:
        """How many requests of a tenant wait."""
        return self._waiting[tenant]

    def request_before(self, run: Run) -> str | None:
        """The task that is at work in the conversation of a run; None if it is the run's own, or there is none."""
        key = conversation_of_run(run)
        conversation = None if key is None else self._conversations.get(key)
        at_work = None if conversation is None else conversation.at_work
        return None if at_work is None or at_work is run else at_work.key.task_id

    def busy_task(self, key: ConversationKey) -> str | None:
        """The task of a conversation that is at work or waits; None if there is none."""
        conversation = self._conversations.get(key)
        if conversation is not None and conversation.at_work is not None:
            return conversation.at_work.key.task_id
        # One that was created a moment ago is not in the conversation yet.
        runs = [run for run in self._engine.runs.all if not run.is_closed and conversation_of_run(run) == key]
        return min(runs, key=lambda run: run.created_at).key.task_id if runs else None

    @asynccontextmanager
    async def entered(self, run: Run, *, interrupts: bool) -> AsyncGenerator[None]:
        """A block in which a run is the only one of its conversation."""
        key = conversation_of_run(run)
        if key is None:
            yield
            return
        conversation = self._conversations.setdefault(key, _Conversation())
        turn = run.loop.create_future()
        waiting = _WaitingRequest(not interrupts, run.created_at, run.key.task_id, run, turn)
        insort(conversation.waiting, waiting)
        try:
            conversation.admit()
            if not turn.done():
                await self._wait(conversation, waiting, key)
            if self._engine.store.is_shared:
                async with self._taken(conversation, waiting, key):
                    yield
            else:
                yield
        finally:
            self._leave(key, conversation, waiting)

    async def _wait(self, conversation: _Conversation, waiting: _WaitingRequest, key: ConversationKey) -> None:
        run, tenant = waiting.run, key[0].tenant
        run.is_queued = True
        self._waiting[tenant] += 1
        try:
            if waiting.does_not_interrupt:
                self._note(conversation, waiting)
            else:
                await self._interrupt(conversation, waiting, key)
            await waiting.turn
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    def _note(self, conversation: _Conversation, waiting: _WaitingRequest) -> None:
        """Say in the log of a task for which one it waits; the first time, if there are several."""
        run, at_work = waiting.run, conversation.at_work
        if at_work is not None:
            _note_queued(run, at_work.key.task_id, conversation.waiting.index(waiting) + 1)

    def _leave(self, key: ConversationKey, conversation: _Conversation, waiting: _WaitingRequest) -> None:
        if conversation.at_work is waiting.run:
            conversation.at_work = None
        elif waiting in conversation.waiting:
            conversation.waiting.remove(waiting)
        conversation.admit()
        if conversation.at_work is None and self._conversations.get(key) is conversation:
            del self._conversations[key]
            self._left.pop(holder_key(*key).id, None)

    # --- interrupting -------------------------------------------------------------------------------------------------

    async def _interrupt(self, conversation: _Conversation, waiting: _WaitingRequest, key: ConversationKey) -> None:
        """Cancel the requests that have begun or were to interrupt, and came earlier. Those that only wait stay."""
        run = waiting.run
        others = [
            other.run
            for other in conversation.waiting
            if _came_earlier(other.run, run) and (not other.does_not_interrupt or other.run.state is TaskState.WORKING)
        ]
        at_work = conversation.at_work
        # A request that slept goes on without a new message, so it does not cancel what came after it.
        if at_work is not None and (not run.is_recovered or _came_earlier(at_work, run)):
            others.append(at_work)
        for other in others:
            await self.interrupt(other, run.key.task_id)
        if run.is_recovered and not self._engine.store.is_shared:
            # They were at work before a restart, and were not taken up yet.
            for head in await self._heads_elsewhere(key):
                if head.state is TaskState.WORKING and head.created_at < run.created_at:
                    with suppress(ParleyError):
                        await cancel(self._engine, head.key, head.agent)

    async def interrupt(self, run: Run, by: str) -> None:
        """Cancel a run because of a newer message, whose task is `by`. It says so."""
        about = {f"{PREFIX}interrupted_by": by}
        run.final_metadata = {**run.final_metadata, **failure_metadata(INTERRUPTED_TEXT, INTERRUPTED), **about}
        run.cancel_text = INTERRUPTED_TEXT
        with suppress(ParleyError):  # it has ended by itself, or its end is written when the store can
            await self._engine.runs.cancel(run)

    # --- other workers ------------------------------------------------------------------------------------------------

    async def busy_elsewhere(self, key: ConversationKey) -> str | None:
        """The task of a conversation that is at work or waits in another process; None if there is none."""
        owner, agent, context_id = key
        busy = await self._holders.task_at_work(owner, agent, context_id)
        if busy is not None:
            return busy
        heads = await self._heads_elsewhere(key)
        return min(heads, key=lambda head: head.created_at).key.task_id if heads else None

    async def was_sent(self, owner: Owner, program_id: str, message: Message) -> bool:
        """Whether a message came before, to any process: it gets its task again, and begins nothing."""
        sends = self._engine.sends
        send = sends.key_of(message, program_id)
        return await self._engine.store.sends.find(owner, send, since=sends.since()) is not None

    @asynccontextmanager
    async def _taken(
        self, conversation: _Conversation, waiting: _WaitingRequest, key: ConversationKey
    ) -> AsyncGenerator[None]:
        """A block in which a run has its conversation in the store, when no other process is at work in it."""
        held = await self._take(conversation, waiting, key)
        try:
            yield
        finally:
            self._engine.in_background(self._let_go(held))

    async def _take(
        self, conversation: _Conversation, waiting: _WaitingRequest, key: ConversationKey
    ) -> HeldConversation:
        run, asked = waiting.run, set[str]()
        while True:
            left = self._left.setdefault(holder_key(*key).id, asyncio.Event())
            try:
                before = await self._task_before(waiting, key)
                held = None if before else await self._holders.take(*key, run.key.task_id)
                if held is not None:
                    return held
                if not run.is_recovered:  # a request that slept does not cancel what came after it
                    before = before or await self._holders.task_at_work(*key)
                if before is not None and not waiting.does_not_interrupt and before not in asked:
                    asked.add(before)
                    await self._ask_to_interrupt(run, before)
            except StoreError as error:
                logger.warning("Task %s waits for its conversation: %s", run.key.task_id, error, extra=run.log_fields)
                before = None
            run.is_queued = True
            if before is not None:
                _note_queued(run, before, 1)
            if conversation.has_earlier_than(waiting):
                # Other processes wait for that one, perhaps with a request that this one waits for.
                await conversation.line_up_again(waiting)
                continue
            with suppress(TimeoutError):
                async with self._engine.clock.timeout(self._engine.limits.poll_seconds):
                    await left.wait()

    async def _task_before(self, waiting: _WaitingRequest, key: ConversationKey) -> str | None:
        """The earliest request of a conversation in other processes that comes before a run; None if there is none.

        A request that interrupts comes before those that wait, and one that had begun before a crash before all others.
        """
        run = waiting.run
        if run.is_recovered and await self._holders.has(*key, run.key.task_id):
            return None
        heads = [
            head
            for head in await self._heads_elsewhere(key)
            if (head.created_at, head.key.task_id) < (run.created_at, run.key.task_id)
            and (waiting.does_not_interrupt or head.state is TaskState.WORKING)
        ]
        return min(heads, key=lambda head: head.created_at).key.task_id if heads else None

    async def _ask_to_interrupt(self, run: Run, task_id: str) -> None:
        """Ask the process that works on a task to cancel it, unless that is this one."""
        tenant = run.key.owner.tenant
        await self._requests.post(RunRequest(tenant=tenant, task_id=task_id, kind="interrupt", by=run.key.task_id))

    async def _let_go(self, held: HeldConversation) -> None:
        with suppress(StoreError):  # the next request finds out that this one has ended
            await self._holders.let_go(held)
        self.wake(held.key.id)

    async def _heads_elsewhere(self, key: ConversationKey) -> list[TaskHead]:
        """Requests of a conversation that are at work or wait, and that no run of this worker is at work on."""
        owner, agent, context_id = key
        tasks, engine = self._engine.store.tasks, self._engine
        found: list[TaskHead] = []
        for state in (TaskState.WORKING, TaskState.SUBMITTED):
            query = TaskFilter(agent=agent or None, context_id=context_id, state=state, limit=MOST_ELSEWHERE)
            found += [
                head
                for head in (await tasks.list(owner, query)).heads
                if head.wake_at is None and engine.runs.find(head.key) is None
            ]
        stored = await tasks.read_many([head.key for head in found], artifacts=False) if found else ()
        return [
            head
            for head, task in zip(found, stored, strict=True)
            if task is not None and not any(map(depth_of, fold_stored(task).history[:1]))
        ]


def _note_queued(run: Run, before: str, position: int) -> None:
    if not run.journal.take_note_named("queued"):
        run.emissions.note("queued", {"waits_for": before, "position": position})


def _came_earlier(one: Run, other: Run) -> bool:
    return (one.created_at, one.key.task_id) < (other.created_at, other.key.task_id)
