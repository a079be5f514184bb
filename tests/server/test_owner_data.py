"""A caller's data over HTTP: exported whole, deleted for good, and nothing of other callers."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley import Agent
from parley.protocol.push import PushAuthentication, PushConfig
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, new_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.telemetry.audit import AuditTrail
from parley.server.telemetry.telemetry import Telemetry
from parley.stores.interface import Owner, Store, TaskFilter
from parley.stores.urls import open_store
from tests.server.serving import running, send

pytestmark = pytest.mark.anyio

ADA_TOKEN, ADA_HASH = new_secret()
BOB_TOKEN, BOB_HASH = new_secret()
ADA, BOB = {"Authorization": f"Bearer {ADA_TOKEN}"}, {"Authorization": f"Bearer {BOB_TOKEN}"}


def secured() -> Security:
    secrets = [StoredSecret(name="ada", hash=ADA_HASH), StoredSecret(name="bob", hash=BOB_HASH)]
    return Security({"token": BearerTokens(secrets)})


def remembering_agent(name: str = "Diary") -> Agent:
    """An agent that remembers what it hears, replies directly to `hi`, asks at `ask` and waits for ever at `wait`."""
    agent = Agent(name, description="Remembers")

    @agent.on_message
    async def remember(turn: Any) -> Any:
        if turn.text == "wait":
            await turn.status("waiting")
            await asyncio.Event().wait()
        if turn.text == "ask":
            await turn.ask("What?")
        await turn.context.set("last", turn.text)
        return f"noted {turn.text}"

    return agent


async def say(
    client: httpx2.AsyncClient, text: str, who: dict[str, str], *, at: str = "", **params: Any
) -> dict[str, Any]:
    body = send(text, message_id=f"m-{text}-{at}", **params)
    reply = await client.post(f"{at}/", json=body, headers={**who, "A2A-Version": "1.0"})
    return reply.json()["result"]["task"]


async def exported(client: httpx2.AsyncClient, who: dict[str, str], **query: str) -> list[dict[str, Any]]:
    reply = await client.get("/parley/data", params=query, headers=who)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-ndjson"), reply.text
    assert reply.headers["cache-control"] == "no-store"
    return [json.loads(line) for line in reply.text.splitlines()]


def kinds(lines: list[dict[str, Any]]) -> dict[str, int]:
    return lines[-1]["counts"]


async def test_an_export_holds_everything_of_its_caller_and_nothing_of_others() -> None:
    app = App(remembering_agent(), security=secured())
    async with running(app) as client:
        task = await say(client, "alpha", ADA)
        await say(client, "beta", BOB)
        key = (await app.store.tasks.find(task["id"]))[0].key
        await app.store.outbox.put(
            key,
            PushConfig(
                "https://hooks.example/a", task["id"], "w", "very-secret", PushAuthentication(("Bearer",), "top-secret")
            ),
        )
        lines = await exported(client, ADA, all="true")
        text = json.dumps(lines)
    assert (lines[0]["kind"], lines[0]["owner"], lines[-1]["kind"]) == ("export", key.owner.name, "end")
    head = next(line for line in lines if line["kind"] == "task")
    assert (head["id"], head["state"], head["contextId"]) == (task["id"], "completed", task["contextId"])
    assert [line["seq"] for line in lines if line["kind"] == "event"] == [*range(1, head["events"] + 1)]
    assert kinds(lines) == {"task": 1, "event": head["events"], "webhook": 1, "contextValue": 1, "send": 1}
    assert "noted alpha" in text
    assert "hooks.example" in text
    assert "secret" not in text
    assert "beta" not in text


async def test_deleted_data_is_gone_and_other_callers_keep_theirs(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    app = App(remembering_agent(), security=secured(), telemetry=Telemetry(audit=AuditTrail(audit)))
    async with running(app) as client:
        task = await say(client, "alpha", ADA)
        await say(client, "gamma", ADA)
        await say(client, "beta", BOB)
        reply = await client.delete("/parley/data", params={"all": "true"}, headers=ADA)
        deleted = reply.json()
        assert (deleted["tasks"], deleted["contextValues"], deleted["isErased"]) == (2, 2, True)
        assert kinds(await exported(client, ADA, all="true")) == {}
        assert kinds(await exported(client, BOB, all="true"))["task"] == 1
        gone = await client.get("/parley/data", params={"task": task["id"]}, headers=ADA)
        assert gone.status_code == 404
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    (line,) = [line for line in lines if line["what"] == "data-deleted"]
    counts = {"tasks": 2, "events": deleted["events"], "webhooks": 0, "contextValues": 2, "sends": 0}
    assert (line["caller"], line["deleted"]) == (lines[0]["caller"], counts)
    assert "alpha" not in audit.read_text()


async def test_one_conversation_or_one_task_is_deleted_alone() -> None:
    app = App(remembering_agent(), security=secured())
    async with running(app) as client:
        first = await say(client, "alpha", ADA)
        second = await say(client, "gamma", ADA)
        other = await client.delete("/parley/data", params={"task": first["id"]}, headers=BOB)
        assert other.status_code == 404
        by_task = await client.delete("/parley/data", params={"task": first["id"]}, headers=ADA)
        assert (by_task.json()["tasks"], by_task.json()["contextValues"]) == (1, 1)
        assert [line["id"] for line in await exported(client, ADA, all="true") if line["kind"] == "task"] == [
            second["id"]
        ]
        by_context = await client.delete("/parley/data", params={"context": second["contextId"]}, headers=ADA)
        assert by_context.json()["tasks"] == 1
        assert kinds(await exported(client, ADA, all="true")) == {}


async def test_a_task_at_work_is_deleted_only_with_cancel_and_one_that_waits_for_its_caller_always() -> None:
    app = App(remembering_agent(), security=secured())
    async with running(app) as client:
        await say(client, "wait", ADA, configuration={"returnImmediately": True})
        await say(client, "ask", ADA)
        refused = await client.delete("/parley/data", params={"all": "true"}, headers=ADA)
        assert refused.status_code == 400
        assert "at work" in refused.json()["error"]["message"]
        assert kinds(await exported(client, ADA, all="true"))["task"] == 2
        deleted = await client.delete("/parley/data", params={"all": "true", "cancel": "true"}, headers=ADA)
        assert deleted.json()["tasks"] == 2
        assert kinds(await exported(client, ADA, all="true")) == {}
        assert not app.local_engine.runs.all


async def test_the_data_with_one_agent_leaves_that_with_another() -> None:
    app = App(remembering_agent("One"), remembering_agent("Two"), security=secured())
    async with running(app) as client:
        await say(client, "alpha", ADA, at="/agents/one")
        await say(client, "beta", ADA, at="/agents/two")
        await client.delete("/agents/one/parley/data", params={"all": "true"}, headers=ADA)
        reply = await client.get("/agents/two/parley/data", params={"all": "true"}, headers=ADA)
        assert "beta" in reply.text
        reply = await client.get("/agents/one/parley/data", params={"all": "true"}, headers=ADA)
        assert "alpha" not in reply.text


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({}, "say what"),
        ({"task": "t", "context": "c"}, "say what"),
        ({"all": "yes"}, "all"),
        ({"all": "true", "owner": "bob"}, "owner"),
        ({"task": ""}, "task"),
        ({"all": "true", "cancel": "1"}, "cancel"),
    ],
)
async def test_a_query_that_does_not_say_what_changes_nothing(query: dict[str, str], named: str) -> None:
    app = App(remembering_agent(), security=secured())
    async with running(app) as client:
        await say(client, "alpha", ADA)
        refused = await client.delete("/parley/data", params=query, headers=ADA)
        assert refused.status_code == 400
        assert named in refused.json()["error"]["message"].lower()
        assert kinds(await exported(client, ADA, all="true"))["task"] == 1


async def test_callers_without_credentials_and_other_methods_are_refused() -> None:
    async with running(App(remembering_agent(), security=secured())) as client:
        assert (await client.get("/parley/data", params={"all": "true"})).status_code == 401
        assert (await client.delete("/parley/data", params={"all": "true"})).status_code == 401
        other = await client.post("/parley/data", params={"all": "true"}, headers=ADA)
        assert (other.status_code, other.headers["allow"]) == (405, "DELETE, GET")


async def test_a_caller_without_credentials_can_export_and_delete_nothing() -> None:
    """All such callers are one owner: any of them could have the data of all.

    Also on this machine: a proxy there, as nginx is by default, may pass on nothing of its own caller.
    """
    app = App(remembering_agent())
    async with running(app) as client:
        await say(client, "alpha", {})
        for verb in ("GET", "DELETE"):
            for tenant in ({}, {"tenant": "acme"}):
                reply = await client.request(verb, "/parley/data", params={"all": "true", **tenant})
                assert (reply.status_code, reply.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
        assert await left_in(app.store, Owner("", "")) == 1


SECRET = "Zebrafinken-4711"


def bytes_of(path: Path) -> bytes:
    """Everything in a store's files: also the WAL and whatever else lies beside it."""
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


async def left_in(store: Store, owner: Owner) -> int:
    return (await store.tasks.list(owner, TaskFilter())).total


async def test_no_byte_of_deleted_data_is_left_in_the_files_of_a_sqlite_store(tmp_path: Path) -> None:
    """While the server runs, and when it has stopped; long and short values, written again and again."""
    path = tmp_path / "store" / "parley.db"
    path.parent.mkdir()
    agent = Agent("Diary", description="Remembers")

    @agent.on_message
    async def repeat(turn: Any) -> Any:
        await turn.context.set("last", turn.text * 40)
        for number in range(20):
            await turn.context.set("count", f"{SECRET} {number}" * 300)
            yield f"{turn.text} {number} " * 20

    app = App(agent, store=f"sqlite:///{path}", security=secured())
    async with running(app, seconds=60) as client:
        for number in range(3):
            await say(client, f"{SECRET}-{number}" * 50, ADA)
        kept = await say(client, "harmless", BOB)
        owner = (await app.store.tasks.find(kept["id"]))[0].key.owner
        assert SECRET.encode() in bytes_of(path)
        deleted = await client.delete("/parley/data", params={"all": "true"}, headers=ADA)
        assert (deleted.json()["tasks"], deleted.json()["isErased"]) == (3, True)
        assert f"{SECRET}-".encode() not in bytes_of(path)
        assert await left_in(app.store, owner) == 1
        await client.delete("/parley/data", params={"all": "true"}, headers=BOB)
        assert SECRET.encode() not in bytes_of(path)
        assert b"harmless" not in bytes_of(path)
    assert SECRET.encode() not in bytes_of(path)


async def test_a_file_that_is_being_read_is_erased_when_the_reader_is_gone(tmp_path: Path) -> None:
    """A program that reads an older state of the file keeps the WAL from being truncated."""
    path = tmp_path / "parley.db"
    store = open_store(f"sqlite:///{path}")
    app = App(remembering_agent(), store=store, security=secured())
    async with running(app, seconds=60) as client:
        await say(client, SECRET, ADA)
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tasks").fetchone()
        deleted = await client.delete("/parley/data", params={"all": "true"}, headers=ADA)
        assert (deleted.json()["tasks"], deleted.json()["isErased"]) == (1, False)
        reader.close()
        again = await client.delete("/parley/data", params={"all": "true"}, headers=ADA)
        assert again.json()["isErased"] is True
        assert SECRET.encode() not in path.read_bytes() + (tmp_path / "parley.db-wal").read_bytes()
