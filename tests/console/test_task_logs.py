"""The log of a task over the console's API: pages, moments, the task at any event, and the log as it grows."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Turn
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import RawPart, TextPart
from parley.protocol.tasks import Artifact, TaskState
from parley.stores.interface import Store, TaskKey, Write
from parley.stores.sqlite.store import SqliteStore
from tests.console.consoles import Browser, console_of
from tests.console.test_task_lists import NOON, OWNER, echo_agent, put_task, send
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio


async def get(browser: Browser, path: str, status: int = 200) -> Any:
    reply = await browser.get(f"/console/api/tasks/{path}")
    assert reply.status_code == status, reply.text
    return reply.json()


async def append(store: Store, task_id: str, seq: int, *updates: ArtifactUpdate) -> int:
    """Append updates to a task that works. Returns the number of the last event."""
    write = Write(TaskKey(OWNER, task_id), seq, updates, TaskState.WORKING, NOON)
    await store.tasks.write(write)
    return seq + len(updates)


def chunk(task_id: str, text: str, *, artifact: str = "a", append: bool = True) -> ArtifactUpdate:
    return ArtifactUpdate(task_id, "c-1", Artifact(artifact, (TextPart(text),)), append=append)


async def test_a_log_shows_every_event_with_its_moment_and_the_pause_before_it() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        task = await send(browser, "hello")
        log = await get(browser, f"{task['id']}/log?agent=echo")
        kinds = [event["kind"] for event in log["events"]]
        assert kinds[:2] == ["created", "message-added"]
        assert kinds[-1] == "status"
        assert [event["seq"] for event in log["events"]] == list(range(1, log["last"] + 1))
        assert log["oldest"] == 1
        first, second = log["events"][:2]
        assert (first["pause_ms"], first["is_streamed"], second["is_streamed"]) == (None, True, False)
        assert all(event["at"] is not None and event["pause_ms"] >= 0 for event in log["events"][1:])
        assert second["summary"] == "user: hello"
        assert second["body"]["message"]["parts"] == [{"type": "text", "text": "hello"}]
        page = await get(browser, f"{task['id']}/log?after=1&limit=1")
        assert page["events"] == [second]
        assert (await get(browser, f"{task['id']}/log?after=999"))["events"] == []
        for wrong in ("after=-1", "limit=0", "limit=501", "after=x"):
            await get(browser, f"{task['id']}/log?{wrong}", 400)
        await get(browser, f"{task['id']}/log?agent=other", 404)


async def test_an_event_of_an_older_store_has_no_moment(tmp_path: Path) -> None:
    async with console_of(echo_agent(), store=SqliteStore(tmp_path / "tasks.db")) as server:
        await put_task(server.app.store, "t-1", state=TaskState.WORKING)
        update = chunk("t-1", "x", append=False)
        write = Write(TaskKey(OWNER, "t-1"), 3, (update,), TaskState.WORKING, NOON, written_at=(None,))
        await server.app.store.tasks.write(write)
        log = await get(await server.browser(), "t-1/log?after=2")
        assert [(event["at"] is None, event["pause_ms"] is None) for event in log["events"]] == [
            (False, False),
            (True, True),
        ]


async def test_a_long_event_is_read_by_itself_and_pages_are_bounded() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        await append(store, "t-1", 3, chunk("t-1", "x" * 20_000, append=False), chunk("t-1", "y"))
        log = await get(browser, "t-1/log")
        assert [event["body"] is None for event in log["events"]] == [False, False, False, True, False]
        details = await get(browser, "t-1/log/4")
        assert details["event"]["body"]["artifact"]["parts"][0]["text"] == "x" * 20_000
        assert details["request"] is None
        for wrong in ("0", "6", "-1", "x", "9" * 40):
            await get(browser, f"t-1/log/{wrong}", 404)


async def test_a_task_is_shown_as_it_was_after_each_event() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        asked = await send(browser, "ask")
        await send(browser, "this one", task=asked["id"])
        last = (await get(browser, f"{asked['id']}/log"))["last"]
        shown = [await get(browser, f"{asked['id']}?agent=echo&at={n}") for n in range(1, last + 1)]
        states = [each["snapshot"]["status"]["state"] for each in shown]
        assert states[0] == "TASK_STATE_SUBMITTED"
        assert "TASK_STATE_INPUT_REQUIRED" in states
        assert states[-1] == "TASK_STATE_COMPLETED"
        now = await get(browser, asked["id"])
        assert now["snapshot"] == shown[-1]["snapshot"]
        assert (now["url"], now["is_live"], now["task"]["state"]) == ("/", False, "completed")
        lengths = [len(each["snapshot"].get("history", [])) for each in shown]
        assert lengths == sorted(lengths)
        for wrong in (0, last + 1):
            await get(browser, f"{asked['id']}?at={wrong}", 404)
        await get(browser, f"{asked['id']}?at=x", 400)


async def test_16_000_events_are_folded_to_any_point_quickly(tmp_path: Path) -> None:
    async with console_of(echo_agent(), store=SqliteStore(tmp_path / "tasks.db")) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        seq = 3
        for begin in range(0, 16_000, 500):
            seq = await append(store, "t-1", seq, *[chunk("t-1", f"{n} ") for n in range(begin, begin + 500)])
        with fail_after(5):  # far more than it takes, on a machine that does other things
            half = await get(browser, "t-1?at=8003")
        (artifact,) = half["snapshot"]["artifacts"]
        assert artifact["parts"] == [{"text": "".join(f"{n} " for n in range(8_000))}]
        events, after = 0, 0
        while page := (await get(browser, f"t-1/log?after={after}"))["events"]:
            events, after = events + len(page), page[-1]["seq"]
        assert events == 16_003


async def test_large_files_of_a_snapshot_are_links_and_long_texts_are_cut() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t 1", state=TaskState.WORKING)
        parts = (TextPart("z" * 1_200_000), RawPart(b"ab" * 50_000, "image/png", "a.png"), RawPart(b"small"))
        await append(store, "t 1", 3, ArtifactUpdate("t 1", "c-1", Artifact("a/1", parts)))
        (artifact,) = (await get(browser, "t%201?at=4"))["snapshot"]["artifacts"]
        text, file, small = artifact["parts"]
        assert (len(text["text"]), text["metadata"]) == (1_000_000, {"urn:parley:console:omitted": 200_000})
        assert file == {
            "url": "/console/api/tasks/t%201/files/a%2F1/1?agent=echo&tenant=&at=4",
            "mediaType": "image/png",
            "filename": "a.png",
            "metadata": {"urn:parley:console:omitted": 100_000},
        }
        assert base64.b64decode(small["raw"]) == b"small"
        assert (await browser.get(file["url"])).content == b"ab" * 50_000
        assert (await browser.get(file["url"].replace("/1?", "/0?"))).content == b"z" * 1_200_000


async def test_a_page_follows_a_log_beyond_the_end_of_a_run() -> None:
    goes_on = asyncio.Event()
    agent = Agent("Slow")

    @agent.on_message
    async def tell(turn: Turn) -> AsyncIterator[str]:
        yield "one "
        await goes_on.wait()
        yield "two"
        if turn.text == "ask":
            await turn.ask("And?")

    async with console_of(agent) as server:
        browser = await server.browser()
        page = await browser.page()
        sending = asyncio.create_task(send(browser, "ask"))
        with fail_after(10):
            while not (rows := (await browser.get("/console/api/tasks")).json()["tasks"]):
                await asyncio.sleep(0.01)
            await page.open("c", "task_log", task=rows[0]["id"], agent="slow", after=1)
            kinds, row = list[str](), dict[str, Any]()
            numbers: list[int] = []
            while not any("one" in kind for kind in kinds):
                kinds, numbers, row = await more(page, kinds, numbers)
            assert (row["state"], row["title"]) == ("working", "ask")
            goes_on.set()
            await sending
            while row["state"] != "input-required":
                kinds, numbers, row = await more(page, kinds, numbers)
            asyncio.create_task(send(browser, "done", task=row["id"]))  # noqa: RUF006
            while row["state"] != "completed":
                kinds, numbers, row = await more(page, kinds, numbers)
        assert numbers == list(range(2, row["events"] + 1))


async def more(page: Any, kinds: list[str], numbers: list[int]) -> tuple[list[str], list[int], dict[str, Any]]:
    """What a channel has shown so far, with its next frame."""
    data = (await page.frame("c"))["data"]
    events = data["events"]
    return [*kinds, *[each["summary"] for each in events]], [*numbers, *[each["seq"] for each in events]], data["task"]


async def test_a_log_that_ends_shows_messages_that_other_processes_write_later() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.INPUT_REQUIRED)
        page = await browser.page()
        with fail_after(10):
            await page.open("c", "task_log", task="t-1", agent="echo", after=3)
            assert (await page.frame("c"))["data"]["events"] == []
            await append(store, "t-1", 3, chunk("t-1", "more", append=False))
            assert [event["seq"] for event in (await page.frame("c"))["data"]["events"]] == [4]
            await store.tasks.delete(TaskKey(OWNER, "t-1"))
            gone = await page.frame("c")
            assert (gone["error"]["code"], gone["is_final"]) == ("not_found", True)
            await page.open("d", "task_log", task="t-1", agent="echo")
            assert (await page.frame("d"))["error"]["code"] == "not_found"
            await put_task(store, "t-2")
            await page.open("e", "task_log", task="t-2", agent="echo", after=4)
            assert (await page.frame("e"))["error"]["code"] == "bad_request"
