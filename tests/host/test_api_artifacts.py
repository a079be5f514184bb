"""Artifacts over the native API."""

from __future__ import annotations

import pytest

from parley.host.data.artifacts import FILE_LIMIT
from parley.host.data.tenant import Quotas
from tests.host.running_host import running_host

pytestmark = pytest.mark.anyio


async def test_a_file_of_a_conversation_is_written_read_and_deleted() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/conversations", json={})
        files = "/v1/conversations/1/artifacts"
        written = await client.post(files, json={"path": "notes//ä.html", "content": "<script>\N{SNOWMAN}"})
        artifact = written.json()
        assert (written.status_code, artifact["path"], artifact["mime_type"]) == (201, "notes/ä.html", "text/html")
        assert (artifact["conversation_id"], artifact["size"]) == (1, 11)
        listed = {"count": 1, "artifacts": [artifact]}
        assert (await client.get(files)).json() == (await client.get("/v1/artifacts")).json() == listed
        assert (await client.get("/v1/artifacts/1")).json() == artifact
        content = await client.get("/v1/artifacts/1/content")
        assert (content.text, content.headers["content-type"]) == ("<script>\N{SNOWMAN}", "text/html; charset=utf-8")
        assert content.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%A4.html"
        assert content.headers["x-content-type-options"] == "nosniff"
        replaced = (await client.post(files, json={"path": "notes/ä.html", "content": "", "mime_type": "½"})).json()
        assert (replaced["id"], replaced["size"]) == (1, 0)
        content = await client.get("/v1/artifacts/1/content")
        assert content.headers["content-type"] == "text/plain; charset=utf-8"
        assert (await client.delete("/v1/artifacts/1")).json() == {"deleted": True}
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            reply = await client.request(method, f"/v1/artifacts/1{path}")
            assert (reply.status_code, reply.json()) == (404, {"error": "artifact not found"})


async def test_pages_of_artifacts_continue_before_an_id() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        await client.post("/v1/conversations", json={})
        for name in "abc":
            await client.post("/v1/conversations/1/artifacts", json={"path": name, "content": ""})
        for path in ("/v1/artifacts", "/v1/conversations/1/artifacts"):
            page = (await client.get(path, params={"limit": 2})).json()
            assert [one["path"] for one in page["artifacts"]] == ["c", "b"]
            rest = (await client.get(path, params={"before_id": page["artifacts"][-1]["id"]})).json()
            assert [one["path"] for one in rest["artifacts"]] == ["a"]


async def test_what_may_not_be_written_is_refused() -> None:
    async with running_host(tenants=("acme",), quotas=Quotas(storage_bytes=20)) as running:
        client = running.acme.client
        await client.post("/v1/conversations", json={})
        for body, status, error in (
            ({"path": "../x", "content": ""}, 400, "$.path: "),
            ({"path": "x"}, 400, "$: Object missing required field `content`"),
            ({"path": "x", "content": "y" * (FILE_LIMIT + 1)}, 413, "a file may have"),
            ({"path": "x", "content": "y" * 21}, 413, "a tenant may keep 20 bytes"),
        ):
            reply = await client.post("/v1/conversations/1/artifacts", json=body)
            assert (reply.status_code, reply.json()["error"][: len(error)]) == (status, error)
        missing = await client.post("/v1/conversations/2/artifacts", json={"path": "x", "content": ""})
        assert (missing.status_code, missing.json()) == (404, {"error": "conversation not found"})
        assert (await client.get("/v1/artifacts")).json()["count"] == 0


async def test_a_deleted_conversation_takes_its_artifacts_along() -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        for number in (1, 2):
            await client.post("/v1/conversations", json={})
            await client.post(f"/v1/conversations/{number}/artifacts", json={"path": "x", "content": str(number)})
        await client.delete("/v1/conversations/1")
        assert [one["id"] for one in (await client.get("/v1/artifacts")).json()["artifacts"]] == [2]
        assert (await client.get("/v1/conversations/1/artifacts")).status_code == 404
