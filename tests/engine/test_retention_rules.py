"""Retention of agents and tenants: the shortest rule that applies to a task wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from parley import Agent
from parley.engine import maintenance
from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.engine.retention_rules import RetentionClock, RetentionRule
from parley.protocol.errors import LocalProtocolError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.stores.interface import TaskFilter
from parley.testing.clock import FakeClock
from tests.bounded import open_log

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
ADA = Caller("ada", "acme")
BOB = Caller("bob", "umbrella")


def agent_named(name: str, **options: Any) -> Agent:
    agent = Agent(name, **options)

    @agent.on_message
    async def echo(turn: Any) -> Any:
        return turn.text

    return agent


async def send(engine: Engine, agent: str, caller: Caller, number: int = 0) -> None:
    message = Message(f"m-{agent}-{caller.name}-{number}", Role.USER, (TextPart("hi"),))
    await engine.agent(agent).send_message(SendMessageRequest(message), caller)


async def count(engine: Engine, agent: str, caller: Caller) -> int:
    return (await engine.store.tasks.list(caller.owner, TaskFilter(agent=agent))).total


async def pass_hours(clock: FakeClock, hours: float) -> None:
    for _ in range(round(hours * 60)):
        await clock.advance(60)


@pytest.mark.embedded
async def test_the_shortest_rule_that_applies_wins_whichever_it_is() -> None:
    clock, store = FakeClock(), await open_log()
    brief, usual, patient = (
        agent_named("brief", retention="1h"),
        agent_named("usual"),
        agent_named("patient", retention="9h"),
    )
    engine = Engine(
        store, brief, usual, patient, clock=clock, retention=3 * HOUR, agent_retention={"patient": timedelta(hours=8)}
    )
    engine.tenant_retention = lambda: [RetentionRule(2 * HOUR, tenant="umbrella")]
    async with engine:
        for agent in ("brief", "usual", "patient"):
            for caller in (ADA, BOB):
                await send(engine, agent, caller)
        await pass_hours(clock, 1.5)
        left = [await count(engine, agent, caller) for agent in ("brief", "usual", "patient") for caller in (ADA, BOB)]
        assert left == [0, 0, 1, 1, 1, 1]
        await pass_hours(clock, 1)
        left = [await count(engine, agent, caller) for agent in ("usual", "patient") for caller in (ADA, BOB)]
        assert left == [1, 0, 1, 0]
        await pass_hours(clock, 1)
        left = [await count(engine, agent, ADA) for agent in ("usual", "patient")]
        assert left == [0, 0]  # what allows more than the global rule changes nothing


@pytest.mark.embedded
async def test_old_tasks_of_an_agent_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "DELETED_AT_ONCE", 2)
    clock, store = FakeClock(), await open_log()
    async with Engine(store, agent_named("brief", retention=HOUR), clock=clock) as engine:
        for number in range(5):
            await send(engine, "brief", ADA, number)
        await pass_hours(clock, 2)
        assert await count(engine, "brief", ADA) == 0


@pytest.mark.embedded
async def test_a_rule_that_is_new_waits_as_long_as_one_at_the_start() -> None:
    """A clock that is wrong for a minute, or a setting that is undone at once, deletes nothing."""
    clock = FakeClock()
    rules = RetentionClock(clock)
    day, hour = RetentionRule(24 * HOUR), RetentionRule(HOUR, tenant="acme")
    assert rules.due([day]) == []
    await clock.advance(11 * 60)
    assert [rule for rule, _ in rules.due([day, hour])] == [day]
    assert [rule for rule, _ in rules.due([day])] == [day]
    await clock.advance(11 * 60)
    assert [rule for rule, _ in rules.due([day, hour])] == [day]  # it was gone in between
    await clock.advance(11 * 60)
    assert [rule for rule, _ in rules.due([day, hour])] == [day, hour]


@pytest.mark.parametrize(("given", "error"), [("soon", LocalProtocolError), (timedelta(0), ValueError)])
def test_an_agent_with_an_invalid_retention_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Agent("brief", retention=given)
    assert Agent("brief", retention="30d").retention == timedelta(days=30)
