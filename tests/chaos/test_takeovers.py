"""Takeovers are measured from a fault to the next run elsewhere, those that another fault disturbed apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.chaos.agents import RUN_NOTE
from tests.chaos.evidence import Evidence, LoggedTask
from tests.chaos.nemesis import InjectedFault
from tests.chaos.side_file import RunBegan
from tests.chaos.takeovers import Takeover, describe_takeovers, find_takeovers

KILL = InjectedFault("kill replica", 10.0, 14.0, "a", victim=1)


def evidence(*runs: tuple[float, str, int]) -> Evidence:
    """One task whose runs began at these moments, in these processes; each but the first has claimed it."""
    events = list[tuple[int, dict[str, Any]]]([(1, {"type": "created", "status": {"state": "submitted"}})])
    for number, (_, run, _) in enumerate(runs):
        if number:
            events.append((len(events) + 1, {"type": "claimed", "worker": run}))
        note: dict[str, Any] = {"type": "note", "name": RUN_NOTE, "value": {"run": run, "worker": run}}
        events.append((len(events) + 1, note))
    task = LoggedTask("t-1", "working", len(events), tuple(events))
    return Evidence({"t-1": task}, (), [RunBegan(at, "t-1", run, run, pid) for at, run, pid in runs])


def found(*runs: tuple[float, str, int], faults: Sequence[InjectedFault]) -> list[Takeover]:
    return find_takeovers(faults, evidence(*runs))


def test_a_takeover_is_timed_from_the_fault_to_the_next_run() -> None:
    assert found((9.0, "r-1", 1), (12.5, "r-2", 2), (13.0, "r-3", 3), faults=[KILL]) == [Takeover(2.5, False)]


def test_a_task_that_another_process_held_was_not_taken_over() -> None:
    assert found((9.0, "r-1", 2), (12.5, "r-2", 3), faults=[KILL]) == []


def test_a_takeover_during_another_fault_is_disturbed_whenever_that_began() -> None:
    runs = (9.0, "r-1", 1), (15.5, "r-2", 2)
    for begun, healed, is_disturbed in ((5.0, 9.9, False), (14.5, 17.0, True), (15.6, 17.0, False), (5.0, 10.5, True)):
        other = InjectedFault("restart Postgres", begun, healed, "")
        assert found(*runs, faults=[KILL, other]) == [Takeover(5.5, is_disturbed)]


def test_the_report_says_how_many_missed_the_goal() -> None:
    takeovers = [Takeover(2.5, False), Takeover(4.5, False), Takeover(16.0, True)]
    assert describe_takeovers(takeovers, 2.0) == [
        "takeover after SIGKILL or SIGSTOP: 2, min 2.50, median 3.50, max 4.50 s, 1 after more than 4 s",
        "with another fault meanwhile: 1, min 16.00, median 16.00, max 16.00 s, 1 after more than 4 s",
    ]
