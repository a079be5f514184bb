"""Conversations over the native API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.running_host import HostTenant, read_events, running_host

pytestmark = pytest.mark.anyio


async def begin(tenant: HostTenant, **body: Any) -> dict[str, Any]:
    reply = await tenant.client.post("/v1/conversations", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def say(tenant: HostTenant, conversation_id: int, message: str, **body: Any) -> dict[str, Any]:
    path = f"/v1/conversations/{conversation_id}/messages"
    return event_named(await read_events(tenant.client, "POST", path, json={"message": message, **body}), "done")


async def test_a_conversation_is_created_changed_and_deleted() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        created = await begin(running.acme, title="Trip")
        assert created == {
            "id": 1,
            "tenant_id": 1,
            "title": "Trip",
            "agent_id": "index",
            "created_at": created["created_at"],
            "updated_at": created["created_at"],
            "archived": False,
            "origin": "api",
            "folder_id": None,
            "message_count": 0,
            "total_tokens": 0,
        }
        assert (await client.get("/v1/conversations/1")).json() == created
        changed = (await client.patch("/v1/conversations/1", json={"title": "Holiday", "archived": True})).json()
        assert (changed["title"], changed["archived"]) == ("Holiday", True)
        assert (await client.patch("/v1/conversations/1", json={"folder_id": None})).status_code == 200
        for body, error in (
            ({}, "$: must have"),
            ({"folder_id": 7}, "$.folder_id: there is no such folder"),
            ({"title": "x" * 501}, "$.title: "),
            ({"archived": "yes"}, "$.archived: "),
        ):
            reply = await client.patch("/v1/conversations/1", json=body)
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (400, error)
        assert (await client.delete("/v1/conversations/1")).json() == {"deleted": True}
        for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/messages")):
            reply = await client.request(method, f"/v1/conversations/1{path}", json={"title": "x"})
            assert (reply.status_code, reply.json()) == (404, {"error": "conversation not found"})
        assert (await client.post("/v1/conversations")).json()["id"] == 2


async def test_an_id_that_is_no_number_is_not_found() -> None:
    async with running_host(tenants=("acme",)) as running:
        await begin(running.acme)
        for conversation_id in ("x", "0", "01", "-1", "1.0", "9" * 40, "%31x"):
            assert (await running.acme.client.get(f"/v1/conversations/{conversation_id}")).status_code == 404


async def test_the_agent_of_a_conversation_is_named_or_defined() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        acme = running.acme
        await acme.client.post("/v1/agents", json=constitution())
        named = await begin(acme, agent="writer")
        assert (await say(acme, named["id"], "hi"))["content"] == "writer heard hi"
        defined = await begin(acme, agent_def=constitution("poet"))
        assert (defined["agent_id"], defined["agent_def"]["goal"]) == ("poet", "Does poet work.")
        assert (await say(acme, defined["id"], "hi"))["content"] == "poet heard hi"
        once = await say(acme, named["id"], "hi", agent_def=constitution("guest"))
        assert once["content"] == "guest heard hi"
        for body, status in (
            ({"agent_id": "a", "agent": "b"}, 400),
            ({"agent_id": "a", "agent_def": constitution("b")}, 400),
            ({"agent_id": "ghost"}, 404),
        ):
            assert (await acme.client.post("/v1/conversations", json=body)).status_code == status, body


async def test_messages_are_told_to_the_agent_and_counted() -> None:
    models = echo_models()
    async with running_host(models=models, tenants=("acme",)) as running:
        acme = running.acme
        conversation_id = (await begin(acme))["id"]
        done = await say(acme, conversation_id, "one")
        assert done["conversation_id"] == conversation_id
        await say(acme, conversation_id, "please fail")
        await say(acme, conversation_id, "two")
        told = [message.text for message in models["parley/router"].requests[-1].messages]
        assert told[:2] == ["one", "index heard one"]
        path = f"/v1/conversations/{conversation_id}/messages"
        whole = (await acme.client.get(path)).json()
        assert (whole["conversation_id"], whole["count"]) == (conversation_id, 5)
        assert [(message["role"], message["content"]) for message in whole["messages"]] == [
            ("user", "one"),
            ("assistant", "index heard one"),
            ("user", "please fail"),
            ("user", "two"),
            ("assistant", "index heard two"),
        ]
        assert whole["messages"][0]["request_id"] == done["request_id"]
        page = (await acme.client.get(path, params={"limit": 2})).json()
        assert page["messages"] == whole["messages"][:2]
        after = {"after_id": page["messages"][-1]["id"], "limit": 501}
        assert (await acme.client.get(path, params=after)).json()["messages"] == whole["messages"][2:]
        assert (await acme.client.get(path, params={"after_id": "x"})).status_code == 400
        shown = (await acme.client.get(f"/v1/conversations/{conversation_id}")).json()
        assert (shown["message_count"], shown["total_tokens"]) == (5, 30)


async def test_the_list_begins_with_the_conversation_that_changed_last() -> None:
    async with running_host(models=echo_models(), tenants=("acme",)) as running:
        acme = running.acme
        for title in ("a", "b", "c"):
            await begin(acme, title=title)

        async def titles(**query: Any) -> list[str]:
            reply = (await acme.client.get("/v1/conversations", params=query)).json()
            assert reply["count"] == len(reply["conversations"])
            return [one["title"] for one in reply["conversations"]]

        await say(acme, 1, "hello")
        assert (await titles())[0] == "a"
        assert len(await titles(limit=2)) == 2
        assert len(await titles(limit=201)) == 3
        assert await titles(before_updated_at=1) == []
        assert await titles(folder_id=1) == []
        for bad in ("now", "", "-1", "9" * 16):
            reply = await acme.client.get("/v1/conversations", params={"before_updated_at": bad})
            assert (reply.status_code, reply.json()["error"][:18]) == (400, "before_updated_at:")


async def test_a_message_that_is_refused_changes_nothing() -> None:
    async with running_host(tenants=("acme",)) as running:
        before = await begin(running.acme)
        reply = await running.acme.client.post("/v1/conversations/1/messages", json={"message": ""})
        assert reply.status_code == 400
        assert (await running.acme.client.get("/v1/conversations/1")).json() == before
