"""One request at a time in each conversation; the others wait in the order in which they came.

A conversation is that of the native API, or a context of A2A with one agent. What agents delegate belongs to the
request that they work on and never waits here, so no run waits for itself. A request that has ended, asks its caller or
sleeps lets the next one begin. The order is that of the tasks' creation, so it is the same after a restart. A message
that interrupts comes first, and cancels what is at work.
"""

from __future__ import annotations

import asyncio
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
from parley.host.data.conversations import CONTEXT_PREFIX
from parley.host.orchestration.narration import PREFIX, failure_metadata
from parley.protocol.errors import ParleyError
from parley.protocol.tasks import TaskState
from parley.stores.interface import Owner, TaskFilter, TaskHead

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

    def admit(self) -> None:
        """Let the next request begin if none is at work."""
        while self.at_work is None and self.waiting:
            first = self.waiting.pop(0)
            if not first.turn.done():
                self.at_work = first.run
                first.turn.set_result(None)


class ConversationTurns:
    """The conversations of an engine in which requests are at work or wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conversations: dict[ConversationKey, _Conversation] = {}
        self._waiting: Counter[str] = Counter()

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
                await self._wait_for_other_workers(run, key)
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
        if at_work is not None and not run.journal.take_note_named("queued"):
            place = conversation.waiting.index(waiting) + 1
            run.emissions.note("queued", {"waits_for": at_work.key.task_id, "position": place})

    def _leave(self, key: ConversationKey, conversation: _Conversation, waiting: _WaitingRequest) -> None:
        if conversation.at_work is waiting.run:
            conversation.at_work = None
        elif waiting in conversation.waiting:
            conversation.waiting.remove(waiting)
        conversation.admit()
        if conversation.at_work is None and self._conversations.get(key) is conversation:
            del self._conversations[key]

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
            about = {f"{PREFIX}interrupted_by": run.key.task_id}
            other.final_metadata = {
                **other.final_metadata,
                **failure_metadata(INTERRUPTED_TEXT, INTERRUPTED),
                **about,
            }
            other.cancel_text = INTERRUPTED_TEXT
            with suppress(ParleyError):  # it has ended by itself, or its end is written when the store can
                await self._engine.runs.cancel(other)
        if run.is_recovered or self._engine.store.is_shared:
            for head in await self._at_work_elsewhere(run, key):
                with suppress(ParleyError):
                    await cancel(self._engine, head.key, head.agent)

    # --- other workers ------------------------------------------------------------------------------------------------

    async def _wait_for_other_workers(self, run: Run, key: ConversationKey) -> None:
        """Return when no other worker is at work on an earlier request of the conversation."""
        while await self._at_work_elsewhere(run, key):
            run.is_queued = True
            await self._engine.clock.sleep(self._engine.limits.poll_seconds)

    async def _at_work_elsewhere(self, run: Run, key: ConversationKey) -> list[TaskHead]:
        """Earlier requests of a conversation that have begun and that no run of this worker is at work on."""
        owner, agent, context_id = key
        tasks, engine = self._engine.store.tasks, self._engine
        found: list[TaskHead] = []
        for state in (TaskState.WORKING, TaskState.SUBMITTED) if engine.store.is_shared else (TaskState.WORKING,):
            query = TaskFilter(agent=agent or None, context_id=context_id, state=state, limit=MOST_ELSEWHERE)
            found += [
                head
                for head in (await tasks.list(owner, query)).heads
                if (head.created_at, head.key.task_id) < (run.created_at, run.key.task_id)
                and head.wake_at is None
                and engine.runs.find(head.key) is None
            ]
        stored = await tasks.read_many([head.key for head in found], artifacts=False) if found else ()
        return [
            head
            for head, task in zip(found, stored, strict=True)
            if task is not None and not any(map(depth_of, fold_stored(task).history[:1]))
        ]


def _came_earlier(one: Run, other: Run) -> bool:
    return (one.created_at, one.key.task_id) < (other.created_at, other.key.task_id)
