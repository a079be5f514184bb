"""The SDK's side of the page for its users: its snippets run on the SDK's own server and on Parley."""

import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
import uvicorn

from parley import Agent, Client
from parley.server.app import App
from parley.testing import running

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-a2a-sdk.md").read_text()
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "from a2a" in block]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What all snippets of the SDK define."""
    defined: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(block, defined)
    return defined


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The URL of an ASGI application that is served meanwhile."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True


def test_there_is_a_snippet_for_every_idiom() -> None:
    assert len(BLOCKS) == 5


def test_the_first_step_serves_the_executor_with_its_card(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ModuleType("app")
    vars(app).update(executor=names["EchoExecutor"](), card=names["card"])
    monkeypatch.setitem(sys.modules, "app", app)
    written: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], written)
    assert (written["agent"].name, written["agent"].description) == ("Echo", "Repeats what you say.")


async def test_the_executors_do_on_parley_what_the_functions_do(names: dict[str, Any]) -> None:
    async with running(Agent.of(names["PoetExecutor"]())) as client:
        poem = await client.send("Go")
    assert client.text(poem) == "Roses are red."
    assert [message.text for message in poem.history] == ["Go", "Thinking…"]
    async with running(Agent.of(names["BaristaExecutor"]())) as client:
        task = await client.send("large", task=await client.send("espresso"))
    assert client.text(task) == "One large espresso."


async def test_the_server_of_the_sdk_and_parley_give_clients_the_same_answer(names: dict[str, Any]) -> None:
    async with served(names["app"]) as url:
        names["card"].supported_interfaces[0].url = url
        async with Client(url) as client:
            assert (await client.send("hi")).text == "You said: hi"
        assert await names["call"](url) == "You said: hi"
    agent = Agent.of(names["handler"])
    assert [skill.id for skill in agent.card().skills] == ["echo"]
    async with served(App(agent)) as url:
        async with Client(url) as client:
            assert (await client.send("hi")).text == "You said: hi"
        assert await names["call"](url) == "You said: hi"
