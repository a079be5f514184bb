"""A remote agent as a tool: what a model is told of it, and of its answers. The agents are served for real."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.agent_as_tool import AgentAsTool
from parley.client.errors import DiscoveryError, UnreachableError
from tests.cli.served import served

pytestmark = pytest.mark.anyio

SOURCE = """
from parley import Agent, File

agent = Agent("Currency & Co.", description="Converts money.")


@agent.skill
async def convert(turn):
    \"\"\"Converts an amount.\"\"\"
    if turn.text == "fail":
        await turn.fail("There are no rates today.")
    if turn.text == "nothing":
        return None
    if turn.text == "everything":
        return "Text", {"rate": 0.92}, File(b"x", "rates.csv", "text/csv")
    currency = await turn.ask("To which currency?")
    return f"{turn.text} in {currency.text}"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("remote")
    (folder / "currency.py").write_text(SOURCE)
    with served("currency.py", "--port", "0", "--store", "memory:", cwd=folder) as server:
        yield server.until_ready()


async def test_name_and_description_are_those_of_the_card(url: str) -> None:
    remote = AgentAsTool(url)  # although a loop is running here
    assert remote.name == "Currency & Co."
    assert remote.tool_name == "ask_currency_co"
    assert remote.description == "Converts money.\n- Convert: Converts an amount."


async def test_a_given_name_and_description_need_no_card() -> None:
    remote = AgentAsTool("http://127.0.0.1:1", name="Émile", description="Is not there.")
    assert (remote.tool_name, remote.description) == ("ask_mile", "Is not there.")
    assert "The agent has not done it: " in await remote.ask("Hello")


async def test_a_card_that_cannot_be_read_is_an_error_at_once() -> None:
    with pytest.raises((DiscoveryError, UnreachableError)):
        await asyncio.to_thread(AgentAsTool, "http://127.0.0.1:1")


async def test_a_question_says_how_to_answer_it(url: str) -> None:
    remote = AgentAsTool(url, name="currency", description="Converts.")
    asked = await remote.ask("100 USD")
    first, how = asked.splitlines()
    assert first == "The agent asks: To which currency?"
    task_id = how.partition("reply_to='")[2].removesuffix("'.")
    assert await remote.ask("EUR", reply_to=task_id) == "100 USD in EUR"


async def test_data_and_files_are_told_as_text(url: str) -> None:
    remote = AgentAsTool(url, name="currency", description="Converts.")
    assert await remote.ask("everything") == 'Text\n{"rate":0.92}\n[file rates.csv, text/csv]'
    assert await remote.ask("nothing") == "The agent has finished and said nothing."


async def test_a_model_is_told_why_something_was_not_done(url: str) -> None:
    remote = AgentAsTool(url, name="currency", description="Converts.")
    assert "There are no rates today" in await remote.ask("fail")
    assert "The agent has not done it: " in await remote.ask("EUR", reply_to="no-such-task")


async def test_an_id_that_a_model_leaves_empty_in_its_own_way_is_none(url: str) -> None:
    remote = AgentAsTool(url, name="currency", description="Converts.")
    for nothing in ("", "null", "None"):
        assert await remote.ask("nothing", reply_to=nothing) == "The agent has finished and said nothing."
