"""Parley's side of every idiom on the page for users of a2a-sdk. `framework_tests/a2a_sdk` tries the other side."""

import re
from pathlib import Path
from typing import Any

import pytest

from parley.protocol.events import StatusUpdate
from parley.protocol.messages import Message
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.server.app import App
from parley.testing import running, survives_crashes
from tests.server import serving

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parent.parent / "docs" / "coming-from-a2a-sdk.md").read_text()


def ours(heading: str) -> list[dict[str, Any]]:
    """What the snippets of Parley in a section define."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = [block for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL) if "from a2a" not in block]
    defined: list[dict[str, Any]] = []
    for block in blocks:
        names: dict[str, Any] = {}
        exec(block, names)
        defined.append(names)
    return defined


def test_every_snippet_is_tried() -> None:
    sections = [section for section in PAGE.split("\n## ")[1:] if "```python" in section]
    assert [section.splitlines()[0] for section in sections] == [
        "An executor is a function",
        "TaskUpdater",
        "Asking",
        "The server",
        "Cancelling",
        "Clients",
        "Testing",
    ]


async def test_a_function_replies_as_the_executor_does() -> None:
    (names,) = ours("An executor is a function")
    async with running(names["agent"]) as client:
        reply = await client.agent.send_message(SendMessageRequest(client.message("hi")), client.caller)
    assert isinstance(reply, Message)
    assert reply.text == "You said: hi"


async def test_what_is_yielded_is_streamed() -> None:
    (names,) = ours("TaskUpdater")
    async with running(names["agent"]) as client:
        task = await client.send("Go")
    assert client.text(task) == "Roses are red."
    assert [message.text for message in task.history] == ["Go", "Thinking…"]


async def test_a_question_is_one_line_and_the_test_of_the_page_passes() -> None:
    names, _ = ours("Asking")
    (tests,) = ours("Testing")
    await tests["test_it"](names["agent"])


async def test_a_step_is_taken_once() -> None:
    _, names = ours("Asking")
    await survives_crashes(
        names["agent"], "socks", answers=["Rome"], accept=lambda text: text.endswith("socks to Rome")
    )
    names["charged"].clear()
    async with running(names["agent"]) as client:
        asked = await client.send("socks")
        task = await client.send("Rome", task=asked)
    assert client.text(task) == "receipt 1: socks to Rome"


async def test_a_skill_is_on_the_card_and_a_client_calls_it() -> None:
    (names,) = ours("The server")
    (caller,) = ours("Clients")
    card = names["agent"].card()
    (skill,) = card.skills
    assert (skill.id, skill.description, skill.tags, skill.examples) == ("echo", "Repeats.", ("echo",), ("hi",))
    async with serving.running(App(names["agent"])) as http:
        assert await caller["call"](str(http.base_url)) == "hi"


async def test_a_cancelled_function_cleans_up() -> None:
    (names,) = ours("Cancelling")
    async with running(names["agent"]) as client:
        async for event in client.stream("Go"):
            if isinstance(event, StatusUpdate):
                break
        task = await client.cancel(event.task_id)
    assert task.status.state is TaskState.CANCELED
    assert names["log"] == ["closed"]
