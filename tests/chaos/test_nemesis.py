"""The nemesis counts only faults that did something, and goes on until there are enough, or it takes too long."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.faults import FAULTS, Struck, cut_connections, kill_nats
from tests.chaos.history import now
from tests.chaos.nemesis import Nemesis

pytestmark = pytest.mark.anyio

PAUSES = (0.0, 0.001)


class NoConnections:
    """A proxy without connections."""

    async def cut(self) -> int:
        return 0


class Idle:
    """A cluster without NATS, whose replica has no connections."""

    nats = None
    name = "a"

    def __init__(self) -> None:
        self.replicas = [self]
        self.proxies = {"http": NoConnections()}


async def nemesis_with(monkeypatch: pytest.MonkeyPatch, *struck: Struck) -> Nemesis:
    """A nemesis whose faults do these things in turn, the last one again and again."""
    left = list(struck)

    async def strike(*_: object) -> Struck:
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setitem(cast("dict[str, Any]", FAULTS), "fault", strike)
    return Nemesis(cast("Cluster", None), seed=1, kinds=("fault",))


async def test_faults_that_find_nothing_to_do_are_in_the_log_and_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    done, void = Struck("done"), Struck("nothing was there", is_void=True)
    nemesis = await nemesis_with(monkeypatch, void, done, void, done)
    await nemesis.inject_until(now() + 30, pauses=PAUSES, most=2)
    assert [fault.is_void for fault in nemesis.log] == [True, False, True, False]
    assert nemesis.injected == 2


async def test_faults_are_injected_until_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    nemesis = await nemesis_with(monkeypatch, Struck("done"))
    await nemesis.inject_until(now(), pauses=PAUSES, least=3, last_deadline=now() + 30)
    assert nemesis.injected == 3


async def test_too_few_faults_take_no_longer_than_the_last_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    nemesis = await nemesis_with(monkeypatch, Struck("nothing was there", is_void=True))
    await nemesis.inject_until(now(), pauses=PAUSES, least=3, last_deadline=now() + 0.05)
    assert nemesis.log
    assert nemesis.injected == 0


async def test_kinds_of_faults_say_that_they_found_nothing() -> None:
    cluster = cast("Cluster", Idle())
    assert (await kill_nats(cluster, Random(1))).is_void
    assert (await cut_connections(cluster, Random(1))).is_void
