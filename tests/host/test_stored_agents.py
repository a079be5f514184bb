"""The agents that tenants store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from parley.host.constitution import INDEX, Constitution, InvalidConstitutionError, read_constitution
from parley.host.data.agents import (
    AgentEdit,
    AgentExistsError,
    AgentNotFoundError,
    StaleVersionError,
    StoredAgent,
    StoredAgents,
    TooManyAgentsError,
)
from parley.host.data.audit import Audit
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

NOON = 1_767_225_600


def agent(id: str, goal: str = "help") -> Constitution:
    return read_constitution({"id": id, "name": id.title(), "role": "helper", "goal": goal, "rules": ["be brief"]})


def ids(agents: Sequence[StoredAgent]) -> list[str]:
    return [agent.id for agent in agents]


async def test_an_agent_is_created_replaced_and_deleted() -> None:
    clock = FakeClock()
    agents = StoredAgents(MemoryStore().records, clock)
    created = await agents.create(ACME, agent("a"))
    assert (created.constitution, created.created_at, created.updated_at, created.revision) == (
        agent("a"),
        NOON,
        NOON,
        1,
    )
    await clock.advance(10)
    replaced = await agents.replace(ACME, agent("a", "work"))
    assert (replaced.constitution.goal, replaced.created_at, replaced.updated_at) == ("work", NOON, NOON + 10)
    assert await agents.get(ACME, "a") == replaced
    await agents.delete(ACME, "a")
    for forgotten in (agents.get(ACME, "a"), agents.delete(ACME, "a"), agents.replace(ACME, agent("a"))):
        with pytest.raises(AgentNotFoundError):
            await forgotten


async def test_an_id_is_taken_for_its_tenant_only() -> None:
    agents = StoredAgents(MemoryStore().records, FakeClock())
    created = await agents.create(ACME, agent("a"))
    with pytest.raises(AgentExistsError, match="agent 'a' already exists for this tenant") as refused:
        await agents.create(ACME, agent("a", "other"))
    assert refused.value.existing == created == await agents.get(ACME, "a")
    with pytest.raises(AgentNotFoundError):
        await agents.delete(OTHER, "a")
    await agents.create(OTHER, agent("a", "other"))
    assert [(one.tenant, one.constitution.goal) async for one in agents.all()] == [(ACME, "help"), (OTHER, "other")]
    with pytest.raises(InvalidConstitutionError, match="reserved"):
        await agents.create(ACME, INDEX)


async def test_a_caller_that_has_not_seen_the_last_version_changes_nothing() -> None:
    agents = StoredAgents(MemoryStore().records, FakeClock())
    first = await agents.create(ACME, agent("a"))
    seen_first = AgentEdit(actor="ada", expected_version=first.version)
    second = await agents.replace(ACME, agent("a", "second"), seen_first)
    with pytest.raises(StaleVersionError):
        await agents.replace(ACME, agent("a", "third"), seen_first)
    with pytest.raises(StaleVersionError):
        await agents.delete(ACME, "a", seen_first)
    assert await agents.get(ACME, "a") == second
    await agents.delete(ACME, "a", AgentEdit(actor="ada", expected_version=second.version))


async def test_agents_are_listed_in_pages_the_one_that_changed_last_first() -> None:
    clock = FakeClock()
    agents = StoredAgents(MemoryStore().records, clock)
    for name in ("a", "b", "c"):
        await agents.create(ACME, agent(name))
        await clock.advance(0.01)
    await agents.create(OTHER, agent("z"))
    await agents.replace(ACME, agent("a", "work"))
    page = await agents.list(ACME, limit=2)
    assert (ids(page), ids(await agents.list(ACME, after=page[-1]))) == (["a", "c"], ["b"])


async def test_all_agents_of_all_tenants_are_read_in_pages() -> None:
    agents = StoredAgents(MemoryStore().records, FakeClock())
    created = [await agents.create(tenant, agent(f"a{n}")) for tenant in (ACME, OTHER) for n in range(205)]
    found = [one async for one in agents.all()]
    assert sorted(found, key=repr) == sorted(created, key=repr)


async def test_agents_created_at_the_same_time_keep_the_bound_and_one_of_each_id() -> None:
    agents = StoredAgents(suspending_records(3), FakeClock(), max_agents=3)
    outcomes = await asyncio.gather(*(agents.create(ACME, agent(name)) for name in "aabbccdd"), return_exceptions=True)
    assert sorted(ids(await agents.list(ACME))) == ["a", "b", "c"]
    refused = [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]
    assert sorted(refused, key=str) == [AgentExistsError] * 3 + [TooManyAgentsError] * 2
    await agents.create(OTHER, agent("a"))


async def test_two_processes_create_an_agent_once() -> None:
    records, clock = suspending_records(4), FakeClock()
    here, there = StoredAgents(records, clock), StoredAgents(records, clock)
    outcomes = await asyncio.gather(
        *(each.create(ACME, agent("a", goal)) for each, goal in ((here, "1"), (there, "2"))), return_exceptions=True
    )
    (created,) = [outcome for outcome in outcomes if isinstance(outcome, StoredAgent)]
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, AgentExistsError)]
    assert refused.existing == created == await here.get(ACME, "a")


async def test_the_audit_says_who_changed_which_agent_but_not_what_it_says() -> None:
    records, clock = MemoryStore().records, FakeClock()
    agents = StoredAgents(records, clock)
    await agents.create(ACME, agent("a", "secret plans"), actor="host")
    await agents.replace(ACME, agent("a", "other plans"))
    await agents.delete(ACME, "a")
    entries = await Audit(records, clock).list()
    assert [(one.actor, one.action, one.target_kind, one.target_id, one.before, one.after) for one in entries] == [
        ("tenant:1", "delete_agent", "agent", "1/a", {"version": 2}, None),
        (
            "tenant:1",
            "update_agent",
            "agent",
            "1/a",
            {"version": 1},
            {"version": 2, "changed": ["goal"], "expected_version": None},
        ),
        ("host", "create_agent", "agent", "1/a", None, {"version": 1}),
    ]
