"""The routes of schedules: what they take, show and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from parley.host.data.tenant import Quotas
from tests.host.api_calls import constitution, echo_models
from tests.host.running_host import read_events, running_host

pytestmark = pytest.mark.anyio

DAILY: dict[str, Any] = {"id": "daily", "name": "Daily", "message": "hello", "cron": "0 9 * * *"}


async def test_a_schedule_is_created_shown_changed_and_deleted() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        created = await client.post(
            "/v1/schedules", json={**DAILY, "time_zone": "Asia/Tokyo", "ends_at": "2999-01-01T00:00Z"}
        )
        shown = created.json()
        assert (created.status_code, created.headers["etag"]) == (201, '"1"')
        assert [tick[10:] for tick in shown.pop("next_ticks")] == ["T09:00:00+09:00"] * 5
        assert shown.pop("created_at") == shown.pop("updated_at") > 0
        assert shown == {
            "id": "daily",
            "revision": 1,
            "name": "Daily",
            "agent_id": "index",
            "message": "hello",
            "data": None,
            "cron": "0 9 * * *",
            "every": "",
            "at": "",
            "time_zone": "Asia/Tokyo",
            "enabled": True,
            "status": "active",
            "pause_reason": "",
            "missed": "run_once",
            "overlap": "skip",
            "conversation": "none",
            "ends_at": "2999-01-01T09:00:00+09:00",
            "max_runs": None,
            "retries": 3,
            "runs": 0,
            "created_by": f"tenant:{running.acme.id}",
        }
        changes = {"every": "15 minutes", "ends_at": None, "overlap": "allow"}
        changed = (await client.patch("/v1/schedules/daily", json=changes)).json()
        assert (changed["cron"], changed["every"], changed["ends_at"], changed["revision"]) == (
            "",
            "15 minutes",
            None,
            2,
        )
        assert (await client.get("/v1/schedules/daily")).json() == changed
        assert (await client.delete("/v1/schedules/daily")).json() == {"deleted": True}
        assert (await client.get("/v1/schedules/daily")).status_code == 404
        actions = [entry["action"] for entry in (await running.admin.get("/v1/admin/audit")).json()["entries"]]
        assert actions[:3] == ["delete_schedule", "update_schedule", "create_schedule"]


async def test_a_change_for_an_older_revision_is_refused() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/schedules", json=DAILY)
        first = await client.patch("/v1/schedules/daily", json={"name": "A"}, headers={"If-Match": '"1"'})
        second = await client.patch("/v1/schedules/daily", json={"name": "B"}, headers={"If-Match": '"1"'})
        assert (first.status_code, second.status_code) == (200, 409)
        assert second.json() == {"error": "schedule 'daily' has changed since revision 1; it has revision 2 now"}
        assert (await client.delete("/v1/schedules/daily", headers={"If-Match": "1"})).status_code == 409
        assert (await client.delete("/v1/schedules/daily", headers={"If-Match": "x"})).status_code == 400
        assert (await client.get("/v1/schedules/daily")).json()["name"] == "A"


INVALID: list[tuple[dict[str, Any], int, str]] = [
    ({"cron": "* * * * * *"}, 400, "$.cron: has 6 fields; seconds are not supported"),
    ({"cron": "0 25 * * *"}, 400, "$.cron: the hour field '25' is not valid; it may hold 0 to 23"),
    ({"cron": "", "every": "30s"}, 400, "$.every: must be from 1 minute to 366 days"),
    ({"cron": "", "at": "2020-01-01T00:00:00Z"}, 400, "$.at: there is no tick to come"),
    ({"every": "1h"}, 400, "$.cron: there must be exactly one of cron, every and at"),
    ({"ends_at": "2020-01-01T00:00:00Z"}, 400, "$.ends_at: there is no tick to come"),
    ({"ends_at": "soon"}, 400, "$.ends_at: must be a moment with its offset"),
    ({"time_zone": "Berlin"}, 400, "$.time_zone: there is no time zone 'Berlin'"),
    ({"agent_id": "nobody-here"}, 404, "no agent 'nobody-here' for this tenant"),
    ({"conversation": 9}, 400, "$.conversation: there is no such conversation"),
    ({"conversation": -1}, 400, "$.conversation: there is no such conversation"),
    ({"conversation": "old"}, 400, "$.conversation: "),
    ({"missed": "panic"}, 400, "$.missed: "),
    ({"cron": "", "at": "", "every": ""}, 400, "$.cron: there must be exactly one"),
    ({"message": " "}, 400, "$.message: must not be empty"),
    ({"message": "x" * 100_001}, 400, "$.message: "),
    ({"data": {"x": 1}}, 400, "$.data: The agent does not accept data"),
    ({"name": "a\nb"}, 400, "$.name: must be printable characters"),
    ({"id": "preview"}, 400, "$.id: must have 1 to 64"),
    ({"id": "A/B"}, 400, "$.id: must have 1 to 64"),
    ({"max_runs": 0}, 400, "$.max_runs: "),
    ({"retries": 11}, 400, "$.retries: "),
    ({"id": "taken"}, 409, "schedule 'taken' already exists for this tenant"),
]


async def test_what_is_not_valid_is_refused_and_changes_nothing() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/schedules", json={**DAILY, "id": "taken"})
        kept = (await client.get("/v1/schedules")).json()
        for body, status, error in INVALID:
            reply = await client.post("/v1/schedules", json={**DAILY, **body})
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error), body
            if not {"id", "every"} & body.keys():
                reply = await client.patch("/v1/schedules/taken", json=body)
                assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error), body
        assert (await client.get("/v1/schedules")).json() == kept


async def test_a_preview_shows_the_next_ticks_and_names_the_parameter_at_fault() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        given = {"cron": "30 8 * * MON", "time_zone": "Europe/Berlin"}
        ticks = (await client.get("/v1/schedules/preview", params=given)).json()["next_ticks"]
        assert (len(ticks), {tick[11:19] for tick in ticks}) == (5, {"08:30:00"})
        reply = await client.get("/v1/schedules/preview", params={"cron": "0 0 * 13 *"})
        assert reply.json() == {"error": "cron: the month field '13' is not valid; it may hold 1 to 12 or JAN to DEC"}
        reply = await client.get("/v1/schedules/preview", params={"every": "1 s"})
        assert (reply.status_code, reply.json()["error"]) == (400, "every: must be from 1 minute to 366 days")
        assert len((await client.get("/v1/schedules/preview", params={"every": "PT2H"})).json()["next_ticks"]) == 5


async def test_a_schedule_is_run_now_paused_and_resumed() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=constitution("writer"))
        await client.post("/v1/schedules", json={**DAILY, "agent_id": "writer"})
        headers = {"Idempotency-Key": "once"}
        first = await client.post("/v1/schedules/daily/run", headers=headers)
        again = await client.post("/v1/schedules/daily/run", headers=headers)
        request_id = first.json()["request_id"]
        assert (first.status_code, again.json()) == (201, {"request_id": request_id})
        events = await read_events(client, "GET", f"/v1/requests/{request_id}/events")
        assert events[-1].payload["content"] == "writer heard hello"
        (run,) = (await client.get("/v1/schedules/daily/runs")).json()["runs"]
        assert (run["trigger"], run["outcome"], run["request_id"], run["state"]) == (
            "manual",
            "started",
            request_id,
            "completed",
        )
        (request,) = (await client.get("/v1/requests")).json()["requests"]
        assert (request["request_id"], request["surface"]) == (request_id, "schedule")
        paused = (await client.post("/v1/schedules/daily/pause")).json()
        assert (paused["status"], paused["next_ticks"], paused["revision"]) == ("paused", [], 2)
        assert (await client.post("/v1/schedules/daily/pause")).json()["revision"] == 2
        resumed = (await client.post("/v1/schedules/daily/resume")).json()
        assert (resumed["status"], len(resumed["next_ticks"]), resumed["revision"]) == ("active", 5, 3)


async def test_lists_are_paged() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        for number in range(3):
            await client.post("/v1/schedules", json={**DAILY, "id": f"s{number}"})
        first = (await client.get("/v1/schedules", params={"limit": 2})).json()
        rest = (await client.get("/v1/schedules", params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [one["id"] for one in (*first["schedules"], *rest["schedules"])] == ["s2", "s1", "s0"]
        assert rest["next_cursor"] is None
        for _ in range(3):
            await client.post("/v1/schedules/s0/run")
        page = (await client.get("/v1/schedules/s0/runs", params={"limit": 2})).json()
        last = (await client.get("/v1/schedules/s0/runs", params={"limit": 2, "cursor": page["next_cursor"]})).json()
        assert (len(page["runs"]), len(last["runs"]), last["next_cursor"]) == (2, 1, None)
        for cursor in ("x", "1-", "99999999999999999-a", "1-../x"):
            assert (await client.get("/v1/schedules", params={"cursor": cursor})).status_code == 400


async def test_quotas_bound_how_many_schedules_a_tenant_has_and_how_often_they_run() -> None:
    quotas = Quotas(schedules=1, schedule_interval_seconds=900)
    async with running_host(tenants=("acme",), quotas=quotas) as running:
        client = running.acme.client
        reply = await client.post("/v1/schedules", json={**DAILY, "cron": "0,5 9 * * *"})
        text = "$.cron: two ticks are closer together than 900 seconds, the tenant's quota"
        assert (reply.status_code, reply.json()) == (400, {"error": text})
        assert (await client.post("/v1/schedules", json={**DAILY, "cron": "*/15 * * * *"})).status_code == 201
        reply = await client.post("/v1/schedules", json={**DAILY, "id": "other"})
        assert (reply.status_code, reply.json()) == (413, {"error": "a tenant may have 1 schedules; delete one first"})


async def test_a_token_that_may_not_call_cannot_make_a_schedule_call_for_it() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/schedules", json=DAILY)
        tokens = [
            await running.client(
                (await client.post("/v1/access/tokens", json={"name": name, "scopes": scopes})).json()["token"]
            )
            for name, scopes in (("manager", ["manage", "read"]), ("reader", ["read"]), ("caller", ["call", "read"]))
        ]
        for token in tokens:
            assert (await token.get("/v1/schedules/daily")).status_code == 200
            for method, path, body in (
                ("POST", "/v1/schedules", {**DAILY, "id": "mine"}),
                ("PATCH", "/v1/schedules/daily", {"message": "mine"}),
                ("POST", "/v1/schedules/daily/run", None),
                ("POST", "/v1/schedules/daily/resume", None),
            ):
                assert (await token.request(method, path, json=body)).status_code == 403, path
        manager, reader, caller = tokens
        for token in (reader, caller):
            assert (await token.post("/v1/schedules/daily/pause")).status_code == 403
            assert (await token.delete("/v1/schedules/daily")).status_code == 403
        assert (await manager.post("/v1/schedules/daily/pause")).status_code == 200
        assert (await manager.delete("/v1/schedules/daily")).status_code == 200
