"""The schedules of a host: everything that a tenant can do with them, and the ticker that runs them.

A schedule is checked when it is created and changed: its times, its agent, its conversation. What is not valid any more
when a tick comes is the outcome of that tick.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec import structs

from parley.engine.clock import Clock
from parley.engine.engine import Engine
from parley.host.data.audit import AuditAction
from parley.host.data.conversations import ConversationNotFoundError, Conversations
from parley.host.data.epoch import seconds
from parley.host.data.errors import InvalidValueError
from parley.host.data.schedule import PendingTick, Schedule, ScheduleRun, StoredSchedule, TickState, Timing
from parley.host.data.schedule_ticks import ScheduleTicks, TickChange
from parley.host.data.schedules import Schedules
from parley.host.data.tenant import Tenant
from parley.host.quotas import QuotaBook
from parley.host.schedules.due import first_tick, ticks_after
from parley.host.schedules.errors import InvalidTimingError
from parley.host.schedules.sending import ScheduledMessages, task_id_of
from parley.host.schedules.tick import TickRunner
from parley.host.schedules.ticker import Ticker
from parley.host.schedules.timing import shortest_gap, ticks_of
from parley.stores.interface import Records

SHOWN_TICKS = 5


class HostSchedules:
    """The schedules of all tenants of a host."""

    def __init__(
        self,
        records: Records,
        clock: Clock,
        engine: Engine,
        conversations: Conversations,
        quotas: QuotaBook,
        *,
        tenant: Callable[[str], Tenant | None],
        find_program: Callable[[str, str], Awaitable[str | None]],
    ) -> None:
        """The functions are those of `ScheduledMessages`."""
        self._clock = clock
        self._engine = engine
        self._conversations = conversations
        self._quotas = quotas
        self._schedules = Schedules(records, clock)
        self._ticks = ScheduleTicks(records, clock)
        self._messages = ScheduledMessages(engine, conversations, tenant=tenant, find_program=find_program)
        runner = TickRunner(self._ticks, self._messages, conversations, engine, clock)
        self.ticker = Ticker(self._ticks, runner, engine, clock)

    def start(self) -> None:
        """Begin to run what is due. The engine has started; the ticker ends with it."""
        self._engine.in_background(self.ticker.keep_ticking())

    # --- reading ------------------------------------------------------------------------------------------------------

    async def get(self, tenant_id: str, schedule_id: str) -> StoredSchedule:
        """One schedule. Raises ScheduleNotFoundError."""
        return await self._schedules.get(tenant_id, schedule_id)

    async def list(self, tenant_id: str, *, after: tuple[int, str] | None, limit: int) -> Sequence[StoredSchedule]:
        """A page of a tenant's schedules, the newest first."""
        return await self._schedules.list(tenant_id, after=after, limit=limit)

    async def runs(
        self, tenant_id: str, schedule_id: str, *, after: tuple[int, str] | None, limit: int
    ) -> Sequence[tuple[int, ScheduleRun]]:
        """A page of what became of a schedule's ticks, newest first. Raises ScheduleNotFoundError."""
        await self._schedules.get(tenant_id, schedule_id)
        return await self._schedules.runs(tenant_id, schedule_id, after=after, limit=limit)

    def preview(self, timing: Timing) -> Sequence[datetime]:
        """The next ticks of a timing, in UTC. Raises InvalidTimingError."""
        return list(islice(ticks_of(timing).ticks_after(self._clock.now()), SHOWN_TICKS))

    def next_ticks(self, stored: StoredSchedule) -> Sequence[datetime]:
        """The next ticks of a schedule, in UTC; none if it is paused or has ended."""
        state, schedule = stored.state, stored.schedule
        if state.next_tick is None:
            return ()
        left = SHOWN_TICKS if schedule.max_runs is None else min(SHOWN_TICKS, schedule.max_runs - state.runs)
        before = datetime.fromtimestamp(state.next_tick, self._clock.now().tzinfo) - timedelta(seconds=1)
        try:
            return list(islice(ticks_after(schedule, before), max(left, 0)))
        except InvalidTimingError:  # the time zone is not known on this machine
            return ()

    # --- changing -----------------------------------------------------------------------------------------------------

    async def create(self, tenant: Tenant, schedule: Schedule) -> StoredSchedule:
        """A new schedule.

        Raises:
            InvalidValueError, AgentNotFoundError: it is not valid.
            AlreadyExistsError, LimitReachedError: the id is taken, or the tenant has too many.
        """
        await self._check_message(tenant, schedule)
        state = TickState(next_tick=self._checked_tick(tenant, schedule, runs=0))
        created = await self._schedules.create(tenant.id, schedule, state, most=self._quotas.schedules(tenant))
        self.ticker.wake()
        return created

    async def change(
        self,
        tenant: Tenant,
        schedule_id: str,
        edit: Callable[[Schedule], Schedule],
        *,
        actor: str,
        action: AuditAction = "update_schedule",
        revision: int | None = None,
    ) -> StoredSchedule:
        """The schedule as `edit` makes it. Its ticks are those after now if it runs at other times than before.

        Raises:
            ScheduleNotFoundError, StaleRevisionError: there is none, or it has another revision.
            InvalidValueError, AgentNotFoundError: it would not be valid.
        """
        await self._check_message(tenant, edit((await self._schedules.get(tenant.id, schedule_id)).schedule))

        def change(stored: StoredSchedule) -> tuple[Schedule, TickState]:
            before, state = stored.schedule, stored.state
            after = edit(before)
            if _when(after) == _when(before):
                return after, state
            tick = self._checked_tick(tenant, after, runs=state.runs)
            return after, structs.replace(state, next_tick=tick, not_before=0, refused=0)

        changed = await self._schedules.change(
            tenant.id, schedule_id, change, actor=actor, action=action, revision=revision
        )
        self.ticker.wake()
        return changed

    async def pause(self, tenant: Tenant, schedule_id: str, *, actor: str) -> StoredSchedule:
        """Pause a schedule: its ticks pass without a trace. Raises ScheduleNotFoundError."""

        def change(stored: StoredSchedule) -> tuple[Schedule, TickState]:
            paused = structs.replace(stored.schedule, enabled=False)
            return paused, structs.replace(stored.state, next_tick=None)

        return await self._schedules.change(tenant.id, schedule_id, change, actor=actor, action="pause_schedule")

    async def resume(self, tenant: Tenant, schedule_id: str, *, actor: str) -> StoredSchedule:
        """Let a schedule go on with its next tick after now. Raises as `change`."""

        def edit(schedule: Schedule) -> Schedule:
            return structs.replace(schedule, enabled=True, pause_reason="")

        return await self.change(tenant, schedule_id, edit, actor=actor, action="resume_schedule")

    async def delete(self, tenant_id: str, schedule_id: str, *, actor: str, revision: int | None = None) -> None:
        """Delete a schedule. Raises ScheduleNotFoundError or StaleRevisionError."""
        await self._schedules.delete(tenant_id, schedule_id, actor=actor, revision=revision)

    async def run_now(self, tenant_id: str, schedule_id: str, *, key: str) -> str:
        """Run a schedule now, whatever its ticks are. Returns the id of the request; the same key is the same request.

        Raises:
            ScheduleNotFoundError: there is none with this id.
            NotFoundError, A2AError: the message is refused.
        """
        stored = await self._schedules.get(tenant_id, schedule_id)
        task_id, now = task_id_of(stored, f"run {key}"), seconds(self._clock.now())
        if await self._messages.has_begun(tenant_id, task_id):
            return task_id
        pending = PendingTick(now, task_id, self._engine.lease.worker)
        pending = await self._messages.in_conversation(stored, pending)
        await self._messages.send(stored, pending)
        entry = ScheduleRun(
            id=f"run-{task_id}",
            tick=now,
            at=now,
            outcome="started",
            trigger="manual",
            request_id=task_id,
            conversation_id=pending.conversation,
        )

        async def note(found: StoredSchedule) -> TickChange:
            return TickChange(state=structs.replace(found.state, last_task=task_id), runs=[entry])

        await self._ticks.decide(tenant_id, schedule_id, note)
        return task_id

    # --- checks -------------------------------------------------------------------------------------------------------

    async def _check_message(self, tenant: Tenant, schedule: Schedule) -> None:
        await self._messages.check(tenant.id, schedule)
        if isinstance(schedule.conversation, int):
            try:
                await self._conversations.get(tenant.id, schedule.conversation)
            except ConversationNotFoundError:
                raise InvalidValueError("there is no such conversation", "$.conversation") from None

    def _checked_tick(self, tenant: Tenant, schedule: Schedule, *, runs: int) -> int | None:
        """The first tick to come of a schedule; None if it is paused.

        Raises:
            InvalidTimingError: the times are not valid, too close together, or have all passed.
        """
        now = self._clock.now()
        shortest = self._quotas.schedule_interval_seconds(tenant)
        gap = shortest_gap(ticks_of(schedule.timing), now)
        if gap is not None and gap.total_seconds() < shortest:
            member = "cron" if schedule.timing.cron else "every"
            raise InvalidTimingError(
                member, f"two ticks are closer together than {shortest} seconds, the tenant's quota"
            )
        if first_tick(structs.replace(schedule, enabled=True), after=now, runs=runs) is None:
            member = "at" if schedule.timing.at else "ends_at" if schedule.ends_at is not None else "max_runs"
            raise InvalidTimingError(member, "there is no tick to come")
        return first_tick(schedule, after=now, runs=runs)


def _when(schedule: Schedule) -> tuple[object, ...]:
    """What says when a schedule runs."""
    return schedule.timing, schedule.enabled, schedule.ends_at, schedule.max_runs
