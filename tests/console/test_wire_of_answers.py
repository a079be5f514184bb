"""What the wire shows of secrets that answer `turn.require_auth` in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parley import Agent
from parley.stores.sqlite.store import SqliteStore
from tests.console.consoles import console_of
from tests.console.test_wire import lines_until, watching
from tests.server.serving import send

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_answer_in_words_to_a_demand_for_a_secret_is_masked(method: str, tmp_path: Path) -> None:
    agent = Agent("Bank", description="Asks for a key")

    @agent.on_message
    async def answer(turn: Any) -> Any:
        await turn.require_auth("What is the key?")
        return (await turn.ask("How much?")).text

    async with console_of(agent, store=SqliteStore(tmp_path / "tasks.db")) as server:
        browser = await server.browser()
        asked = await browser.post("/", send("go", message_id="m-1"))
        task = {"taskId": asked.json()["result"]["task"]["id"]}
        page = await watching(browser)
        await browser.post("/", send("of-the-bank", message_id="m-2", method=method, message=task))
        await browser.post("/", send("ten euros", message_id="m-3", message=task))
        lines: list[dict[str, Any]] = []
        while not any("ten euros" in json.dumps(line) for line in lines if line["kind"] == "reply"):
            lines += await lines_until(page, 1)
        requests = [line["body"]["message"]["parts"] for line in lines if line["kind"] == "request"]
        assert requests == [[{"text": "********"}], [{"text": "ten euros"}]]
        assert "of-the-bank" not in json.dumps(lines)
