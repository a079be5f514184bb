"""Messages that wait in a shared store until a worker has room: tasks at work that no worker holds.

A message for which this worker has no room is stored, and any worker that has room claims its task, the oldest first.
So the queue is one for all workers, costs no memory and survives them. While tasks of an agent wait, new messages wait
behind them. What the run must know of the sender is stored as a note, because another worker may run it.

Three kinds of messages wait in the memory of their worker instead: all in a store that is not shared; those that may be
answered without a task, which is not there yet; and those of programs that order their runs themselves
(`Program.waits_for_turn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from parley.cluster.hints import Hint, HintKind
from parley.engine.caller import Caller
from parley.engine.outliving import outliving
from parley.engine.program import Program
from parley.protocol.errors import RateLimitedError
from parley.protocol.events import MessageAdded, NoteAdded, TaskEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.requests import SendConfiguration
from parley.protocol.versions import Version
from parley.stores.interface import TaskHead, Write

if TYPE_CHECKING:
    from parley.engine.engine import Engine

SENDER = "parley:sender"
"""The name of the note about the sender of a message."""

COUNTED_SECONDS = 1.0
"""How long a count of waiting tasks is used before they are counted again."""

COUNTING_SHARE = 20
"""They are counted so seldom that it takes at most one of this many parts of the time."""


class _Sender(Struct, omit_defaults=True, rename="camel"):
    """What a run must know of the sender of its message, beside its name and tenant."""

    version: Version = Version.V1_0
    scopes: frozenset[str] = frozenset()
    claims: JsonObject = {}
    accepted_output_modes: tuple[str, ...] = ()


def notes_of_sender(
    task_id: str, context_id: str, caller: Caller, configuration: SendConfiguration
) -> tuple[NoteAdded, ...]:
    """What is stored of the sender of a message that waits: a note, or none if there is nothing to say."""
    sender = _Sender(caller.version, caller.scopes, caller.claims, configuration.accepted_output_modes)
    if sender == _Sender(caller.version):
        return ()
    return (NoteAdded(task_id, context_id, SENDER, msgspec.to_builtins(sender)),)


def sender_of(head: TaskHead, events: Sequence[TaskEvent]) -> tuple[Caller, SendConfiguration]:
    """The sender of the newest message of a task, as far as the log knows it, and what it asked for."""
    owner = head.key.owner
    for event in reversed(events):
        if isinstance(event, NoteAdded) and event.name == SENDER:
            sender = msgspec.convert(event.value, _Sender)
            caller = Caller(owner.name, owner.tenant, sender.scopes, sender.claims, sender.version)
            return caller, SendConfiguration(accepted_output_modes=sender.accepted_output_modes)
        if isinstance(event, MessageAdded):
            break
    return Caller(owner.name, owner.tenant, version=head.created_in), SendConfiguration()


class _Count(Struct):
    """About how many tasks of an agent wait, and until when that is good enough."""

    number: int = 0
    good_until: float = 0.0
    is_counting: bool = False


class SharedQueue:
    """The tasks of all workers that wait for room, as one of the workers sees them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._counts: dict[str, _Count] = {}

    def must_wait(self, program: Program) -> bool:
        """Whether a message waits in the store: there is no room here, or others of the agent wait already."""
        engine = self._engine
        if not engine.store.is_shared or program.waits_for_turn:
            return False
        return engine.runs.room(program.id) <= 0 or engine.claims.has_waiting(program.id)

    async def put(self, write: Write, *, agent: str, caller: Caller) -> None:
        """Store a message for any worker that has room, and offer it to all; `write` leaves its task without holder.

        Raises:
            RateLimitedError: too many wait already.
            UnavailableError: this worker drains.
            ConflictError: the task has changed.
            RepeatedSendError: another worker has taken the message in.
        """
        await self._check_number(agent)
        self._engine.runs.check_capacity(agent)
        # Also if the caller disconnects: what is stored must be announced.
        await outliving(self._engine.in_background(self._put(write, agent, caller)))

    async def _put(self, write: Write, agent: str, caller: Caller) -> None:
        engine, key, begun = self._engine, write.key, perf_counter()
        await engine.store.tasks.write(write)
        engine.store_health.accepted()
        for send, record in write.sends:
            engine.sends.resolve(key.owner, send, record)
        if engine.observer is not None:
            engine.observer.committed(key, agent, write.events, perf_counter() - begun)
        feed = engine.feeds.get(key)
        if feed is not None:
            feed.publish(write.expected_seq + 1, write.events)
        for config, _ in write.webhooks:
            engine.webhooks.kept(key, config, caller, agent)
        if write.new is None:
            engine.webhooks.notify(key)
        self._count_of(agent).number += 1
        engine.claims.note_waiting(agent)
        if engine.hints is not None:
            engine.hints.publish(Hint(HintKind.EVENTS, key, write.expected_seq + len(write.events)))
            engine.hints.publish(Hint(HintKind.WORK, key))

    def taken(self, agent: str) -> None:
        """Note that this worker has claimed a waiting task."""
        count = self._counts.get(agent)
        if count is not None and count.number > 0:
            count.number -= 1

    def _count_of(self, agent: str) -> _Count:
        count = self._counts.get(agent)
        if count is None:
            count = self._counts[agent] = _Count()
        return count

    async def _check_number(self, agent: str) -> None:
        """Raises RateLimitedError if too many tasks of an agent wait. Other workers may add some meanwhile."""
        count, most = self._count_of(agent), self._engine.limits.sends_waiting
        if perf_counter() >= count.good_until and not count.is_counting:
            await self._count(agent, count, most)
        if count.number >= most:
            raise RateLimitedError(f"{count.number} messages wait already; try again later")

    async def _count(self, agent: str, count: _Count, most: int) -> None:
        store, begun = self._engine.store, perf_counter()
        count.is_counting = True
        try:
            live = await self._engine.lease.workers_alive() | {self._engine.lease.worker}
            count.number = len(await store.tasks.orphaned(live, agents=frozenset([agent]), limit=most))
        finally:
            count.is_counting = False
        now = perf_counter()
        least = COUNTED_SECONDS if count.number < most else 0.0
        count.good_until = now + max(least, COUNTING_SHARE * (now - begun))
