"""Background work: requests that are answered at once, the queue of a tenant, and how their ends are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from parley.host.models.model import ModelRequest
from parley.server.webhooks.guard import WebhookPolicy
from tests.host.a2a_calls import call, documented_message, message, result
from tests.host.api_calls import NEVER_USED, constitution
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, running_host
from tests.server.test_webhooks import receiving

pytestmark = pytest.mark.anyio

WEBHOOKS: Any = {"webhooks": WebhookPolicy(allow_private=True)}


class Script:
    """A model that waits for `wait`, and delegates for `ask`."""

    def __init__(self) -> None:
        self.may_go_on, self.waits = asyncio.Event(), asyncio.Event()
        self.models: dict[str, Any] = {"parley/router": FunctionModel(self._reply)}

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        if "ask" in request.query and not request.results:
            yield "/agent helper wait\n"
            return
        if "wait" in request.query:
            self.waits.set()
            await self.may_go_on.wait()
        yield "done"


async def begin(tenant: HostTenant, text: str, **body: Any) -> str:
    reply = await tenant.client.post("/v1/requests", json={"message": text, **body})
    assert reply.status_code == 202, reply.text
    assert reply.headers["location"] == f"/v1/requests/{reply.json()['request_id']}"
    return reply.json()["request_id"]


async def test_a_request_is_answered_with_its_id_and_its_end_can_be_waited_for() -> None:
    script = Script()
    async with running_host(models=script.models, tenants=("acme",)) as running:
        client = running.acme.client
        headers = {"Idempotency-Key": "k"}
        replies = [await client.post("/v1/requests", json={"message": "wait"}, headers=headers) for _ in range(2)]
        (request_id,) = {reply.json()["request_id"] for reply in replies}
        path = f"/v1/requests/{request_id}"
        assert (await client.get(path)).json()["request"]["state"] == "running"
        waiting = asyncio.create_task(client.get(f"{path}?wait=20"))
        await script.waits.wait()
        assert not waiting.done()
        script.may_go_on.set()
        assert (await waiting).json()["request"]["state"] == "completed"
        assert (await client.get(f"{path}?wait=60")).json()["request"]["state"] == "completed"
        assert (await client.get(f"/v1/requests/{NEVER_USED}?wait=60")).status_code == 404
        assert (await client.get(f"{path}?wait=61")).json()["error"].startswith("wait: must be")
        refused = await client.post("/v1/requests", json={"message": "x", "agent": "never"})
        assert refused.status_code == 404


async def test_the_end_of_a_request_is_told_to_its_webhook_if_the_tenant_has_switched_that_on() -> None:
    script = Script()
    async with receiving() as hook, running_host(models=script.models, options=WEBHOOKS) as running:
        acme = running.acme
        await running.admin.patch(f"/v1/admin/tenants/{acme.id}", json={"settings": {"push_notifications": True}})
        authentication = {"scheme": "Bearer", "credentials": "secret"}
        webhook = {"url": hook.url(), "token": "mine", "authentication": authentication}
        ids = [await begin(acme, "hi", webhook=webhook)]
        old = documented_message("hi") | {
            "configuration": {"blocking": False, "pushNotificationConfig": {"url": hook.url(), "token": "mine"}}
        }
        ids.append((await result(acme.client, "message/send", old))["id"])
        new = message("hi") | {
            "configuration": {
                "returnImmediately": True,
                "taskPushNotificationConfig": {"url": hook.url(), "token": "mine"},
            }
        }
        ids.append((await result(acme.client, "SendMessage", new))["task"]["id"])
        ended: dict[str, str] = {}
        seen = 0
        while len(ended) < 3:
            await hook.until(seen + 1)
            seen = len(hook.requests)
            for _, headers, body in hook.requests:
                assert headers["x-a2a-notification-token"] == "mine"
                told = json.loads(body)
                update = told.get("statusUpdate") or told.get("task") or told
                status = update.get("status", {}).get("state", "")
                if status in ("TASK_STATE_COMPLETED", "completed"):
                    ended[update.get("taskId") or update["id"]] = headers.get("authorization", "")
        assert ended == {ids[0]: "Bearer secret", ids[1]: "", ids[2]: ""}
        bad = await acme.client.post("/v1/requests", json={"message": "hi", "webhook": {"url": "ftp://x"}})
        assert (bad.status_code, bad.json()["error"].split(":")[0]) == (400, "$.webhook.url")
        off = await running.globex.client.post("/v1/requests", json={"message": "hi", "webhook": webhook})
        assert (off.status_code, off.json()["error"].split(":")[0]) == (400, "$.webhook")


async def test_the_queue_shows_what_is_at_work_and_what_waits() -> None:
    script = Script()
    async with running_host(models=script.models, runs_at_once=1) as running:
        acme = running.acme
        for agent in ("helper", "other"):
            await acme.client.post("/v1/agents", json=constitution(agent, priority="high"))
        first = await begin(acme, "ask")
        await script.waits.wait()
        second = await begin(acme, "hi", priority="low")
        third = await begin(acme, "hi", agent="other")
        await acme.client.post("/v1/conversations", json={})
        globex = await begin(running.globex, "hi")
        queue = (await acme.client.get("/v1/queue")).json()
        assert (queue["running"], queue["waiting"]) == (2, 2)
        shown = [
            (one["state"], one.get("position"), one["agent_id"], one["priority"], one["depth"])
            for one in queue["entries"]
        ]
        assert shown == [
            ("running", None, "index", "normal", 0),
            ("running", None, "helper", "high", 1),
            ("waiting", 1, "other", "high", 0),
            ("waiting", 2, "index", "low", 0),
        ]
        assert {one["principal"] for one in queue["entries"]} == {f"tenant:{acme.id}"}
        assert [one["request_id"] for one in queue["entries"]][0::2] == [first, third]
        page = (await acme.client.get("/v1/queue?after_position=1&limit=1")).json()
        assert [one["request_id"] for one in page["entries"]] == [second]
        everything = (await running.admin.get("/v1/admin/queue")).json()
        assert everything == {
            "waiting": 3,
            "running": 2,
            "tenants": [
                {"tenant_id": int(acme.id), "waiting": 2, "running": 2},
                {"tenant_id": int(running.globex.id), "waiting": 1, "running": 0},
            ],
        }
        metrics = (await running.anonymous.get("/v1/metrics")).text
        assert f'arbiter_queue_waiting{{tenant="{acme.id}"}} 2.0' in metrics
        assert f'arbiter_queue_running{{tenant="{acme.id}"}} 2.0' in metrics
        script.may_go_on.set()
        for tenant, request_id in ((acme, second), (acme, third), (running.globex, globex)):
            ended = await tenant.client.get(f"/v1/requests/{request_id}?wait=10")
            assert ended.json()["request"]["state"] == "completed"
        assert (await acme.client.get("/v1/queue")).json() == {"waiting": 0, "running": 0, "entries": []}


async def test_a_waiting_request_is_moved_or_canceled_and_one_at_work_is_not_moved() -> None:
    script = Script()
    async with running_host(models=script.models, runs_at_once=1) as running:
        acme = running.acme
        first = await begin(acme, "wait")
        await script.waits.wait()
        second, third = await begin(acme, "hi"), await begin(acme, "hi")
        moved = await acme.client.patch(f"/v1/queue/{third}", json={"priority": "high"})
        assert (moved.json()["position"], moved.json()["level"]) == (1, 8)
        entry = (await running.admin.get("/v1/admin/audit")).json()["entries"][0]
        assert (entry["action"], entry["target_id"]) == ("prioritize_request", f"{acme.id}/{third}")
        assert (entry["before"], entry["after"]) == ({"priority": 5}, {"priority": 8})
        assert (await acme.client.patch(f"/v1/queue/{first}", json={"priority": 1})).status_code == 409
        assert (await running.globex.client.patch(f"/v1/queue/{third}", json={"priority": 1})).status_code == 404
        bad = await acme.client.patch(f"/v1/queue/{third}", json={"priority": "first"})
        assert (bad.status_code, bad.json()["error"].split(":")[0]) == (400, "$.priority")
        assert (await acme.client.post(f"/v1/requests/{second}/cancel")).json()["cancelled"]
        assert (await acme.client.get("/v1/queue")).json()["waiting"] == 1
        waiting = running.host.turns.entry(acme.id, third)
        assert waiting is not None
        waiting.run.abandon()  # another process goes on with it
        assert running.host.turns.entry(acme.id, third) is None


async def test_a_tenant_whose_queue_is_full_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.host.host.MOST_WAITING", 2)
    script = Script()
    async with running_host(models=script.models, runs_at_once=4) as running:
        acme = running.acme
        for _ in range(3):
            params = message("wait", contextId="c") | {"configuration": {"returnImmediately": True}}
            await result(acme.client, "SendMessage", params)
        await script.waits.wait()
        while (await acme.client.get("/v1/queue")).json()["waiting"] < 2:
            pass
        refused = await call(acme.client, "SendMessage", message("more", contextId="c"))
        assert refused["error"]["code"] == -32033
        assert (await acme.client.post("/v1/requests", json={"message": "hi"})).status_code == 429
        await begin(running.globex, "hi")
