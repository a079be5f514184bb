"""A tenant moves between hosts: it is the same there, without secrets. A file that is not whole is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from parley.host.data import keys
from parley.host.origin import ORIGIN, owner_name
from parley.host.transfer import format as transfer_format
from parley.host.transfer.collections import RULES
from parley.host.transfer.rebasing import Rebasing
from parley.stores.interface import Owner, PutRecord, RecordKey, TaskKey
from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.running_host import HostTenant, RunningHost, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore

pytestmark = pytest.mark.anyio

SECRET = "s3cret-of-acme"


def test_there_is_a_decision_about_every_collection() -> None:
    names = {
        value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str) and name != "HOST"
    }
    assert {rule.name for rule in RULES} == names
    assert all(rule.reason for rule in RULES if rule.decision == "left out")


def test_every_record_is_read_before_it_is_imported() -> None:
    assert [rule.name for rule in RULES if rule.decision == "copied" and rule.check is None] == [keys.APPROVAL_TIMERS]


async def fill(acme: HostTenant) -> str:
    """Give a tenant some of everything. Returns the id of a request."""
    client = acme.client
    for body in (constitution("writer"), constitution("helper")):
        await client.post("/v1/agents", json=body)
    changed = {**constitution("writer"), "goal": "Writes better."}
    assert (await client.patch("/v1/agents/writer", json=changed)).status_code == 200
    await client.delete("/v1/agents/helper")
    for title in ("first", "second"):
        await client.post("/v1/conversations", json={"title": title, "agent_id": "writer"})
    await client.delete("/v1/conversations/2")
    await client.post("/v1/conversations/1/artifacts", json={"path": "notes.md", "content": "Notes"})
    for title in ("Likes tea", "Likes coffee"):
        await client.post("/v1/memory/entries", json={"type": "user", "title": title})
    await client.post("/v1/memory/links", json={"source_id": 1, "relation": "supports", "target_id": 2})
    await client.post("/v1/schedules", json={"id": "daily", "name": "Daily", "message": "hi", "cron": "@daily"})
    await client.post("/v1/access/tokens", json={"name": SECRET, "scopes": ["read"]})
    events = await read_events(client, "POST", "/v1/conversations/1/messages", json={"message": "hello"})
    await read_events(client, "POST", "/v1/orchestrate", json={"message": "wait here", "agent": "writer"}, until="text")
    return event_named(events, "request_received")["request_id"]


READS = (
    "/v1/agents",
    "/v1/agents/writer/versions",
    "/v1/conversations",
    "/v1/conversations/1",
    "/v1/conversations/1/messages",
    "/v1/conversations/1/artifacts",
    "/v1/artifacts/1",
    "/v1/memory/entries",
    "/v1/memory/entries/1",
    "/v1/schedules/daily/runs",
)


async def shown(client: Any, tenant: str) -> list[Any]:
    """What a tenant sees, without its own id."""
    replies = [await client.get(path) for path in READS]
    assert [reply.status_code for reply in replies] == [200] * len(READS)
    own = re.compile(rf'("tenant_id":|tenant:){tenant}\b')
    return [json.loads(own.sub(r"\g<1>0", reply.text)) for reply in replies]


async def told(client: Any, request_id: str) -> list[Any]:
    """The events of a request, without the tenant's id."""
    events = await read_events(client, "GET", f"/v1/requests/{request_id}/events")
    return [(event.name, event.id, {**event.payload, "tenant_id": 0}) for event in events]


async def exported(running: RunningHost, tenant: str) -> bytes:
    reply = await running.admin.get(f"/v1/admin/tenants/{tenant}/export")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-ndjson")
    return reply.content


async def written_at(host: RunningHost, tenant: str, request_id: str) -> list[datetime | None]:
    """When the events of a request's task were written."""
    key = TaskKey(Owner(tenant, owner_name(tenant)), request_id)
    return [each.written_at for each in await host.host.engine.store.tasks.timed_events(key, after=0, limit=999)]


async def test_a_tenant_is_the_same_at_another_host(tmp_path: Path) -> None:
    async with running_host(models=echo_models(), store=f"sqlite:///{tmp_path / 'host.db'}") as there:
        request_id = await fill(there.acme)
        await there.admin.patch(f"/v1/admin/tenants/{there.acme.id}", json={"quotas": {"tokens_per_day": 1_000_000}})
        before = await shown(there.acme.client, there.acme.id)
        events = await told(there.acme.client, request_id)
        await there.admin.patch(f"/v1/admin/tenants/{there.acme.id}", json={"disabled": True})
        file = await exported(there, there.acme.id)
        (entry, *_) = (await there.admin.get("/v1/admin/audit")).json()["entries"]
        assert (entry["action"], entry["actor"]) == ("export_tenant", "admin")
        moments = await written_at(there, there.acme.id, request_id)
        assert None not in moments
    async with running_host(models=echo_models()) as here:
        reply = await here.admin.post("/v1/admin/tenants/import", content=file)
        report = reply.json()
        assert (reply.status_code, report["name"], report["disabled"]) == (201, "acme", False)
        assert (report["quotas"]["tokens_per_day"], report["set_again"]) == (1_000_000, [f"the access token {SECRET}"])
        client, tenant = await here.client(report["token"]), str(report["id"])
        assert (await shown(client, tenant)) == before
        assert await told(client, request_id) == events
        assert await written_at(here, tenant, request_id) == moments
        waited, answered = (await client.get("/v1/requests")).json()["requests"]
        assert waited["state"] in ("canceled", "failed")  # disabling the tenant cancels it, which may take a moment
        assert answered["state"] == "completed"
        created = (await client.post("/v1/conversations", json={"agent_id": "writer"})).json()
        assert created["id"] > 2  # the tasks of the deleted one are still there
        answer = await read_events(client, "POST", "/v1/conversations/1/messages", json={"message": "again"})
        assert event_named(answer, "done")["content"] == "writer heard again"
        schedule = (await client.get("/v1/schedules/daily")).json()
        assert (schedule["status"], schedule["created_by"]) == ("active", f"tenant:{tenant}")
        assert (await here.globex.client.get("/v1/agents/writer")).status_code == 404


async def test_an_export_holds_no_secrets() -> None:
    async with running_host(models=echo_models()) as running:
        await fill(running.acme)
        token = (await running.acme.client.post("/v1/access/tokens", json={"name": "x", "scopes": ["read"]})).json()
        server = {"definition": {"url": f"https://m.example/?k={SECRET}", "headers": {"X-Key": SECRET, "A": "${KEY}"}}}
        agent = {"url": f"https://a.example/?k={SECRET}", "has_token": True, "name": "far"}
        put = running.host.store.records.write
        await put(PutRecord(RecordKey(keys.MCP_SERVERS, running.acme.id, "m"), server))
        await put(PutRecord(RecordKey(keys.CATALOG_SOURCES, running.acme.id, "far"), agent))
        await put(PutRecord(RecordKey(keys.REGISTRY_SECRETS, running.acme.id, "far"), {"token": SECRET}))
        *lines, end = (await exported(running, running.acme.id)).decode().splitlines()
        text = "\n".join(lines)
        for secret in (SECRET, token["token"], running.acme.token, running.globex.token, running.admin_token):
            assert secret not in text
            assert hashlib.sha256(secret.encode()).hexdigest() not in text
        assert set(json.loads(end)["end"]["set_again"]) == {
            f"the access token {SECRET}",
            "the access token x",
            "the header X-Key of the MCP server m",
            "the environment that the header A of the MCP server m names",
            "the query of the URL of MCP server m",
            "the token for far",
            "the query of the URL of far",
        }


async def test_a_tenant_that_is_at_work_is_exported_with_ends_and_its_schedules_come_paused() -> None:
    async with running_host(models=echo_models()) as running:
        await fill(running.acme)
        file = await exported(running, running.acme.id)
        report = (await running.admin.post("/v1/admin/tenants/import?name=copy", content=file)).json()
        client = await running.client(report["token"])
        waiting, *_ = (await client.get("/v1/requests")).json()["requests"]
        assert (report["name"], waiting["state"]) == ("copy", "failed")
        assert waiting["error_message"].startswith("The task was at work when its tenant was exported")
        schedule = (await client.get("/v1/schedules/daily")).json()
        assert (schedule["status"], schedule["next_ticks"]) == ("paused", [])
        assert schedule["pause_reason"].startswith("It was imported from a tenant that was active")
        assert (await client.post("/v1/schedules/daily/resume")).json()["status"] == "active"
        still, *_ = (await running.acme.client.get("/v1/requests")).json()["requests"]
        assert still["state"] == "running"


def edited(file: bytes, line: int, change: Any) -> bytes:
    """A file with another line, and with a digest that fits."""
    lines = file.splitlines(keepends=True)
    lines[line] = json.dumps(change(json.loads(lines[line]))).encode() + b"\n"
    end = json.loads(lines[-1])
    end["end"] |= {"sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest(), "lines": len(lines) - 1}
    return b"".join([*lines[:-1], json.dumps(end).encode() + b"\n"])


def with_member(name: str, **members: Any) -> Any:
    return lambda line: {name: {**line[name], **members}}


def file_with_origin(file: bytes, line: int, origin: Any) -> bytes:
    """A file in which the first message of a task has another origin."""

    def change(events: Any) -> Any:
        added = next(event for event in events["events"]["events"] if event["type"] == "message-added")
        added["message"]["metadata"] = {ORIGIN: origin}
        return events

    return edited(file, line, change)


def replaced_by(line: Any) -> Any:
    return lambda _: line


def first(file: bytes, name: str, collection: str = "") -> int:
    """The number of the first line of a kind."""
    lines = [json.loads(line) for line in file.splitlines()]
    found = (n for n, line in enumerate(lines) if name in line and line[name].get("collection", "") == collection)
    return next(found)


async def test_a_file_that_is_not_whole_or_not_ours_is_refused_and_leaves_nothing() -> None:
    async with running_host(models=echo_models()) as running:
        await fill(running.acme)
        file = await exported(running, running.acme.id)
        lines = file.splitlines(keepends=True)
        agent, task, ticks = (
            first(file, "record", "agents"),
            first(file, "task"),
            first(file, "record", "schedule_ticks"),
        )
        own = {"collection": "schedule_ticks", "id": f"{running.acme.id}/daily", "sort": 1, "value": {}}
        cases = [
            (b"", "line 1: the file is cut off: its last line is missing"),
            (b"".join(lines[:-1]), f"line {len(lines)}: the file is cut off: its last line is missing"),
            (file[:-20], f"line {len(lines)}: the file is cut off in the middle of a line"),
            (b"".join(lines[:5] + lines[6:]), f"line {len(lines) - 1}: {len(lines) - 1} lines were written, and "),
            (file.replace(b"Likes tea", b"Likes gin"), f"line {len(lines)}: the file was changed after it was written"),
            (file + lines[1], f"line {len(lines) + 1}: there is something after the end"),
            (b'{"tenants": 1}\n', "line 1: cannot be read: "),
            (b"PK\x03\x04\n", "line 1: cannot be read: "),
            (b"".join(lines[1:]), "line 1: the file does not begin with the head of an export"),
            (edited(file, 0, with_member("head", format=2)), "line 1: the file has format 2; this host reads up to 1"),
            (
                edited(file, agent, with_member("record", collection="x")),
                f"line {agent + 1}: this host does not import",
            ),
            (
                edited(file, agent, with_member("record", collection="access_tokens")),
                f"line {agent + 1}: this host does",
            ),
            (edited(file, agent, with_member("record", value={})), f"line {agent + 1}: is not a record of 'agents': "),
            (edited(file, task, with_member("task", state="working")), f"line {task + 1}: a task that is working"),
            (edited(file, task, with_member("task", agent="2/writer")), f"line {task + 1}: the agent does not belong"),
            (edited(file, task, with_member("task", events=99)), "line "),
            (edited(file, ticks, replaced_by({"record": own})), f"line {ticks + 1}: the id does not belong"),
            (edited(file, agent + 1, lambda _: json.loads(lines[agent])), "line "),
            (
                file_with_origin(file, first(file, "events"), {"conversation": "x"}),
                f"line {first(file, 'events') + 1}: what the host says of a message cannot be read: ",
            ),
            (edited(file, 1, replaced_by({"error": "disk"})), "line 2: the export failed here: disk"),
        ]
        store, tenants = running.host.store, (await running.admin.get("/v1/admin/tenants")).json()
        for content, error in cases:
            reply = await running.admin.post("/v1/admin/tenants/import", content=content)
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (400, error)
        assert (await running.admin.get("/v1/admin/tenants")).json() == tenants
        for number in range(3, 3 + len(cases)):
            await assert_nothing(store, str(number))
        assert (await running.admin.post("/v1/admin/tenants/import", content=file)).status_code == 201
        reply = await running.admin.post("/v1/admin/tenants/import", content=file)
        assert reply.status_code == 409
        assert reply.json()["error"].startswith("this export was imported before, as tenant ")
        for client in (running.acme.client, running.anonymous):
            assert (await client.post("/v1/admin/tenants/import", content=file)).status_code == 401
            assert (await client.get(f"/v1/admin/tenants/{running.acme.id}/export")).status_code == 401
        assert (await running.admin.get("/v1/admin/tenants/99/export")).status_code == 404


async def test_a_forged_stop_concerns_no_other_tenant() -> None:
    async with running_host() as running:
        await running.acme.client.post("/v1/stop", json={"reason": "Costs."})
        file = await exported(running, running.acme.id)
        stop = first(file, "record", "stops")
        value = {"tenant": running.globex.id, "target": "@operator", "reason": "Forged.", "by": "admin", "at": 1}
        forged = edited(file, stop, with_member("record", value=value))
        assert (await running.admin.post("/v1/admin/tenants/import", content=forged)).status_code == 201
        assert (await running.globex.client.get("/v1/stops")).json() == {"stopped": False, "stops": []}


async def assert_nothing(store: Any, tenant: str) -> None:
    """Fail if something is kept of a tenant."""
    assert await store.tasks.newest(tenant, limit=1) == []
    for rule in RULES:
        assert await store.records.count(rule.name, tenant) == 0
    for collection in ("artifacts/1", "memory_links/1", "schedule_runs/daily", "agent_versions/writer"):
        assert await store.records.count(collection, tenant) == 0


async def test_an_import_that_a_crash_cut_off_is_removed_at_the_next_start_and_can_be_made_again() -> None:
    async with running_host(models=echo_models()) as there:
        await fill(there.acme)
        file = await exported(there, there.acme.id)
    database = MemoryDatabase()
    async with running_host(models=echo_models(), store=MemoryStore(database), tenants=()) as here:
        importer: Any = here.host.transfer._importer  # pyright: ignore[reportPrivateUsage]

        async def dies(_: object) -> None:
            raise RuntimeError("a crash")

        importer._remove = dies
        with suppress(RuntimeError):
            await here.host.transfer.import_file(chunks(file[:-100]), name=None, actor="admin")
        assert await here.host.store.tasks.newest("1", limit=1)
    async with running_host(models=echo_models(), store=MemoryStore(database), tenants=()) as here:
        await assert_nothing(here.host.store, "1")
        report = await here.admin.post("/v1/admin/tenants/import", content=file)
        assert (report.status_code, report.json()["id"]) == (201, 2)


async def test_one_export_is_imported_once_at_a_time() -> None:
    async with running_host(models=echo_models()) as running:
        await fill(running.acme)
        file, reached = await exported(running, running.acme.id), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield file[:-10]
            reached.set()
            await asyncio.Event().wait()

        first_one = asyncio.create_task(running.host.transfer.import_file(slow(), name=None, actor="admin"))
        await reached.wait()
        reply = await running.admin.post("/v1/admin/tenants/import", content=file)
        assert (reply.status_code, reply.json()) == (409, {"error": "this export is being imported"})
        first_one.cancel()
        with suppress(asyncio.CancelledError):
            await first_one
        await assert_nothing(running.host.store, "3")
        assert (await running.admin.post("/v1/admin/tenants/import", content=file)).status_code == 201


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1_000):
        yield content[start : start + 1_000]


async def test_a_line_may_not_be_longer_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_format, "MAX_LINE", 10_000)
    with pytest.raises(transfer_format.InvalidExportError, match="line 1: has more than 10000 bytes"):
        async for _ in transfer_format.read_lines(chunks(b"x" * 100_000)):
            pass


def test_only_principals_of_the_old_tenant_are_renamed() -> None:
    rebasing = Rebasing("1", "12")
    given: dict[str, Any] = {
        "tenant": "1",
        "by": ["tenant:1", "token:1/x", "schedule:1/a/b", "tenant:11", "token:2/1", "see tenant:1", "1"],
        "more": {"tenant": "2", "n": 1},
    }
    assert rebasing.value(given) == {
        "tenant": "12",
        "by": ["tenant:12", "token:12/x", "schedule:12/a/b", "tenant:11", "token:2/1", "see tenant:1", "1"],
        "more": {"tenant": "2", "n": 1},
    }
