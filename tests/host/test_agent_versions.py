"""The versions of agents: every change is kept, two admins do not overwrite each other, and runs keep theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import httpx2
import pytest
from msgspec import UNSET, structs, to_builtins

from parley import Agent
from parley.agents.turn import Turn
from parley.host.api.agent_views import AgentView
from parley.host.catalogue import GivenAgent
from parley.host.constitution import Constitution, read_constitution
from parley.host.constitution_diff import diff_constitutions
from parley.host.data.agent_versions import MAX_VERSIONS, VersionNotFoundError
from parley.host.data.agents import AgentEdit, AgentNotFoundError, StaleVersionError, StoredAgents
from parley.host.data.audit import Audit
from parley.host.data.tenant import TenantSettings
from parley.host.models.model import ModelRequest
from parley.stores.interface import PutRecord, RecordKey
from parley.testing.clock import FakeClock
from parley.testing.crashing_store import CrashingStore
from tests.host.a2a_calls import documented_message, result
from tests.host.api_calls import constitution, event_named
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, RunningHost, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore, ProcessDatabase

pytestmark = pytest.mark.anyio

ADA = AgentEdit(actor="ada")


def made(goal: str, id: str = "a") -> Constitution:
    return read_constitution({"id": id, "name": id.title(), "role": "helper", "goal": goal})


async def goals(agents: StoredAgents, tenant: str = ACME) -> list[tuple[int, str]]:
    """The numbers and the goals of an agent's versions, the newest first."""
    found = await agents.versions(await agents.get(tenant, "a"))
    return [(version.number, version.constitution.goal) for version in found]


# --- what is kept -----------------------------------------------------------------------------------------------------


async def test_every_change_is_a_version_with_its_author_moment_and_note() -> None:
    clock = FakeClock()
    agents = StoredAgents(MemoryStore().records, clock)
    await agents.create(ACME, made("one"), actor="ada", note="The beginning.")
    await agents.create(OTHER, made("of another tenant"))
    await clock.advance(10)
    second = await agents.replace(ACME, made("two"), AgentEdit(actor="bo", note="Better."))
    assert await agents.replace(ACME, made("two"), AgentEdit(actor="cy")) == second  # no difference, no version
    third = await agents.roll_back(ACME, "a", 1, ADA)
    assert (third.version, third.constitution.goal) == (3, "one")
    versions = await agents.versions(third)
    assert [(one.number, one.by, one.note, one.rollback_to) for one in versions] == [
        (3, "ada", "", 1),
        (2, "bo", "Better.", 0),
        (1, "ada", "The beginning.", 0),
    ]
    assert versions[0].at == versions[1].at == versions[2].at + 10
    assert await goals(agents, OTHER) == [(1, "of another tenant")]
    with pytest.raises(VersionNotFoundError):
        await agents.roll_back(ACME, "a", 4, ADA)


async def test_an_agent_that_was_stored_before_versions_were_kept_has_one() -> None:
    records = MemoryStore().records
    agents = StoredAgents(records, FakeClock())
    kept = {"constitution": to_builtins(made("old")), "created_at": 5, "updated_at": 7}
    await records.write(PutRecord(RecordKey("agents", ACME, "a"), kept))
    before = await agents.get(ACME, "a")
    assert (before.version, await goals(agents)) == (1, [(1, "old")])
    assert ((await agents.version(before, 1)).at, (await agents.version(before, 1)).by) == (7, "unknown")
    pinned = await agents.pin(ACME, "a", 1, ADA)
    await agents.replace(ACME, made("new"), AgentEdit(actor="ada", expected_version=1))
    assert await goals(agents) == [(2, "new"), (1, "old")]
    assert (await agents.get(ACME, "a")).live == pinned.constitution


async def test_the_oldest_versions_are_forgotten_but_not_the_one_that_is_pinned() -> None:
    agents = StoredAgents(MemoryStore().records, FakeClock())
    await agents.create(ACME, made("1"))
    await agents.pin(ACME, "a", 1, ADA)
    for number in range(2, MAX_VERSIONS + 4):
        await agents.replace(ACME, made(str(number)))
    agent = await agents.get(ACME, "a")
    found = [version.number for version in await agents.versions(agent)]
    assert found == [*range(MAX_VERSIONS + 3, 4, -1), 1]
    assert (len(found), agent.live.goal) == (MAX_VERSIONS, "1")
    page = await agents.versions(agent, before=7, limit=2)
    assert [version.number for version in page] == [6, 5]


async def test_an_agent_that_is_created_again_goes_on_counting_without_the_old_versions() -> None:
    agents = StoredAgents(MemoryStore().records, FakeClock())
    for goal in ("old", "older"):
        with suppress(AgentNotFoundError):
            await agents.delete(ACME, "a")
        await agents.create(ACME, made(goal))
        await agents.replace(ACME, made(f"{goal} too"))
    assert await goals(agents) == [(4, "older too"), (3, "older")]
    with pytest.raises(VersionNotFoundError):
        await agents.version(await agents.get(ACME, "a"), 2)
    with pytest.raises(StaleVersionError):  # a caller that still has the deleted agent in hand
        await agents.replace(ACME, made("mine"), AgentEdit(actor="ada", expected_version=2))


async def test_changes_of_two_processes_at_once_get_a_number_each() -> None:
    records, clock = suspending_records(5), FakeClock()
    here, there = StoredAgents(records, clock), StoredAgents(records, clock)
    await here.create(ACME, made("first"))
    await asyncio.gather(*(each.replace(ACME, made(goal)) for each, goal in ((here, "h"), (there, "t"), (here, "i"))))
    found = await goals(here)
    assert [number for number, _ in found] == [4, 3, 2, 1]
    assert {goal for _, goal in found} == {"first", "h", "t", "i"}


# --- crashes ----------------------------------------------------------------------------------------------------------

Change: TypeAlias = Callable[[StoredAgents], Awaitable[Any]]
CHANGES: dict[str, Change] = {
    "create": lambda agents: agents.create(ACME, made("new", "b")),
    "replace": lambda agents: agents.replace(ACME, made("three")),
    "roll back": lambda agents: agents.roll_back(ACME, "a", 1, ADA),
    "pin": lambda agents: agents.pin(ACME, "a", 1, ADA),
    "delete": lambda agents: agents.delete(ACME, "a", ADA),
    "save a draft": lambda agents: agents.drafts.save(ACME, made("draft"), "bo"),
    "publish": lambda agents: agents.drafts.publish(ACME, "a", "ada"),
}


async def kept_in(store: MemoryStore) -> Any:
    """Everything that is kept of agents, with the number of entries in the audit."""
    records = store.records
    names = ("agents", "agent_versions/a", "agent_versions/b", "agent_drafts/a", "agent_last_versions")
    kept = [[record.value for record in await records.list(name, ACME, limit=200)] for name in names]
    return kept, len(await Audit(records, FakeClock()).list())


async def prepared() -> MemoryDatabase:
    database = ProcessDatabase()
    agents = StoredAgents(MemoryStore(database).records, FakeClock())
    await agents.create(ACME, made("one"))
    await agents.replace(ACME, made("two"))
    await agents.drafts.save(ACME, made("ada's draft"), "ada")
    return database


@pytest.mark.parametrize("name", CHANGES)
async def test_a_crash_at_any_write_leaves_a_change_whole_or_undone(name: str) -> None:
    change = CHANGES[name]
    database = await prepared()
    before = await kept_in(MemoryStore(database))
    await change(StoredAgents(MemoryStore(database).records, FakeClock()))
    after = await kept_in(MemoryStore(database))
    assert after[1] == before[1] + 1
    seen: list[Any] = []
    for number in range(1, 5):
        for cut in ("before", "after"):
            database = await prepared()
            store, left = CrashingStore(MemoryStore(database)), [number]

            def decide(_: Any, left: list[int] = left, cut: Any = cut) -> Any:
                left[0] -= 1
                return cut if left[0] == 0 else None

            store.decide = decide
            agents: Any = StoredAgents(store.records, FakeClock())  # pyright: ignore[reportArgumentType]
            at_work = asyncio.ensure_future(change(agents))
            await asyncio.wait({at_work, asyncio.ensure_future(store.crashed.wait())}, return_when="FIRST_COMPLETED")
            at_work.cancel()
            if not store.has_crashed:
                continue
            found = await kept_in(MemoryStore(database))
            assert found in (before, after), (number, cut)
            seen.append(found == after)
    assert seen == [False, False, False, True]  # the number of the audit's entry, and the one write of everything


# --- differences ------------------------------------------------------------------------------------------------------


def test_a_difference_names_each_member_and_shows_the_lines_of_long_texts() -> None:
    text = "Answer briefly.\nCite your sources.\nBe kind."
    before = constitution(personality=text, rules=["one", "two"], advisor={"model": "m", "mode": "gate"})
    after: dict[str, Any] = {
        **before,
        "personality": text.replace("kind", "strict"),
        "rules": ["one"],
        "temperature": 0.5,
    }
    del after["advisor"]
    found = {one.member: one for one in diff_constitutions(read_constitution(before), read_constitution(after))}
    assert set(found) == {"personality", "rules", "temperature", "advisor_model"} | {
        f"advisor.{name}" for name in ("model", "mode", "prompt", "max_redirects", "malformed_halts")
    }
    assert (found["temperature"].before, found["temperature"].after) == (0.3, 0.5)
    assert (found["advisor.mode"].before, found["advisor.mode"].after) == ("gate", None)
    assert "lines" not in to_builtins(found["temperature"])
    assert str(found["personality"].lines).splitlines()[-2:] == ["-Be kind.", "+Be strict."]
    assert "-two" in str(found["rules"].lines).splitlines()
    assert diff_constitutions(read_constitution(before), read_constitution(before)) == []


def test_texts_of_many_lines_are_not_compared_line_by_line() -> None:
    """It would take seconds, in which the host answers no other request."""
    short, long = ("\n".join(["a"] * number) for number in (1, 301))
    before, after = (read_constitution(constitution(personality=text)) for text in (short, long))
    (change,) = diff_constitutions(before, after)
    assert (change.before, change.after, change.lines) == (short, long, UNSET)


def test_the_view_of_an_agent_has_every_member_of_a_constitution() -> None:
    """Otherwise an admin who edits what was read would remove the members that were not shown."""
    shown = {field.name for field in structs.fields(AgentView)}
    assert {field.name for field in structs.fields(Constitution)} <= shown


# --- over the native API ----------------------------------------------------------------------------------------------


async def shows_version(request: ModelRequest) -> AsyncIterator[str]:
    """Every version of the tests has another bound of tokens."""
    yield f"{request.agent_id} {request.max_tokens}"


MODELS = {"parley/router": FunctionModel(shows_version)}


def numbered(number: int, agent_id: str = "writer") -> dict[str, Any]:
    return constitution(agent_id, max_tokens=100 + number)


async def said(client: httpx2.AsyncClient, agent: str = "writer") -> str:
    events = await read_events(client, "POST", f"/v1/agents/{agent}/chat", json={"message": "hi"})
    return event_named(events, "done")["content"]


async def other_admin(running: RunningHost, name: str = "bo") -> httpx2.AsyncClient:
    """A client of another principal of the same tenant."""
    reply = await running.acme.client.post("/v1/access/tokens", json={"name": name, "role": "developer"})
    return await running.client(reply.json()["token"])


async def test_of_two_admins_who_change_an_agent_at_once_the_second_is_refused_with_what_to_merge() -> None:
    async with running_host(models=MODELS, tenants=("acme",)) as running:
        ada, bo = running.acme.client, await other_admin(running)
        await ada.post("/v1/agents", json=numbered(1))
        tags = [(await one.get("/v1/agents/writer")).headers["etag"] for one in (ada, bo)]
        assert tags == ['"1"', '"1"']
        first = await bo.patch("/v1/agents/writer", json=numbered(2), headers={"If-Match": tags[1]})
        assert (first.status_code, first.headers["etag"], first.json()["version"]) == (200, '"2"', 2)
        for header, member, status in (({"If-Match": 'W/"1"'}, {}, 412), ({}, {"expected_version": 1}, 409)):
            refused = await ada.patch("/v1/agents/writer", json={**numbered(3), **member}, headers=header)
            reply = refused.json()
            assert (refused.status_code, reply["current_version"], reply["base_version"]) == (status, 2, 1)
            assert reply["changed_by"] == first.json()["changed_by"] != "tenant:1"
            assert reply["diff"] == [{"member": "max_tokens", "before": 101, "after": 102}]
        for method, path, body in (
            ("DELETE", "/v1/agents/writer", None),
            ("POST", "/v1/agents/writer/rollback", {"version": 1}),
            ("POST", "/v1/agents/writer/pin", {"version": 1}),
            ("DELETE", "/v1/agents/writer/pin", None),
        ):
            refused = await ada.request(method, path, json=body, headers={"If-Match": tags[0]})
            assert (refused.status_code, refused.json()["current_version"]) == (412, 2), path
        assert (await ada.get("/v1/agents/writer")).json() == first.json()  # nothing was changed
        merged = await ada.patch("/v1/agents/writer", json={**numbered(3), "expected_version": 2, "note": "Merged."})
        assert merged.json()["version"] == 3
        assert (await bo.patch("/v1/agents/writer", json=numbered(4))).json()["version"] == 4  # the last writer wins
        entries = (await running.admin.get("/v1/admin/audit", params={"limit": 3})).json()["entries"]
        assert [entry["after"]["expected_version"] for entry in entries] == [None, 2, 1]  # and it is seen


@pytest.mark.parametrize(
    ("body", "headers", "error"),
    [
        ({"expected_version": 0}, {}, "$.expected_version: "),
        ({"expected_version": True}, {}, "$.expected_version: "),
        ({"expected_version": 1}, {"If-Match": '"2"'}, "$.expected_version: differs from If-Match"),
        ({"note": "x" * 1_001}, {}, "$.note: "),
        ({}, {"If-Match": "1"}, "If-Match: must be"),
        ({}, {"If-Match": '"1", "2"'}, "If-Match: must be"),
    ],
)
async def test_a_precondition_that_is_not_valid_changes_nothing(
    body: dict[str, Any], headers: dict[str, str], error: str
) -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=numbered(1))
        reply = await client.patch("/v1/agents/writer", json={**numbered(2), **body}, headers=headers)
        assert (reply.status_code, reply.json()["error"][: len(error)]) == (400, error)
        assert (await client.get("/v1/agents/writer")).json()["version"] == 1


async def test_versions_are_listed_compared_restored_and_pinned() -> None:
    async with running_host(models=MODELS, tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json={"agent_def": numbered(1), "note": "First."})
        for number in (2, 3):
            await client.patch("/v1/agents/writer", json=numbered(number))
        page = (await client.get("/v1/agents/writer/versions", params={"limit": 2})).json()
        assert [(one["version"], one["is_live"]) for one in page["versions"]] == [(3, True), (2, False)]
        rest = (await client.get("/v1/agents/writer/versions", params={"before": page["next_before"]})).json()
        assert [(one["version"], one["note"], one["by"]) for one in rest["versions"]] == [(1, "First.", "tenant:1")]
        one = (await client.get("/v1/agents/writer/versions/1")).json()
        assert one["constitution"]["max_tokens"] == 101
        diff = (await client.get("/v1/agents/writer/diff", params={"from": 1, "to": 3})).json()
        assert diff == {"from": 1, "to": 3, "changes": [{"member": "max_tokens", "before": 101, "after": 103}]}
        assert (await client.get("/v1/agents/writer/diff")).json()["from"] == 2
        for path in ("versions/4", "versions/x", "diff?from=9"):
            assert (await client.get(f"/v1/agents/writer/{path}")).status_code == 404
        pinned = (await client.post("/v1/agents/writer/pin", json={"version": 2})).json()
        assert (pinned["version"], pinned["pinned_version"], pinned["max_tokens"]) == (3, 2, 103)
        assert await said(client) == "writer 102"
        await client.patch("/v1/agents/writer", json=numbered(4))
        assert await said(client) == "writer 102"  # stored, and not live
        unpinned = (await client.delete("/v1/agents/writer/pin")).json()
        assert ("pinned_version" in unpinned, await said(client)) == (False, "writer 104")
        back = (await client.post("/v1/agents/writer/rollback", json={"version": 1, "note": "Undo."})).json()
        assert (back["version"], back["max_tokens"], await said(client)) == (5, 101, "writer 101")
        assert (await client.post("/v1/agents/index/rollback", json={"version": 1})).status_code == 400
        assert (await client.get("/v1/agents/index/versions")).status_code == 404


async def test_what_is_pinned_is_still_called_after_a_restart() -> None:
    database = MemoryDatabase()
    async with running_host(models=MODELS, tenants=("acme",), store=MemoryStore(database)) as running:
        token = running.acme.token
        await running.acme.client.post("/v1/agents", json=numbered(1))
        await running.acme.client.post("/v1/agents/writer/pin", json={"version": 1})
        await running.acme.client.patch("/v1/agents/writer", json=numbered(2))
    async with running_host(models=MODELS, tenants=(), store=MemoryStore(database)) as running:
        assert await said(await running.client(token)) == "writer 101"


# --- runs keep their version ------------------------------------------------------------------------------------------


async def delegates(request: ModelRequest) -> AsyncIterator[str]:
    """The boss has the clerk ask the user, and both say in the end which versions they are."""
    if request.results:
        yield f"boss {request.max_tokens}, {request.results[0].body}"
    else:
        yield "/agent clerk ask\n"


def clerk() -> GivenAgent:
    agent = Agent("Clerk", id="clerk", description="Asks.")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        return f"clerk heard {(await turn.ask('What?')).text}"

    return GivenAgent(agent)


async def asked(tenant: HostTenant) -> str:
    """A request to the boss that waits for an answer."""
    await tenant.client.post("/v1/agents", json=numbered(1, "boss"))
    events = await read_events(tenant.client, "POST", "/v1/agents/boss/chat", json={"message": "go"})
    assert events[-1].name == "input_required"
    return event_named(events, "request_received")["request_id"]


async def test_a_task_that_is_answered_after_a_restart_keeps_the_version_that_it_began_with() -> None:
    database, models = MemoryDatabase(), {"parley/router": FunctionModel(delegates)}
    async with running_host(
        models=models, tenants=("acme",), store=MemoryStore(database), given_agents=(clerk(),)
    ) as running:
        await running.host.tenants.update(running.acme.id, settings=TenantSettings(input_required=True))
        request_id, token = await asked(running.acme), running.acme.token
        await running.acme.client.patch("/v1/agents/boss", json=numbered(2, "boss"))
        waiting = (await running.acme.client.get(f"/v1/requests/{request_id}")).json()["request"]
        assert (waiting["state"], waiting["agent_version"]) == ("input_required", 1)
    async with running_host(models=models, tenants=(), store=MemoryStore(database), given_agents=(clerk(),)) as running:
        client = await running.client(token)
        answer = documented_message("tea", taskId=request_id)
        task = await result(client, "message/send", answer, agent="boss")
        assert task["status"]["message"]["parts"][0]["text"] == "boss 101, clerk heard tea"
        assert task["metadata"]["x-arbiter.agent_version"] == 1


async def test_a_run_at_work_and_its_sub_agents_keep_their_versions() -> None:
    begun, go_on, cut_off = asyncio.Event(), asyncio.Event(), MemoryDatabase()

    async def works(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "boss":
            yield f"boss {request.max_tokens}, {request.results[0].body}" if request.results else "/agent writer go\n"
            return
        begun.set()
        await go_on.wait()
        yield f"writer {request.max_tokens}"

    models = {"parley/router": FunctionModel(works)}
    async with running_host(models=models, tenants=("acme",), store=MemoryStore(cut_off)) as running:
        client, token = running.acme.client, running.acme.token
        for agent_id in ("boss", "writer"):
            await client.post("/v1/agents", json=numbered(1, agent_id))
        (received,) = await read_events(
            client, "POST", "/v1/agents/boss/chat", json={"message": "go"}, until="request_received"
        )
        await begun.wait()
        for agent_id in ("boss", "writer"):
            await client.patch(f"/v1/agents/{agent_id}", json=numbered(2, agent_id))
    go_on.set()
    async with running_host(models=models, tenants=(), store=MemoryStore(cut_off)) as running:
        client, path = await running.client(token), f"/v1/requests/{received.payload['request_id']}"
        done = event_named(await read_events(client, "GET", f"{path}/events"), "done")
        assert done["content"] == "boss 101, writer 101"
        tree = (await client.get(f"{path}/tree")).json()
        assert (tree["agent_version"], tree["children"][0]["agent_version"]) == (1, 1)
        assert await said(client) == "writer 102"
