"""Takeovers: how long after SIGKILL or SIGSTOP another run begins for each task that the victim worked on.

The lease and what comes after it explain only those that nothing else disturbed. If PostgreSQL restarts meanwhile, or
the replica that takes over is the next victim, the time is that of several faults. A victim that was woken before the
others had noticed goes on with its tasks; a later fault may then move them, long after the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from tests.chaos.evidence import Evidence
from tests.chaos.nemesis import InjectedFault
from tests.chaos.side_file import RunBegan

GOAL_SECONDS = 2.0
"""Beyond the lease."""


class Takeover(Struct, frozen=True):
    """A task that went on elsewhere, so many seconds after a fault; disturbed if another fault was there meanwhile."""

    seconds: float
    is_disturbed: bool


def find_takeovers(faults: Sequence[InjectedFault], evidence: Evidence) -> list[Takeover]:
    """From each SIGKILL or SIGSTOP to the next run of each task that the victim held, in another process."""
    claims = {
        run
        for task in evidence.tasks.values()
        for tenure in task.tenures
        if tenure.began == "claimed"
        for run, _ in tenure.writers
    }
    runs: dict[str, list[RunBegan]] = {}
    for event in evidence.side:
        if isinstance(event, RunBegan):
            runs.setdefault(event.task, []).append(event)
    found: list[Takeover] = []
    for fault in faults:
        for of_task in runs.values() if fault.victim else ():
            before = [run for run in of_task if run.at <= fault.begun]
            after = [run for run in of_task if run.at > fault.begun]
            if before and after and before[-1].pid == fault.victim and after[0].run in claims:
                at = after[0].at
                others = [other for other in faults if other is not fault and other.begun <= at]
                is_disturbed = any(other.healed >= fault.begun for other in others)
                found.append(Takeover(at - fault.begun, is_disturbed))
    return found


def describe_takeovers(takeovers: Sequence[Takeover], lease_seconds: float) -> list[str]:
    """The figures, those of disturbed takeovers apart."""
    lines: list[str] = []
    goal = lease_seconds + GOAL_SECONDS
    for is_disturbed, name in ((False, "takeover after SIGKILL or SIGSTOP"), (True, "with another fault meanwhile")):
        times = sorted([each.seconds for each in takeovers if each.is_disturbed is is_disturbed])
        if times:
            late = sum(time > goal for time in times)
            lines.append(
                f"{name}: {len(times)}, min {times[0]:.2f}, median {median(times):.2f}, max {times[-1]:.2f} s, "
                f"{late} after more than {goal:g} s"
            )
    return lines
