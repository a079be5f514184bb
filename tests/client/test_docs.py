"""The examples of the pages about the client do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from examples import currency

from parley import Client
from parley.client.options import Bounds, Retries, Timeouts
from parley.dialects.registry import DIALECTS
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from tests.client.scripted_agent import TASK, status
from tests.client.test_client import talker
from tests.server.serving import running, serving

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page: (DOCS / page).read_text() for page in ("client.md", "credentials.md")}


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)


def example(name: str) -> dict[str, Any]:
    """What the example of docs/client.md that defines a name defines."""
    (source,) = [source for source in examples("client.md") if f" {name}(" in source]
    defined: dict[str, Any] = {}
    exec(compile(source, "docs/client.md", "exec"), defined)
    return defined


@pytest.mark.parametrize("page", PAGES)
def test_every_example_can_be_pasted(page: str) -> None:
    assert examples(page)
    for source in examples(page):
        exec(compile(source, page, "exec"), {})


@pytest.mark.anyio
async def test_the_first_example_gets_its_answer_from_the_agent_that_the_page_names() -> None:
    async with running(App(currency.agent, drain_seconds=0)) as http:
        source = examples("client.md")[0].replace("http://127.0.0.1:8080", str(http.base_url))
        defined: dict[str, Any] = {}
        exec(source, defined)
        assert await defined["convert"]() == "100 USD is 92.00 EUR."


@pytest.mark.anyio
async def test_the_webhook_of_the_page_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    defined = example("begin")
    config = defined["receiver"].config
    assert config.url == "https://me.example/hook"
    body = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.WORKING))
    async with serving(defined["app"]) as http:
        answer = await http.post("/hook", headers={"x-a2a-notification-token": config.token}, content=body)
        stranger = await http.post("/hook", content=body)
    assert (answer.status_code, stranger.status_code) == (204, 401)
    assert capsys.readouterr().out.startswith(f"{TASK} StatusUpdate(")


@pytest.mark.anyio
async def test_the_streams_and_lists_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(App(talker(), drain_seconds=0)) as http:
        url = str(http.base_url)
        await example("tell")["tell"](url)
        assert capsys.readouterr().out == "Write a poem"
        async with Client(url) as client:
            asked = await client.send("ask")
            assert asked.task is not None
            await example("tidy_up")["tidy_up"](url)
            assert capsys.readouterr().out == f"{asked.task.id} What?\n"
            assert (await client.get(asked.task)).state is TaskState.CANCELED


@pytest.mark.anyio
async def test_the_test_of_the_page_passes() -> None:
    await example("test_echo")["test_echo"]()


def test_every_number_is_on_the_page_with_its_default() -> None:
    units = {"card_bytes": (1024**2, "MiB"), "reply_bytes": (1024**2, "MiB"), "frame_bytes": (1024**2, "MiB")}
    for options in (Timeouts(), Retries(), Bounds()):
        for name in type(options).__slots__:
            factor, unit = {**units, "stream_bytes": (1024**3, "GiB"), "attempts": (1, "")}.get(name, (1, "s"))
            value = f"{getattr(options, name) / factor:g} {unit}".strip()
            assert f"| `{type(options).__name__}.{name}` | {value} |" in PAGES["client.md"]
