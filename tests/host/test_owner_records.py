"""The data of a tenant, exported and deleted: with its conversations, files, memory and approvals."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from parley.engine.retention_rules import RetentionRule
from parley.host.data import keys
from parley.host.data.keys import APPROVAL_TIMERS, HOST
from parley.host.owner_records import DECISIONS
from tests.host.approving_host import NOTE, RULE, ApprovingHost, approving_host
from tests.host.running_host import read_events, running_host

pytestmark = pytest.mark.anyio

SECRET = "Zebrafinken-4711"
PATH = "/v1/a2a/agents/writer/parley/data"


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def talked(host: ApprovingHost) -> tuple[int, str]:
    """A conversation with a file, a memory and a decided approval: its id, and that of its request."""
    created = await host.client.post("/v1/conversations", json={"title": f"About {SECRET}", "agent_id": "writer"})
    number = created.json()["id"]
    path = f"/v1/conversations/{number}/messages"
    events = await read_events(host.client, "POST", path, json={"message": f"Note {SECRET}."})
    (approval,) = await host.listed()
    await host.decide(approval["id"], comment=f"Fine for {SECRET}.")
    request_id = events[0].payload["request_id"]
    await host.events(request_id)
    data, tenant = host.running.host, host.acme.id
    await data.artifacts.write(tenant, number, "a.txt", f"{SECRET} in a file")
    await data.memory.add(tenant, type="learning", title="a fact", content=f"{SECRET} again", conversation_id=number)
    return number, request_id


def test_every_collection_of_a_host_has_a_decision() -> None:
    names = {
        value
        for name, value in vars(keys).items()
        if name.isupper() and isinstance(value, str) and name not in ("HOST",)
    }
    assert names == set(DECISIONS)
    assert [name for name, rule in DECISIONS.items() if rule.decision == "kept" and not rule.reason] == []


async def test_everything_of_a_tenant_is_exported_and_deleted_and_the_audit_says_so_without_content() -> None:
    async with approving_host(RULE) as host:
        number, request_id = await talked(host)
        exported = await host.client.get(PATH, params={"all": "true"})
        records = [line for line in lines_of(exported.text) if line["kind"] == "record"]
        collections = {record["collection"].partition("/")[0] for record in records}
        assert collections == {
            *("conversations", "artifacts", "artifact_contents", "memory_entries", "scratchpads", "approvals_decided")
        }
        assert exported.text.count(SECRET) > 6

        deleted = (await host.client.delete(PATH, params={"all": "true"})).json()
        assert (deleted["tasks"], deleted["records"]) == (
            1,
            {"artifacts": 1, "conversations": 1, "memory_entries": 1, "scratchpads": 1, "approvals": 1},
        )
        assert lines_of((await host.client.get(PATH, params={"all": "true"})).text)[-1]["counts"] == {}
        for path in (f"/v1/conversations/{number}", f"/v1/requests/{request_id}"):
            assert (await host.client.get(path)).status_code == 404
        store = host.running.host.store
        assert await store.records.count(APPROVAL_TIMERS, HOST) == 0
        audit = (await host.client.get("/v1/audit")).text
        assert SECRET not in audit
        entries = (await host.client.get("/v1/audit")).json()["entries"]
        (entry,) = [entry for entry in entries if entry["action"] == "delete_data"]
        assert entry["actor"] == f"tenant:{host.acme.id}"
        assert entry["after"] == {"tasks": 1, **deleted["records"]}
        assert (await host.client.get("/v1/agents/writer")).status_code == 200  # settings stay


async def test_no_byte_of_a_deleted_conversation_is_left_in_a_sqlite_file(tmp_path: Path) -> None:
    path = tmp_path / "host" / "parley.db"
    path.parent.mkdir()
    async with approving_host(RULE, store=f"sqlite:///{path}", seconds=60) as host:
        number, _ = await talked(host)
        context = f"urn:parley:conversation:{number}"
        deleted = (await host.client.delete(PATH, params={"context": context})).json()
        assert (deleted["tasks"], deleted["isErased"]) == (1, True)
        left = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
        assert SECRET.encode() not in left
        assert NOTE in await host.notes()  # the agent's own scratchpad goes with everything only


async def test_another_tenant_and_tokens_without_the_scope_delete_nothing() -> None:
    async with approving_host(RULE) as host:
        await host.begin()
        reader = await host.client_with("read", "call")
        assert (await reader.get(PATH, params={"all": "true"})).status_code == 200
        refused = await reader.delete(PATH, params={"all": "true"})
        assert (refused.status_code, "manage" in refused.text) == (403, True)
        other = host.running.globex.client
        assert (await other.delete(PATH, params={"all": "true"})).status_code == 404
        caller = await host.client_with("call")
        assert (await caller.get(PATH, params={"all": "true"})).status_code == 403
        assert len(await host.listed()) == 1
        deleted = (await host.client.delete(PATH, params={"all": "true"})).json()
        assert deleted["records"] == {"approvals": 1}
        assert await host.listed() == []


async def test_a_tenant_keeps_finished_tasks_as_long_as_its_settings_say() -> None:
    async with running_host() as running:
        path = f"/v1/admin/tenants/{running.acme.id}"
        assert running.host.engine.retention_rules() == []
        changed = await running.admin.patch(path, json={"settings": {"retention_days": 7}})
        assert (changed.status_code, changed.json()["settings"]["retention_days"]) == (200, 7)
        rule = RetentionRule(timedelta(days=7), tenant=running.acme.id)
        assert running.host.engine.retention_rules() == [rule]
        for days in (0, -1, 36_501, "7", True):
            refused = await running.admin.patch(path, json={"settings": {"retention_days": days}})
            assert (refused.status_code, "$.settings.retention_days" in refused.text) == (400, True)
        assert running.host.engine.retention_rules() == [rule]
        await running.admin.patch(path, json={"settings": {"retention_days": None}})
        assert running.host.engine.retention_rules() == []
