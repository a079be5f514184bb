"""Schedules: messages that go to an agent by themselves, at times that a tenant chooses.

To change them, a token must allow both to manage and to call: a schedule calls an agent as its tenant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from parley.host.access.scopes import Scope
from parley.host.api.agents import Deleted
from parley.host.api.query_parameters import LimitParameter, TextParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.api.run_requests import RUN_HEADERS, idempotency_key
from parley.host.api.schedule_views import (
    NewSchedule,
    ScheduleChanges,
    ScheduleList,
    SchedulePreview,
    ScheduleRunList,
    ScheduleRunView,
    ScheduleView,
    StartedRun,
    changed_schedule,
    new_schedule,
    run_view,
    schedule_view,
)
from parley.host.data.epoch import seconds
from parley.host.data.schedule import Schedule, ScheduleRun, StoredSchedule, Timing
from parley.host.errors import BadRequest
from parley.host.schedules.cron import zone_named
from parley.host.schedules.errors import InvalidTimingError
from parley.host.task_views import STATES

T = TypeVar("T")

LIMIT = LimitParameter(default=50, most=200)
CURSOR = TextParameter("cursor", "The `next_cursor` of the page before.")
CRON = TextParameter("cron", "A cron expression with five fields, or a name such as `@daily`.")
EVERY = TextParameter("every", "An interval, such as `15 minutes`.")
AT = TextParameter("at", "One moment with its offset.")
TIME_ZONE = TextParameter("time_zone", "The name of a time zone; `UTC` if it is not given.")

IF_MATCH = {"If-Match": "The revision that the caller has seen. If the schedule has another one, nothing is changed."}

_CURSOR = re.compile(r"([0-9]{1,16})-([a-z0-9_-]{1,80})", re.ASCII)
_REVISION = re.compile(r'(?:W/)?"?([0-9]{1,15})"?', re.ASCII)


async def list_schedules(call: ApiCall[None]) -> Answer:
    """A page of the tenant's schedules."""
    limit = call.query(LIMIT)
    found = await call.host.schedules.list(call.tenant.id, after=_after(call), limit=limit)
    cursor = f"{found[-1].sort}-{found[-1].id}" if len(found) == limit else None
    return Answer(ScheduleList([_view(call, one) for one in found], cursor))


async def create_schedule(call: ApiCall[NewSchedule]) -> Answer:
    """Create a schedule."""
    call.principal.require(Scope.CALL)
    body = call.body
    schedule_id = call.host.new_id() if body.id is None else body.id
    schedule = new_schedule(body, id=schedule_id, actor=call.actor, now=seconds(call.host.clock.now()))
    return _shown(call, await call.host.schedules.create(call.tenant, schedule), 201)


async def preview_schedule(call: ApiCall[None]) -> Answer:
    """The next ticks of a timing, without a schedule."""
    timing = Timing(
        call.query(CRON),
        call.query(EVERY),
        call.query(AT),
        call.query(TIME_ZONE) or "UTC",
        anchor=seconds(call.host.clock.now()),
    )
    try:
        ticks = call.host.schedules.preview(timing)
    except InvalidTimingError as error:
        raise BadRequest(f"{error.member}: {error.reason}") from None
    zone = zone_named(timing.time_zone)
    return Answer(SchedulePreview([tick.astimezone(zone).isoformat() for tick in ticks]))


async def get_schedule(call: ApiCall[None]) -> Answer:
    """One schedule."""
    return _shown(call, await call.host.schedules.get(call.tenant.id, call.path["id"]))


async def change_schedule(call: ApiCall[ScheduleChanges]) -> Answer:
    """Change a schedule."""
    call.principal.require(Scope.CALL)
    now = seconds(call.host.clock.now())

    def edit(before: Schedule) -> Schedule:
        return changed_schedule(before, call.body, now=now)

    changed = await call.host.schedules.change(
        call.tenant, call.path["id"], edit, actor=call.actor, revision=_revision(call)
    )
    return _shown(call, changed)


async def delete_schedule(call: ApiCall[None]) -> Answer:
    """Delete a schedule and its history. Its requests can still be read."""
    await call.host.schedules.delete(call.tenant.id, call.path["id"], actor=call.actor, revision=_revision(call))
    return Answer(Deleted())


async def pause_schedule(call: ApiCall[None]) -> Answer:
    """Pause a schedule."""
    return _shown(call, await call.host.schedules.pause(call.tenant, call.path["id"], actor=call.actor))


async def resume_schedule(call: ApiCall[None]) -> Answer:
    """Let a schedule go on."""
    call.principal.require(Scope.CALL)
    return _shown(call, await call.host.schedules.resume(call.tenant, call.path["id"], actor=call.actor))


async def run_schedule(call: ApiCall[None]) -> Answer:
    """Run a schedule now."""
    call.principal.require(Scope.CALL)
    key = idempotency_key(call) or call.host.new_id()
    return Answer(StartedRun(await call.host.schedules.run_now(call.tenant.id, call.path["id"], key=key)), 201)


async def list_schedule_runs(call: ApiCall[None]) -> Answer:
    """What became of the last ticks of a schedule."""
    tenant_id, schedule_id, limit = call.tenant.id, call.path["id"], call.query(LIMIT)
    stored = await call.host.schedules.get(tenant_id, schedule_id)
    found = await call.host.schedules.runs(tenant_id, schedule_id, after=_after(call), limit=limit)
    cursor = f"{found[-1][0]}-{found[-1][1].id}" if len(found) == limit else None
    return Answer(ScheduleRunList([await _run_view(call, stored, run) for _, run in found], cursor))


async def _run_view(call: ApiCall[Any], stored: StoredSchedule, run: ScheduleRun) -> ScheduleRunView:
    head = await call.host.views.head(call.tenant.id, run.request_id) if run.request_id else None
    state = None if head is None else STATES.get(head.state, "running")
    return run_view(run, stored.schedule.timing, state)


def _view(call: ApiCall[Any], stored: StoredSchedule) -> ScheduleView:
    return schedule_view(stored, call.host.schedules.next_ticks(stored))


def _shown(call: ApiCall[Any], stored: StoredSchedule, status: int = 200) -> Answer:
    etag = (b"etag", f'"{stored.revision}"'.encode())
    return Answer(_view(call, stored), status, headers=(etag,))


def _revision(call: ApiCall[Any]) -> int | None:
    given = call.request.headers.get("if-match", "*").strip()
    if given == "*":
        return None
    revision = _REVISION.fullmatch(given)
    if revision is None:
        raise BadRequest('If-Match: must be a revision, such as "3"')
    return int(revision[1])


def _after(call: ApiCall[Any]) -> tuple[int, str] | None:
    text = call.query(CURSOR)
    if not text:
        return None
    cursor = _CURSOR.fullmatch(text)
    if cursor is None:
        raise BadRequest("cursor: must be the next_cursor of a page")
    return int(cursor[1]), cursor[2]


_VIEW = [ApiReply(ScheduleView)]

ROUTES: Sequence[ApiRoute[Any]] = (
    ApiRoute(
        method="GET",
        path="/v1/schedules",
        handler=list_schedules,
        summary="List the schedules",
        query=[LIMIT, CURSOR],
        replies=[ApiReply(ScheduleList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/schedules",
        handler=create_schedule,
        summary="Create a schedule",
        description="A message that goes to an agent at every tick, once, whatever crashes.",
        body=BodyReader(NewSchedule),
        replies=[ApiReply(ScheduleView, 201)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/schedules/preview",
        handler=preview_schedule,
        summary="See when a schedule would run",
        query=[CRON, EVERY, AT, TIME_ZONE],
        replies=[ApiReply(SchedulePreview)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/schedules/{id}",
        handler=get_schedule,
        summary="Read a schedule",
        replies=_VIEW,
        errors=[404],
    ),
    ApiRoute(
        method="PATCH",
        path="/v1/schedules/{id}",
        handler=change_schedule,
        summary="Change a schedule",
        body=BodyReader(ScheduleChanges),
        headers=IF_MATCH,
        replies=_VIEW,
        errors=[404, 409],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/schedules/{id}",
        handler=delete_schedule,
        summary="Delete a schedule",
        headers=IF_MATCH,
        replies=[ApiReply(Deleted)],
        errors=[400, 404, 409],
    ),
    ApiRoute(
        method="POST",
        path="/v1/schedules/{id}/pause",
        handler=pause_schedule,
        summary="Pause a schedule",
        description="Its ticks pass. What they have begun goes on.",
        replies=_VIEW,
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/schedules/{id}/resume",
        handler=resume_schedule,
        summary="Let a paused schedule go on",
        description="It goes on with its first tick after now.",
        replies=_VIEW,
        errors=[400, 404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/schedules/{id}/run",
        handler=run_schedule,
        summary="Run a schedule now",
        headers=RUN_HEADERS,
        replies=[ApiReply(StartedRun, 201)],
        errors=[400, 404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/schedules/{id}/runs",
        handler=list_schedule_runs,
        summary="Read what became of the ticks of a schedule",
        query=[LIMIT, CURSOR],
        replies=[ApiReply(ScheduleRunList)],
        errors=[404],
    ),
)
