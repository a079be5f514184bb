"""The operator's routes of the native API."""

from __future__ import annotations

import pytest

from parley.engine.runs.run import Run
from tests.host.api_calls import echo_models
from tests.host.running_host import RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio


async def test_a_new_tenant_gets_its_token_once_and_the_starter_agents() -> None:
    async with running_host(tenants=()) as running:
        reply = await running.admin.post("/v1/admin/tenants", json={"name": " Acme "})
        created = reply.json()
        assert (reply.status_code, created["id"], created["name"]) == (201, 1, "Acme")
        token = created.pop("token")
        assert token.startswith("atr_")
        assert (await running.admin.get("/v1/admin/tenants/1")).json() == created
        assert (await running.admin.get("/v1/admin/tenants")).json() == {"tenants": [created]}
        client = await running.client(token)
        agents = (await client.get("/v1/agents")).json()["agents"]
        assert {"index", "calculator"} <= {agent["id"] for agent in agents}
        assert (await running.admin.get("/v1/admin/tenants/1")).json()["last_used_at"] > 0


async def test_a_tenant_that_is_not_valid_or_absent_is_refused() -> None:
    async with running_host(tenants=("acme",)) as running:
        for method, path, body, status, error in (
            ("POST", "", {"name": ""}, 400, "$.name: "),
            ("POST", "", {}, 400, "$: Object missing required field `name`"),
            ("GET", "/x", None, 400, "the id of a tenant is a number"),
            ("GET", "/9", None, 404, "tenant not found"),
            ("PATCH", "/9", {"disabled": True}, 404, "tenant not found"),
            ("POST", "/9/rotate-token", None, 404, "tenant not found"),
            ("GET", "/9/usage", None, 404, "tenant not found"),
            ("PATCH", "/1", {}, 400, "$: must have"),
            ("PATCH", "/1", {"disabled": "yes"}, 400, "$.disabled: "),
            ("PATCH", "/1", {"quotas": {"requests_per_minute": -1}}, 400, "$.quotas.requests_per_minute: "),
            ("PATCH", "/1", {"quotas": {"requests": 1}}, 400, "$.quotas.requests: is unknown"),
            ("PATCH", "/1", {"settings": {"file_parts": 1}}, 400, "$.settings.file_parts: "),
            ("POST", "/1/rotate-token", {"overlap_seconds": -1}, 400, "$.overlap_seconds: "),
            ("GET", "/1/usage?from=yesterday", None, 400, "from: must be one date"),
            ("GET", "/1/usage?to=9999-12-31", None, 400, "to: must be one date"),
        ):
            reply = await running.admin.request(method, f"/v1/admin/tenants{path}", json=body)
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error), path
        assert len((await running.admin.get("/v1/admin/audit")).json()["entries"]) == 1


async def test_quotas_and_settings_change_member_by_member() -> None:
    async with running_host(tenants=("acme",)) as running:
        path = "/v1/admin/tenants/1"
        await running.admin.patch(path, json={"quotas": {"requests_per_minute": 5}, "settings": {"file_parts": True}})
        quotas = {"tokens_per_day": 100}
        changed = (await running.admin.patch(path, json={"name": "Acme Ltd", "quotas": quotas})).json()
        assert changed["name"] == "Acme Ltd"
        assert (changed["quotas"]["requests_per_minute"], changed["quotas"]["tokens_per_day"]) == (5, 100)
        assert changed["settings"]["file_parts"] is True
        quotas = {"requests_per_minute": None}
        assert (await running.admin.patch(path, json={"quotas": quotas})).json()["quotas"][
            "requests_per_minute"
        ] is None


async def begin_waiting(running: RunningHost) -> Run:
    """The run of a request that waits for ever."""
    await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "wait"}, until="text")
    (run,) = running.host.engine.runs.all
    return run


async def test_disabling_a_tenant_stops_its_work_and_refuses_its_token() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        run = await begin_waiting(running)
        reply = await running.admin.patch("/v1/admin/tenants/1", json={"disabled": True})
        assert reply.json()["disabled"] is True
        await run.wait_for_end()
        assert running.host.engine.runs.all == ()
        assert (await running.acme.client.get("/v1/agents")).status_code == 401
        await running.admin.patch("/v1/admin/tenants/1", json={"disabled": False})
        (request,) = (await running.acme.client.get("/v1/requests")).json()["requests"]
        assert request["state"] == "canceled"


async def test_a_new_token_replaces_the_one_before_at_once_and_stops_its_work() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        run = await begin_waiting(running)
        reply = await running.admin.post("/v1/admin/tenants/1/rotate-token")
        assert (reply.status_code, reply.json()["name"]) == (200, "acme")
        await run.wait_for_end()
        assert (await running.acme.client.get("/v1/agents")).status_code == 401
        client = await running.client(reply.json()["token"])
        (request,) = (await client.get("/v1/requests")).json()["requests"]
        assert request["state"] == "canceled"


async def test_with_an_overlap_both_tokens_work_and_nothing_stops() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        await begin_waiting(running)
        body = {"overlap_seconds": 60}
        token = (await running.admin.post("/v1/admin/tenants/1/rotate-token", json=body)).json()["token"]
        for client in (running.acme.client, await running.client(token)):
            (request,) = (await client.get("/v1/requests")).json()["requests"]
            assert request["state"] == "running"


async def test_the_audit_shows_what_was_changed_newest_first_and_no_token() -> None:
    async with running_host(tenants=()) as running:
        token = (await running.admin.post("/v1/admin/tenants", json={"name": "acme"})).json()["token"]
        await running.admin.patch("/v1/admin/tenants/1", json={"disabled": True})
        rotated = (await running.admin.post("/v1/admin/tenants/1/rotate-token")).json()["token"]
        reply = await running.admin.get("/v1/admin/audit")
        newest = reply.json()["entries"]
        assert [(one["actor"], one["action"], one["target_id"]) for one in newest[:2]] == [
            ("admin", "rotate_tenant_token", "1"),
            ("admin", "update_tenant", "1"),
        ]
        assert (newest[1]["before"], newest[1]["after"]) == ({"disabled": False}, {"disabled": True})
        assert newest[-1]["action"] == "create_tenant"
        assert token not in reply.text
        assert rotated not in reply.text
        page = (await running.admin.get("/v1/admin/audit", params={"limit": 1})).json()["entries"]
        assert page == newest[:1]
        rest = (await running.admin.get("/v1/admin/audit", params={"before_id": page[0]["id"]})).json()["entries"]
        assert rest == newest[1:]


async def test_usage_is_reported_by_agent_and_model() -> None:
    async with running_host(models=echo_models(), tenants=("acme", "globex")) as running:
        for _ in range(2):
            await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "hi"})
        report = (await running.admin.get("/v1/admin/tenants/1/usage")).json()
        assert report["rows"] == [
            {
                "agent": "index",
                "model": "parley/router",
                "calls": 2,
                "input_tokens": 20,
                "output_tokens": 10,
                "cache_read_tokens": 0,
                "cache_create_tokens": 0,
                "cost": "0",
                "calls_without_price": 0,
            }
        ]
        days = {"from": "2001-01-01", "to": "2001-01-31"}
        assert (await running.admin.get("/v1/admin/tenants/1/usage", params=days)).json() == {
            "tenant_id": 1,
            **days,
            "rows": [],
        }
        assert (await running.admin.get("/v1/admin/tenants/2/usage")).json()["rows"] == []
