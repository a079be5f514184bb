"""Requests over the native API: beginning them, reading and following them, canceling them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from parley.engine.reading.views import fold_stored
from parley.host.data.tenant import Quotas, TenantSettings
from parley.protocol.messages import RawPart, TextPart, UrlPart
from parley.stores.interface import Owner, TaskKey
from tests.host.api_calls import NEVER_USED, constitution, echo_models, event_named
from tests.host.running_host import HostTenant, RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio


async def test_a_message_is_answered_with_a_stream_that_ends_with_the_answer() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        events = await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "hello"})
        received, done = events[0], events[-1]
        assert received.name == "request_received"
        assert (received.payload["agent"], received.payload["message"]) == ("index", "hello")
        assert done.name == "done"
        assert (done.payload["ok"], done.payload["content"]) == (True, "index heard hello")
        assert done.payload["request_id"] == received.payload["request_id"]


async def test_the_body_may_name_the_agent_or_define_one() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/agents", json=constitution())
        named = {"message": "hi", "agent": "writer"}
        events = await read_events(client, "POST", "/v1/orchestrate", json=named)
        assert event_named(events, "done")["content"] == "writer heard hi"
        defined = {"message": "hi", "agent_def": constitution("poet"), "channel": "voice"}
        events = await read_events(client, "POST", "/v1/orchestrate", json=defined)
        assert event_named(events, "done")["content"] == "poet heard hi"
        received = event_named(events, "request_received")
        assert (received["agent"], received["channel"]) == ("poet", "voice")
        assert (await client.get("/v1/agents/poet")).status_code == 404
        shown = (await client.get(f"/v1/requests/{received['request_id']}")).json()["request"]
        assert shown["agent_id"] == "poet"


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/v1/orchestrate", {"agent": "ghost"}, 404, "no agent 'ghost' for this tenant"),
        ("/v1/orchestrate", {"agent": "no id"}, 404, "no agent 'no id' for this tenant"),
        ("/v1/orchestrate", {"agent": "a", "agent_def": constitution("b")}, 400, "$.agent_def.id: differs"),
        ("/v1/agents/a/chat", {"agent_def": constitution("b")}, 400, "$.agent_def.id: differs"),
        ("/v1/orchestrate", {"agent_def": constitution("index")}, 400, "$.agent_def.id: 'index' is reserved"),
        ("/v1/conversations/9/messages", {}, 404, "conversation not found"),
    ],
)
async def test_what_cannot_begin_is_refused_before_the_stream(path: str, body: Any, status: int, error: str) -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        reply = await client.post(path, json={"message": "hi", **body})
        assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error)
        assert (await client.get("/v1/requests")).json() == {"requests": []}


async def test_images_become_parts_of_the_message() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        await running.host.tenants.update(running.acme.id, settings=TenantSettings(file_parts=True))
        message = [
            {"type": "text", "text": "Look"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()},
            },
            {"type": "image", "source": {"type": "url", "url": "https://images.example/cat.png"}},
        ]
        client = running.acme.client
        events = await read_events(client, "POST", "/v1/orchestrate", json={"message": message})
        request_id = event_named(events, "request_received")["request_id"]
        key = TaskKey(Owner(running.acme.id, f"bearer:{running.acme.id}"), request_id)
        stored = (await running.host.store.tasks.read_many([key], artifacts=False))[0]
        assert stored is not None
        assert fold_stored(stored).history[0].parts == (
            TextPart("Look"),
            RawPart(b"\x89PNG", "image/png"),
            UrlPart("https://images.example/cat.png"),
        )
        for source in (
            {"type": "base64", "media_type": "text/html", "data": ""},
            {"type": "base64", "media_type": "image/png", "data": "%"},
            {"type": "url", "url": "file:///etc/passwd"},
        ):
            body = {"message": [{"type": "image", "source": source}]}
            reply = await client.post("/v1/orchestrate", json=body)
            assert (reply.status_code, reply.json()["error"][:19]) == (400, "$.message[0].source")


async def test_the_same_idempotency_key_joins_the_first_request() -> None:
    async with running_host(models=echo_models(), tenants=("acme", "globex")) as running:
        headers = {"Idempotency-Key": "order-7"}

        async def ask(tenant: HostTenant, message: str) -> dict[str, Any]:
            call = {"json": {"message": message}, "headers": headers}
            return event_named(await read_events(tenant.client, "POST", "/v1/orchestrate", **call), "done")

        first = await ask(running.acme, "one")
        again = await ask(running.acme, "two")
        assert (again["request_id"], again["content"]) == (first["request_id"], "index heard one")
        assert (await ask(running.globex, "three"))["content"] == "index heard three"
        for key in ("x" * 257, ""):
            reply = await running.acme.client.post(
                "/v1/orchestrate", json={"message": "hi"}, headers={"Idempotency-Key": key}
            )
            assert (reply.status_code, reply.json()["error"][:15]) == (400, "Idempotency-Key")


async def test_a_tenant_that_asks_too_much_is_told_when_to_come_back() -> None:
    async with running_host(models=echo_models(), tenants=("acme",), quotas=Quotas(requests_per_minute=1)) as running:
        client = running.acme.client
        await read_events(client, "POST", "/v1/orchestrate", json={"message": "hi"})
        reply = await client.post("/v1/orchestrate", json={"message": "hi"})
        body = reply.json()
        assert (reply.status_code, body["error"], body["reason"]) == (429, "rate limit exceeded", "rate_limit")
        assert int(reply.headers["retry-after"]) == body["retry_after_seconds"] > 0
        assert (await client.get("/v1/requests")).status_code == 200  # reading does not count


async def test_requests_are_listed_newest_first_and_read_one_by_one() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        ids = [
            event_named(await read_events(client, "POST", "/v1/orchestrate", json={"message": text}), "done")[
                "request_id"
            ]
            for text in ("one", "please fail")
        ]
        listed = (await client.get("/v1/requests")).json()["requests"]
        assert [request["request_id"] for request in listed] == ids[::-1]
        failed, completed = listed
        assert (completed["state"], completed["error_message"]) == ("completed", "")
        assert (failed["state"], bool(failed["error_message"])) == ("failed", True)
        assert completed["last_seq"] > 0
        assert completed["completed_at"] >= completed["started_at"] > 0
        for limit, count in (("1", 1), ("0", 2), ("201", 2), ("x", 2)):
            reply = await client.get("/v1/requests", params={"limit": limit})
            assert len(reply.json()["requests"]) == count, limit
        assert (await client.get(f"/v1/requests/{ids[0]}")).json() == {"request": completed}
        reply = await client.get(f"/v1/requests/{NEVER_USED}")
        assert (reply.status_code, reply.json()) == (404, {"error": "request not found"})


async def test_a_tree_shows_what_was_delegated() -> None:
    async with running_host(tenants=("acme",), with_starters=True) as running:
        client = running.acme.client
        events = await read_events(client, "POST", "/v1/orchestrate", json={"message": "What is 15% of 80?"})
        done = event_named(events, "done")
        tree = (await client.get(f"/v1/requests/{done['request_id']}/tree")).json()
        (child,) = tree["children"]
        assert (tree["agent_id"], child["agent_id"], child["children"]) == ("index", "calculator", [])
        assert child["state"] == "completed"
        assert (await client.get("/v1/requests/none/tree")).status_code == 404
        listed = (await client.get("/v1/requests")).json()["requests"]
        assert [request["request_id"] for request in listed] == [tree["request_id"]]


async def test_a_reader_continues_after_the_last_event_that_it_has() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        events = await read_events(client, "POST", "/v1/orchestrate", json={"message": "hi"})
        path = f"/v1/requests/{event_named(events, 'done')['request_id']}/events"
        assert await read_events(client, "GET", path) == events
        middle = next(event for event in events if event.name == "text")
        rest = events[events.index(middle) + 1 :]
        assert await read_events(client, "GET", path, params={"since_seq": middle.id}) == rest
        assert await read_events(client, "GET", path, headers={"Last-Event-ID": middle.id}) == rest
        both = {"params": {"since_seq": "0"}, "headers": {"Last-Event-ID": middle.id}}
        assert await read_events(client, "GET", path, **both) == events
        for bad in ("x", "-1", "9" * 30):
            assert await read_events(client, "GET", path, params={"since_seq": bad}) == events
        assert (await client.get("/v1/requests/none/events")).status_code == 404


async def begin_waiting(running: RunningHost) -> str:
    """A request that waits for ever."""
    events = await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "wait"}, until="text")
    return event_named(events, "request_received")["request_id"]


async def test_a_request_is_canceled_once() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client, request_id = running.acme.client, await begin_waiting(running)
        path = f"/v1/requests/{request_id}/cancel"
        reply = await client.post(path)
        assert (reply.status_code, reply.json()) == (200, {"request_id": request_id, "cancelled": True})
        done = event_named(await read_events(client, "GET", f"/v1/requests/{request_id}/events"), "done")
        assert (done["ok"], done["error_code"]) == (False, "cancelled")
        for wanted in (request_id, NEVER_USED):
            reply = await client.post(f"/v1/requests/{wanted}/cancel")
            reason = "no in-flight request with that id"
            expected = {"request_id": wanted, "cancelled": False, "reason": reason}
            assert (reply.status_code, reply.json()) == (404, expected)


async def test_a_request_goes_on_without_its_reader() -> None:
    """The reader leaves with the first text; the answer comes all the same."""
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        client = running.acme.client
        events = await read_events(client, "POST", "/v1/orchestrate", json={"message": "hi"}, until="stream_start")
        request_id = event_named(events, "request_received")["request_id"]
        events = await read_events(client, "GET", f"/v1/requests/{request_id}/events")
        assert event_named(events, "done")["content"] == "index heard hi"
