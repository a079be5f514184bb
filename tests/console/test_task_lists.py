"""Lists of tasks over the console's API: filters, search, pages, and what a page sees live."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from parley import Agent, Turn
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, TaskCreated
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import NewTask, Owner, Store, TaskKey, Write
from parley.stores.sqlite.store import SqliteStore
from tests.console.consoles import ADMIN_TOKEN, Browser, ConsoleServer, Page, console_of, console_of_host
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
OWNER = Owner("", "")


def echo_agent(name: str = "Echo") -> Agent:
    agent = Agent(name)

    @agent.on_message
    async def echo(turn: Turn) -> str:
        if turn.text == "ask":
            answer = await turn.ask("Which one?")
            return f"You chose {answer.text}"
        if turn.text == "fail":
            await turn.fail("It cannot be done")
        return f"You said {turn.text}"

    return agent


async def put_task(
    store: Store,
    task_id: str,
    *,
    minute: int = 0,
    text: str = "hello",
    state: TaskState = TaskState.COMPLETED,
    agent: str = "echo",
    context: str = "c-1",
    artifact: tuple[str, ...] = (),
    owner: Owner = OWNER,
    said: str = "",
) -> None:
    """A task as an engine writes it."""
    at = NOON + timedelta(minutes=minute)
    message = Message(f"m-{task_id}", Role.USER, (TextPart(text),), context, task_id)
    chunks = [
        ArtifactUpdate(task_id, context, Artifact("a", (TextPart(chunk),)), append=number > 0)
        for number, chunk in enumerate(artifact)
    ]
    end = Message(f"e-{task_id}", Role.AGENT, (TextPart(said),)) if said else None
    await store.tasks.write(
        Write(
            TaskKey(owner, task_id),
            0,
            (
                TaskCreated(task_id, context, TaskStatus(TaskState.SUBMITTED, None, at)),
                MessageAdded(task_id, context, message),
                *chunks,
                StatusUpdate(task_id, context, TaskStatus(state, end, at)),
            ),
            state,
            at,
            NewTask(agent, context, Version.V1_0, at),
        )
    )


async def listed(browser: Browser, query: str = "") -> dict[str, Any]:
    reply = await browser.get(f"/console/api/tasks{query}")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def ids(browser: Browser, query: str = "") -> list[str]:
    return [row["id"] for row in (await listed(browser, query))["tasks"]]


async def send(browser: Browser, text: str, *, path: str = "/", task: str | None = None) -> dict[str, Any]:
    """Send a message as the page does."""
    message: dict[str, Any] = {
        "messageId": f"{text}-{datetime.now(UTC)}",
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    if task is not None:
        message["taskId"] = task
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    reply = await browser.client.post(path, json=body, headers={**browser.headers, "A2A-Version": "1.0"})
    return reply.json()["result"]["task"]


async def test_a_row_says_what_a_task_is_about() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        task = await send(browser, "fail")
        page = await listed(browser)
        (row,) = page["tasks"]
        assert (page["total"], page["next"], page["searched"]) == (1, None, None)
        assert row == {
            "id": task["id"],
            "agent": "echo",
            "agent_name": "Echo",
            "context": task["contextId"],
            "state": "failed",
            "tenant": "",
            "tenant_name": "",
            "owner": "",
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
            "events": row["events"],
            "size": row["size"],
            "title": "fail",
            "status_text": "It cannot be done",
            "created_in": "1.0",
            "holder": "",
            "parent": None,
        }
        assert row["events"] >= 3
        assert datetime.fromisoformat(row["created_at"]) <= datetime.fromisoformat(row["updated_at"])


async def test_a_list_can_be_narrowed_in_every_way() -> None:
    async with console_of(echo_agent(), echo_agent("Other")) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", minute=1, text="one")
        await put_task(store, "t-2", minute=2, text="two", agent="other", context="c-2", state=TaskState.FAILED)
        await put_task(store, "t-3", minute=3, text="three", state=TaskState.REJECTED)
        await put_task(store, "t-4", minute=4, text="four", context="c-2")
        assert await ids(browser) == ["t-4", "t-3", "t-2", "t-1"]
        assert await ids(browser, "?agent=other") == ["t-2"]
        assert await ids(browser, "?agent=unknown") == []
        assert await ids(browser, "?context=c-2") == ["t-4", "t-2"]
        assert await ids(browser, "?state=failed") == ["t-2"]
        assert await ids(browser, "?state=failed&state=rejected&state=failed") == ["t-3", "t-2"]
        since = quote((NOON + timedelta(minutes=2)).isoformat())
        until = quote((NOON + timedelta(minutes=3)).isoformat())
        assert await ids(browser, f"?since={since}") == ["t-4", "t-3", "t-2"]
        assert await ids(browser, f"?until={until}") == ["t-2", "t-1"]
        assert await ids(browser, f"?since={since}&until={until}") == ["t-2"]
        assert await ids(browser, "?tenant=other") == []
        both = await listed(browser, "?state=completed&state=failed&limit=2")
        assert ([row["id"] for row in both["tasks"]], both["total"]) == (["t-4", "t-2"], 3)
        assert await ids(browser, f"?state=completed&state=failed&limit=2&cursor={both['next']}") == ["t-1"]
        for wrong in ("state=unheard-of", "limit=0", "limit=201", "since=yesterday", "since=2026-11-01", "cursor=x"):
            reply = await browser.get(f"/console/api/tasks?{wrong}")
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_request"), wrong
            assert reply.json()["error"]["path"].startswith(wrong.partition("=")[0])


async def test_text_is_found_wherever_it_is_and_however_it_was_cut() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", minute=1, text="Straße nach Ulm")
        await put_task(store, "t-2", minute=2, artifact=("The ans", "wer is 42", "."))
        await put_task(store, "t-3", minute=3, said="No ANSWER today")
        await put_task(store, "needle-4", minute=4)
        assert await ids(browser, "?text=STRASSE") == ["t-1"]
        assert await ids(browser, "?text=Answer") == ["t-3", "t-2"]
        assert await ids(browser, "?text=edle-4") == ["needle-4"]
        assert await ids(browser, "?text=nothing+of+it") == []
        page = await listed(browser, "?text=answer&limit=1")
        assert ([row["id"] for row in page["tasks"]], page["total"]) == (["t-3"], None)
        assert page["searched"] == {"tasks": 2, "until": "2026-11-01T12:03:00.000000Z"}
        rest = await listed(browser, f"?text=answer&limit=1&cursor={page['next']}")
        assert [row["id"] for row in rest["tasks"]] == ["t-2"]


async def test_a_search_looks_into_2_000_tasks_and_goes_on_from_there(tmp_path: Any) -> None:
    async with console_of(echo_agent(), store=SqliteStore(tmp_path / "tasks.db")) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-oldest", text="the needle")
        for number in range(2_100):
            await put_task(store, f"t-{number}", minute=1 + number)
        page = await listed(browser, "?text=needle")
        assert (page["tasks"], page["searched"]["tasks"]) == ([], 2_000)
        page = await listed(browser, f"?text=needle&cursor={page['next']}")
        assert ([row["id"] for row in page["tasks"]], page["next"]) == (["t-oldest"], None)
        assert page["searched"]["tasks"] == 101


async def test_pages_of_10_000_tasks_cost_little(tmp_path: Any) -> None:
    async with console_of(echo_agent(), store=SqliteStore(tmp_path / "tasks.db")) as server:
        store, browser = server.app.store, await server.browser()
        for begin in range(0, 10_000, 500):
            await asyncio.gather(*[put_task(store, f"t-{n:05}", minute=n) for n in range(begin, begin + 500)])
        first = await listed(browser, "?limit=200")
        assert (first["total"], len(first["tasks"])) == (10_000, 200)
        seen, cursor = [row["id"] for row in first["tasks"]], first["next"]
        while cursor:
            page = await listed(browser, f"?limit=200&cursor={cursor}")
            seen += [row["id"] for row in page["tasks"]]
            cursor = page["next"]
        assert seen == [f"t-{n:05}" for n in reversed(range(10_000))]


async def test_a_page_sees_what_changes() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        old = await send(browser, "before")
        page = await browser.page()
        with fail_after(10):
            await page.open("all", "task_list")
            await page.open("failed", "task_list", state=["failed", "input-required"])
            first = (await page.frame("all"))["data"]
            assert ([row["id"] for row in first["tasks"]], first["removed"]) == ([old["id"]], [])
            assert (await page.frame("failed"))["data"] == {"tasks": [], "removed": []}
            asked = await send(browser, "ask")
            assert await until(page, "all", asked["id"]) == "input-required"
            assert await until(page, "failed", asked["id"]) == "input-required"
            await send(browser, "this", task=asked["id"])
            assert await until(page, "all", asked["id"], "completed") == "completed"
            while (data := (await page.frame("failed"))["data"])["removed"] != [asked["id"]]:
                assert asked["id"] not in data["removed"]


async def until(page: Page, channel: str, task_id: str, state: str | None = None) -> str:
    """The state of a task as soon as a channel shows it, or shows it in a state."""
    while True:
        for row in (await page.frame(channel))["data"]["tasks"]:
            is_wanted = row["state"] == state if state else row["state"] not in ("submitted", "working")
            if row["id"] == task_id and is_wanted:
                return row["state"]


async def test_a_page_sees_what_other_processes_and_retention_do() -> None:
    """Nothing here tells the engine: the store is polled."""
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", minute=1)
        page = await browser.page()
        with fail_after(10):
            await page.open("c", "task_list")
            assert [row["id"] for row in (await page.frame("c"))["data"]["tasks"]] == ["t-1"]
            await put_task(store, "t-2", minute=2)
            assert [row["id"] for row in (await page.frame("c"))["data"]["tasks"]] == ["t-2"]
            await store.tasks.delete(TaskKey(OWNER, "t-1"))
            assert (await page.frame("c"))["data"] == {"tasks": [], "removed": ["t-1"]}


async def test_tenants_of_a_host_see_their_own_tasks_and_operators_all() -> None:
    async with console_of_host() as server:
        acme, globex = [await tenant(server, name) for name in ("acme", "globex")]
        owners = [Owner(each, f"bearer:{each}") for each, _ in (acme, globex)]
        for owner in owners:
            await put_task(server.app.store, f"t-of-{owner.tenant}", agent=f"{owner.tenant}/writer", owner=owner)
        await put_task(server.app.store, "t-both", minute=5, agent="x", owner=owners[0])
        await put_task(server.app.store, "t-both", minute=5, agent="x", owner=owners[1])
        browser = await server.browser()
        await browser.log_in_with(acme[1])
        assert await ids(browser) == ["t-both", f"t-of-{acme[0]}"]
        assert await ids(browser, "?agent=writer") == [f"t-of-{acme[0]}"]
        assert await ids(browser, f"?tenant={globex[0]}") == []
        for path in ("", "/log", "/log/1", "/request", "/webhooks", "/tree", "/files/a/0"):
            gone = await browser.get(f"/console/api/tasks/t-of-{globex[0]}{path}")
            absent = await browser.get(f"/console/api/tasks/t-of-nobody{path}")
            assert (gone.status_code, absent.status_code) == (404, 404)
            assert gone.json() == {"error": {"code": "not_found", "message": f"There is no task t-of-{globex[0]}"}}
        operator = await server.browser()
        await operator.log_in_with(ADMIN_TOKEN)
        page = await listed(operator)
        assert sorted((row["id"], row["tenant_name"]) for row in page["tasks"]) == [
            ("t-both", "acme"),
            ("t-both", "globex"),
            (f"t-of-{acme[0]}", "acme"),
            (f"t-of-{globex[0]}", "globex"),
        ]
        assert await ids(operator, f"?tenant={globex[0]}") == ["t-both", f"t-of-{globex[0]}"]
        assert await ids(operator, f"?agent=writer&tenant={globex[0]}") == [f"t-of-{globex[0]}"]
        shown = (await operator.get(f"/console/api/tasks/t-both?tenant={globex[0]}")).json()
        assert shown["task"]["tenant"] == globex[0]


async def tenant(server: ConsoleServer, name: str) -> tuple[str, str]:
    """A new tenant's id, and its token."""
    async with server.program(Authorization=f"Bearer {ADMIN_TOKEN}") as admin:
        reply = await admin.post("/v1/admin/tenants", json={"name": name})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"]), reply.json()["token"]
