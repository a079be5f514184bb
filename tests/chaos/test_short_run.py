"""The harness in a short form: three replicas under a few faults, and nothing is lost, doubled or stuck."""

import asyncio
from pathlib import Path

import pytest

from tests.chaos.report import report
from tests.chaos.run import Settings, run_chaos

KINDS = ("kill replica", "freeze replica", "terminate backends", "kill NATS", "cut connections")


@pytest.mark.deadline(240)
def test_replicas_that_are_killed_frozen_and_cut_off_lose_and_double_nothing(tmp_path: Path) -> None:
    settings = Settings(
        seconds=120.0,
        seed=16,
        clients=30,
        lease_seconds=1.5,
        pauses=(0.2, 0.6),
        least_faults=len(KINDS),
        most_faults=len(KINDS),
        kinds=KINDS,
    )
    outcome = asyncio.run(run_chaos(settings, tmp_path))
    assert not outcome.violations, report(outcome)
    assert len(outcome.evidence.tasks) >= settings.clients
