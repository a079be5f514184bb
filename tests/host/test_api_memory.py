"""Structured memory over the native API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.running_host import HostTenant, running_host

pytestmark = pytest.mark.anyio


async def add(tenant: HostTenant, title: str, **members: Any) -> dict[str, Any]:
    reply = await tenant.client.post("/v1/memory/entries", json={"type": "project", "title": title, **members})
    assert reply.status_code == 201, reply.text
    return reply.json()


async def test_entries_are_added_listed_and_searched() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        launch = await add(running.acme, "Launch date", content="We launch in May.", tags=["plan"])
        colour = await add(running.acme, "Favourite colour", type="user", content="Blue.", conversation_id=3)
        assert (launch["id"], launch["tags"], colour["conversation_id"]) == (1, ["plan"], 3)

        async def titles(path: str, **query: Any) -> list[str]:
            reply = (await client.get(path, params=query)).json()
            entries = reply.get("entries") or [hit["entry"] for hit in reply.get("hits", ())]
            assert reply["count"] == len(entries)
            return [entry["title"] for entry in entries]

        listed = "/v1/memory/entries"
        assert await titles(listed) == ["Favourite colour", "Launch date"]
        assert await titles(listed, type="project,learning") == ["Launch date"]
        assert await titles(listed, tag="plan") == ["Launch date"]
        assert await titles(listed, limit=1) == ["Favourite colour"]
        assert await titles(listed, before_id=2) == ["Launch date"]
        assert await titles(listed, as_of=1) == []
        assert await titles("/v1/memory/search", q="when do we launch") == ["Launch date"]
        assert (await client.get("/v1/memory/entries/1")).json() == launch
        for path, query, error in (
            ("/v1/memory/search", {}, "q: is required"),
            ("/v1/memory/search", {"q": "x", "type": "odd"}, "$.type: must be one of"),
            (listed, {"type": "odd"}, "$.type: must be one of"),
            (listed, {"before_id": "x"}, "before_id: must be one whole number"),
        ):
            reply = await client.get(path, params=query)
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (400, error)


async def test_entries_are_linked_superseded_invalidated_and_deleted() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        for title in ("old", "other"):
            await add(running.acme, title)
        link = {"source_id": 1, "relation": "supports", "target_id": 2}
        linked = await client.post("/v1/memory/links", json=link)
        assert (linked.status_code, linked.json() | link) == (201, linked.json())
        assert (await client.post("/v1/memory/links", json=link)).status_code == 409
        assert (await client.get("/v1/memory/entries/2/links")).json() == {"count": 1, "links": [linked.json()]}
        around = (await client.get("/v1/memory/entries/1/expand", params={"depth": 2})).json()
        assert [one["entry"]["title"] for one in around["entries"]] == ["old", "other"]
        await add(running.acme, "new", supersedes=[1])
        assert (await client.get("/v1/memory/entries/1")).json()["valid_to"] is not None
        invalid = await client.post("/v1/memory/entries/2/invalidate")
        assert (invalid.status_code, invalid.json()["valid_to"] is not None) == (200, True)
        assert [one["id"] for one in (await client.get("/v1/memory/entries")).json()["entries"]] == [3]
        assert (await client.delete("/v1/memory/entries/3")).json() == {"deleted": True}
        for method, path in (
            ("GET", "/v1/memory/entries/3"),
            ("DELETE", "/v1/memory/entries/3"),
            ("POST", "/v1/memory/entries/3/invalidate"),
            ("GET", "/v1/memory/entries/3/links"),
            ("GET", "/v1/memory/entries/3/expand"),
        ):
            assert (await client.request(method, path)).status_code == 404, path


async def test_an_entry_that_is_not_valid_is_not_added() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        for body, status, error in (
            ({"type": "odd", "title": "x"}, 400, "$.type: must be one of"),
            ({"type": "user", "title": " "}, 400, "$.title: "),
            ({"type": "user", "title": "x", "supersedes": [9]}, 404, "no memory entry 9"),
            ({"type": "user", "title": "x", "tags": [5]}, 400, "$.tags[0]: Expected `str`"),
        ):
            reply = await client.post("/v1/memory/entries", json=body)
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error)
        assert (await client.get("/v1/memory/entries")).json() == {"count": 0, "entries": []}
