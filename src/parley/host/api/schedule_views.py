"""What the routes of schedules take and show. Ticks are ISO 8601 texts with the offset of the schedule's time zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, json, structs

from parley.host.data.errors import InvalidValueError
from parley.host.data.schedule import (
    ConversationChoice,
    MissedPolicy,
    OverlapPolicy,
    Schedule,
    ScheduleRun,
    StoredSchedule,
    TickOutcome,
    Timing,
    is_schedule_id,
)
from parley.host.schedules.cron import zone_named
from parley.host.schedules.errors import InvalidTimingError
from parley.host.schedules.timing import read_moment
from parley.protocol.jsonvalue import JsonObject

MAX_MESSAGE = 100_000
"""Characters, and bytes of data: a message that comes again and again, and is kept with each of its runs."""

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
_Message: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_MESSAGE)]
_Runs: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
_Retries: TypeAlias = Annotated[int, Meta(ge=0, le=10)]
_AgentId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]


class NewSchedule(Struct, frozen=True, kw_only=True):
    """A schedule to create. It has exactly one of `cron`, `every` and `at`."""

    id: str | None = None
    """1 to 64 small letters, digits, hyphens and underscores; if it is absent, the host chooses one."""
    name: _Name
    agent_id: _AgentId = "index"
    message: _Message
    data: JsonObject | None = None
    """Data beside the text of the message."""
    cron: str = ""
    """Minute, hour, day of the month, month, day of the week; or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`."""
    every: str = ""
    """An interval from the creation on: `15 minutes`, `2h`, `PT15M`."""
    at: str = ""
    """One moment, with its offset: `2026-03-01T09:00:00+01:00`."""
    time_zone: str = "UTC"
    """The name of a time zone such as `Europe/Berlin`; `cron` is read in it."""
    enabled: bool = True
    missed: MissedPolicy = "run_once"
    """What is done about ticks that passed while the host was not running."""
    overlap: OverlapPolicy = "skip"
    """What is done about a tick while the run before is still at work."""
    conversation: ConversationChoice = "none"
    """The id of a conversation, so that runs know of one another; or `new` for each run; or `none`."""
    ends_at: str | None = None
    """The last moment at which there is a tick."""
    max_runs: _Runs | None = None
    retries: _Retries = 3
    """How often a tick is tried again, a minute apart, if a quota refuses it."""


class ScheduleChanges(Struct, frozen=True, kw_only=True):
    """What to change; members that are absent stay as they are. One of `cron`, `every` and `at` replaces the other."""

    name: _Name | UnsetType = UNSET
    agent_id: _AgentId | UnsetType = UNSET
    message: _Message | UnsetType = UNSET
    data: JsonObject | UnsetType | None = UNSET
    cron: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    time_zone: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    missed: MissedPolicy | UnsetType = UNSET
    overlap: OverlapPolicy | UnsetType = UNSET
    conversation: ConversationChoice | UnsetType = UNSET
    ends_at: str | UnsetType | None = UNSET
    max_runs: _Runs | UnsetType | None = UNSET
    retries: _Retries | UnsetType = UNSET


class ScheduleView(Struct, frozen=True, kw_only=True):
    """A schedule. `created_at` and `updated_at` are seconds since 1970."""

    id: str
    revision: int
    name: str
    agent_id: str
    message: str
    data: JsonObject | None
    cron: str
    every: str
    at: str
    time_zone: str
    enabled: bool
    status: str
    """`active`, `paused`, or `ended` if there is no tick to come."""
    pause_reason: str
    """Why the host has paused it; empty if it has not."""
    missed: MissedPolicy
    overlap: OverlapPolicy
    conversation: ConversationChoice
    ends_at: str | None
    max_runs: int | None
    retries: int
    runs: int
    """How many ticks have begun a run."""
    next_ticks: Sequence[str]
    created_by: str
    created_at: int
    updated_at: int


class ScheduleList(Struct, frozen=True):
    """The newest schedules first. `next_cursor` is null on the last page."""

    schedules: Sequence[ScheduleView]
    next_cursor: str | None


class ScheduleRunView(Struct, frozen=True, kw_only=True):
    """What became of a tick, or of a run that was asked for. `at` is in seconds since 1970."""

    tick: str
    at: int
    trigger: str
    outcome: TickOutcome
    """`started`; `skipped`, because the run before was at work; `missed` by the policy; `refused`, see the reason."""
    reason: str
    count: int
    """How many ticks it stands for, from `tick` on; up to 1000 are counted."""
    request_id: str | None
    conversation_id: int | None
    state: str | None
    """The state of the request now; null if none began, or if it was deleted."""


class ScheduleRunList(Struct, frozen=True):
    """The newest first, of the last 200. `next_cursor` is null on the last page."""

    runs: Sequence[ScheduleRunView]
    next_cursor: str | None


class SchedulePreview(Struct, frozen=True):
    """The next ticks."""

    next_ticks: Sequence[str]


class StartedRun(Struct, frozen=True):
    """The request that has begun."""

    request_id: str


def new_schedule(body: NewSchedule, *, id: str, actor: str, now: int) -> Schedule:
    """The schedule that a body describes. Raises InvalidValueError."""
    if not is_schedule_id(id):
        raise InvalidValueError("must have 1 to 64 small letters, digits, hyphens and underscores", "$.id")
    return checked(
        Schedule(
            id=id,
            name=body.name,
            agent_id=body.agent_id,
            message=body.message,
            data=body.data,
            timing=Timing(body.cron, body.every, body.at, body.time_zone, anchor=now),
            enabled=body.enabled,
            missed=body.missed,
            overlap=body.overlap,
            conversation=body.conversation,
            ends_at=_moment(body.ends_at),
            max_runs=body.max_runs,
            retries=body.retries,
            created_by=actor,
            created_at=now,
            updated_at=now,
        )
    )


def changed_schedule(before: Schedule, changes: ScheduleChanges, *, now: int) -> Schedule:
    """The schedule with changes. Raises InvalidValueError."""
    given = {name: value for name, value in structs.asdict(changes).items() if value is not UNSET}
    timing = before.timing
    when = {name: given.pop(name) for name in ("cron", "every", "at") if name in given}
    if when:
        anchor = timing.anchor if when.get("every") == timing.every else now
        timing = Timing(time_zone=timing.time_zone, anchor=anchor, **when)
    if "time_zone" in given:
        timing = structs.replace(timing, time_zone=given.pop("time_zone"))
    if "ends_at" in given:
        given["ends_at"] = _moment(given["ends_at"])
    if given.get("enabled"):
        given["pause_reason"] = ""
    return checked(structs.replace(before, timing=timing, **given))


def checked(schedule: Schedule) -> Schedule:
    """A schedule whose members are valid each for itself. Raises InvalidValueError."""
    if not schedule.name.isprintable() or not schedule.name.strip():
        raise InvalidValueError("must be printable characters", "$.name")
    if not schedule.message.strip():
        raise InvalidValueError("must not be empty", "$.message")
    if schedule.data is not None and len(json.encode(schedule.data)) > MAX_MESSAGE:
        raise InvalidValueError(f"must have at most {MAX_MESSAGE} bytes", "$.data")
    if isinstance(schedule.conversation, int) and not 0 < schedule.conversation < 10**16:
        raise InvalidValueError("there is no such conversation", "$.conversation")
    return schedule


def schedule_view(stored: StoredSchedule, next_ticks: Sequence[datetime]) -> ScheduleView:
    """A schedule as its tenant sees it."""
    schedule, timing = stored.schedule, stored.schedule.timing
    zone = _zone(timing)
    is_over = stored.state.next_tick is None and stored.state.pending is None
    return ScheduleView(
        id=schedule.id,
        revision=stored.revision,
        name=schedule.name,
        agent_id=schedule.agent_id,
        message=schedule.message,
        data=schedule.data,
        cron=timing.cron,
        every=timing.every,
        at=timing.at,
        time_zone=timing.time_zone,
        enabled=schedule.enabled,
        status="paused" if not schedule.enabled else "ended" if is_over else "active",
        pause_reason=schedule.pause_reason,
        missed=schedule.missed,
        overlap=schedule.overlap,
        conversation=schedule.conversation,
        ends_at=None if schedule.ends_at is None else tick_text(schedule.ends_at, zone),
        max_runs=schedule.max_runs,
        retries=schedule.retries,
        runs=stored.state.runs,
        next_ticks=[tick.astimezone(zone).isoformat() for tick in next_ticks],
        created_by=schedule.created_by,
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
    )


def run_view(run: ScheduleRun, timing: Timing, state: str | None) -> ScheduleRunView:
    """An entry of a schedule's history; `state` is that of its request."""
    return ScheduleRunView(
        tick=tick_text(run.tick, _zone(timing)),
        at=run.at,
        trigger=run.trigger,
        outcome=run.outcome,
        reason=run.reason,
        count=run.count,
        request_id=run.request_id or None,
        conversation_id=run.conversation_id or None,
        state=state,
    )


def tick_text(moment: int, zone: tzinfo) -> str:
    """A moment in a time zone."""
    return datetime.fromtimestamp(moment, zone).isoformat()


def _moment(text: str | None) -> int | None:
    return None if text is None else int(read_moment(text, "ends_at").timestamp())


def _zone(timing: Timing) -> tzinfo:
    try:
        return zone_named(timing.time_zone)
    except InvalidTimingError:  # it is not known on this machine
        return UTC
