"""A schedule: which message goes to which agent, when, and what is done about ticks that cannot be run as planned.

`Schedule` is what a tenant says, and its revision counts the tenant's changes. `TickState` is how far the schedule has
come; it changes with every tick. Moments are whole seconds since 1970.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from parley.host.data.errors import NotFoundError
from parley.protocol.jsonvalue import JsonObject

MissedPolicy: TypeAlias = Literal["skip", "run_once", "run_all"]
"""What is done about ticks that passed while no process could run them."""

OverlapPolicy: TypeAlias = Literal["allow", "skip"]
"""What is done about a tick while the run before is still at work."""

ConversationChoice: TypeAlias = int | Literal["none", "new"]
"""The conversation of the runs: one that exists, none, or a new one for each."""

TickOutcome: TypeAlias = Literal["started", "skipped", "missed", "refused"]

_ID = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?", re.ASCII)

RESERVED_IDS = frozenset({"preview"})
"""Names of routes."""


class ScheduleNotFoundError(NotFoundError):
    """schedule not found"""


class Timing(Struct, frozen=True):
    """When a schedule runs: exactly one of `cron`, `every` and `at`, as the tenant wrote it."""

    cron: str = ""
    every: str = ""
    at: str = ""
    time_zone: str = "UTC"
    anchor: int = 0
    """The moment from which `every` counts."""


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule of a tenant."""

    id: str
    name: str
    agent_id: str
    message: str
    data: JsonObject | None = None
    timing: Timing
    enabled: bool = True
    pause_reason: str = ""
    """Why the host has paused it; empty if a person did."""
    missed: MissedPolicy = "run_once"
    overlap: OverlapPolicy = "skip"
    conversation: ConversationChoice = "none"
    ends_at: int | None = None
    """The last moment at which a tick may be."""
    max_runs: int | None = None
    retries: int = 3
    """How often a tick is tried again that a quota refuses."""
    created_by: str
    created_at: int
    updated_at: int


class PendingTick(Struct, frozen=True, omit_defaults=True):
    """A tick that a worker has claimed, and whose message is sent or will be."""

    tick: int
    task_id: str
    holder: str
    """The worker that sends it."""
    conversation: int = 0
    attempts: int = 0
    """How often a quota has refused it."""
    is_new_conversation: bool = False


class TickState(Struct, frozen=True, omit_defaults=True):
    """How far a schedule has come."""

    next_tick: int | None = None
    """The first tick that no decision was made about; None if there is none."""
    pending: PendingTick | None = None
    not_before: int = 0
    """When it is looked at again, if that is later than the tick."""
    runs: int = 0
    """How many ticks have begun a run."""
    refused: int = 0
    """How many ticks in a row were refused."""
    last_task: str = ""

    @property
    def due(self) -> int | None:
        """When a worker should look at it; None: never."""
        tick = self.pending.tick if self.pending is not None else self.next_tick
        return None if tick is None else max(tick, self.not_before)


class StoredSchedule(Struct, frozen=True):
    """A schedule with its state, as they are in the store."""

    tenant: str
    schedule: Schedule
    revision: int
    sort: int
    """The schedule's place in a list."""
    state: TickState
    state_revision: int

    @property
    def id(self) -> str:
        """The id of the schedule."""
        return self.schedule.id


class ScheduleRun(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of a tick, or of a run that a person asked for."""

    id: str
    tick: int
    """The moment that it was planned for; of the last one, if it stands for several that were missed."""
    at: int
    """When that was decided."""
    outcome: TickOutcome
    trigger: Literal["tick", "manual"] = "tick"
    request_id: str = ""
    conversation_id: int = 0
    reason: str = ""
    count: int = 1
    """How many ticks it stands for."""


def is_schedule_id(text: str) -> bool:
    """Whether a text may be the id of a schedule: 1 to 64 small letters, digits, hyphens and underscores."""
    return _ID.fullmatch(text) is not None and text not in RESERVED_IDS
