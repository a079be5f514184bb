"""One tick of a schedule, in three steps that each survive a crash.

1. Claim: a write to the state says which tick is run, as which task, and by which worker. One worker succeeds.
2. Send: the message goes to the agent. The same tick is always the same task, so sending twice is sending once.
3. Settle: a write to the state says what became of it, together with the entry in the history.

After a crash the claim of a dead worker is taken over, and the steps after it are done again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import Struct, structs

from parley.engine.clock import Clock
from parley.engine.engine import Engine
from parley.host.data.conversations import ConversationNotFoundError, Conversations
from parley.host.data.epoch import seconds
from parley.host.data.keys import number_id
from parley.host.data.schedule import PendingTick, ScheduleRun, StoredSchedule, TickOutcome, TickState
from parley.host.data.schedule_ticks import ScheduleTicks, TickChange
from parley.host.schedules.due import due_tick
from parley.host.schedules.errors import InvalidTimingError
from parley.host.schedules.sending import ScheduledMessages, task_id_of
from parley.protocol.errors import ParleyError, RateLimitedError, UnavailableError
from parley.stores.interface import StoreError

logger = logging.getLogger(__name__)

RETRY = timedelta(minutes=1)
"""From one attempt at a tick to the next, where a quota has refused it."""

STORE_RETRY = timedelta(seconds=5)
"""The same where the store could not be written, and where a missed tick waits for the run before."""

MOST_REFUSED = 20
"""Ticks in a row that are refused before a schedule is paused."""

MAX_REASON = 500


class SendResult(Struct, frozen=True):
    """What became of an attempt to send: `refusal` is empty if the run has begun."""

    refusal: str = ""
    may_retry: bool = False
    is_unknown: bool = False
    """Whether the attempt failed for a reason that is not the schedule's, so that it is made again."""


class TickRunner:
    """Runs the ticks of schedules, as one worker of a store."""

    def __init__(
        self,
        ticks: ScheduleTicks,
        messages: ScheduledMessages,
        conversations: Conversations,
        engine: Engine,
        clock: Clock,
    ) -> None:
        self._ticks = ticks
        self._messages = messages
        self._conversations = conversations
        self._engine = engine
        self._clock = clock
        self._sending: set[str] = set()
        """The tasks that this worker is sending."""

    async def run_due(self, tenant: str, schedule_id: str) -> bool:
        """Do what is due for a schedule. Returns False if there was nothing to do here."""
        claimed = await self._ticks.decide(tenant, schedule_id, self._claim)
        if claimed is None:
            return False
        pending = claimed.state.pending
        if pending is not None and pending.holder == self._engine.lease.worker:
            await self._complete(claimed, pending)
        return True

    async def _complete(self, claimed: StoredSchedule, pending: PendingTick) -> None:
        if pending.task_id in self._sending:
            return
        self._sending.add(pending.task_id)
        try:
            result = await self._send(claimed, pending)

            async def settle(stored: StoredSchedule) -> TickChange | None:
                return self._settled(stored, pending, result)

            settled = await self._ticks.decide(claimed.tenant, claimed.id, settle)
        finally:
            self._sending.discard(pending.task_id)
        if pending.is_new_conversation and result.refusal and settled is not None and settled.state.pending is None:
            with suppress(ConversationNotFoundError):
                await self._conversations.delete(claimed.tenant, pending.conversation)

    # --- claim --------------------------------------------------------------------------------------------------------

    async def _claim(self, stored: StoredSchedule) -> TickChange | None:
        """Decide what is run now. None: nothing, or another worker is at it."""
        state, now = stored.state, self._clock.now()
        if state.due is None or state.due > now.timestamp():
            return None
        if state.pending is not None:
            return await self._take_over(state, state.pending)
        assert state.next_tick is not None, "Without a tick, nothing is due"
        try:
            return await self._claim_tick(stored, state, state.next_tick, now)
        except InvalidTimingError as error:  # the time zone is not known on this machine
            paused = TickState(runs=state.runs, refused=state.refused, last_task=state.last_task)
            return TickChange(state=paused, pause_reason=error.message[:MAX_REASON])

    async def _take_over(self, state: TickState, pending: PendingTick) -> TickChange | None:
        worker = self._engine.lease.worker
        if pending.task_id in self._sending:
            return None
        if pending.holder != worker and await self._engine.claims.may_be_alive(pending.holder):
            return None
        return TickChange(state=structs.replace(state, pending=structs.replace(pending, holder=worker)))

    async def _claim_tick(
        self, stored: StoredSchedule, state: TickState, next_tick: int, now: datetime
    ) -> TickChange | None:
        schedule = stored.schedule
        due = due_tick(schedule, next_tick, now)
        runs: list[ScheduleRun] = []
        if due.missed:
            runs.append(_entry(next_tick, now, "missed", reason="no process was running", count=due.missed))
        after = structs.replace(state, next_tick=due.next_tick, not_before=0)
        if due.tick is None:
            return TickChange(state=after, runs=runs) if runs else None
        if schedule.overlap == "skip" and await self._messages.is_at_work(stored.tenant, state.last_task):
            if due.is_missed and schedule.missed == "run_all":
                return TickChange(state=structs.replace(state, not_before=seconds(now + STORE_RETRY)))
            reason = f"the run before is still at work: {state.last_task}"
            skipped = _entry(due.tick, now, "skipped", reason=reason)
            return TickChange(state=after, runs=[*runs, skipped])
        pending = PendingTick(due.tick, task_id_of(stored, str(due.tick)), self._engine.lease.worker)
        pending = await self._messages.in_conversation(stored, pending)
        return TickChange(state=structs.replace(after, pending=pending), runs=runs)

    # --- send ---------------------------------------------------------------------------------------------------------

    async def _send(self, claimed: StoredSchedule, pending: PendingTick) -> SendResult:
        if self._engine.lease.epoch is None:  # this worker was suspended, and another one may have taken the tick over
            return SendResult("the lease of the worker has expired", is_unknown=True)
        try:
            await self._messages.send(claimed, pending)
        except RateLimitedError as error:
            reason = error.details.get("reason", "")
            return SendResult(f"{error.message} ({reason})" if reason else error.message, may_retry=True)
        except UnavailableError as error:
            is_passing = self._engine.runs.is_stopping or isinstance(error.__cause__, StoreError)
            return SendResult(error.message, is_unknown=is_passing)
        except StoreError as error:
            return SendResult(error.message, is_unknown=True)
        except ParleyError as error:
            return SendResult(error.message)
        except Exception:  # here a tick ends
            logger.exception("The message of schedule %s/%s could not be sent", claimed.tenant, claimed.id)
            return SendResult("an internal error; the log of the host has the details")
        return SendResult()

    # --- settle -------------------------------------------------------------------------------------------------------

    def _settled(self, stored: StoredSchedule, pending: PendingTick, result: SendResult) -> TickChange | None:
        state, now = stored.state, self._clock.now()
        if state.pending != pending:
            return None  # another worker has taken it over
        if result.is_unknown:
            return TickChange(state=structs.replace(state, not_before=seconds(now + STORE_RETRY)))
        if result.may_retry and pending.attempts < stored.schedule.retries:
            again = structs.replace(pending, attempts=pending.attempts + 1)
            return TickChange(state=structs.replace(state, pending=again, not_before=seconds(now + RETRY)))
        entry = _entry(
            pending.tick,
            now,
            "refused" if result.refusal else "started",
            reason=result.refusal,
            request_id="" if result.refusal else pending.task_id,
            conversation=0 if result.refusal else pending.conversation,
        )
        after = structs.replace(state, pending=None, not_before=0)
        if not result.refusal:
            after = structs.replace(after, runs=state.runs + 1, refused=0, last_task=pending.task_id)
            most = stored.schedule.max_runs
            if most is not None and after.runs >= most:
                after = structs.replace(after, next_tick=None)
            return TickChange(state=after, runs=[entry])
        after = structs.replace(after, refused=state.refused + 1)
        if after.refused < MOST_REFUSED or not stored.schedule.enabled:
            return TickChange(state=after, runs=[entry])
        reason = f"{after.refused} ticks in a row were refused. The last reason: {result.refusal}"
        paused = structs.replace(after, next_tick=None)
        return TickChange(state=paused, runs=[entry], pause_reason=reason[:MAX_REASON])


def _entry(
    tick: int,
    now: datetime,
    outcome: TickOutcome,
    *,
    reason: str = "",
    request_id: str = "",
    conversation: int = 0,
    count: int = 1,
) -> ScheduleRun:
    return ScheduleRun(
        id=number_id(tick),
        tick=tick,
        at=seconds(now),
        outcome=outcome,
        request_id=request_id,
        conversation_id=conversation,
        reason=reason[:MAX_REASON],
        count=count,
    )
