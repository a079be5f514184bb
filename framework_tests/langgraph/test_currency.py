"""The sample of the A2A documents for LangGraph: a currency agent with tools, streaming and several turns."""

from pathlib import Path

import pytest
from tests.cli.served import served

from framework_tests.suite import say
from parley import Agent, Client
from parley.cli.serving.agent_loading import load_agent
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import text_of
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "langgraph_currency.py"


@pytest.fixture(autouse=True)
def _use_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def currency() -> Agent:
    return load_agent(str(SAMPLE))


async def test_the_rate_is_looked_up_and_the_answer_is_streamed() -> None:
    async with running(currency()) as client:
        events = [event async for event in client.stream("How much is 100 USD in EUR?")]
    shown = [event.status.message.text for event in events if isinstance(event, StatusUpdate) and event.status.message]
    chunks = [text_of(event.artifact.parts) for event in events if isinstance(event, ArtifactUpdate)]
    assert shown == ["Calling get_exchange_rate(currency_from='USD', currency_to='EUR')"]
    assert [chunk for chunk in chunks if chunk] == ["100 ", "USD ", "is ", "92.00 ", "EUR."]


async def test_the_missing_currency_is_asked_for_and_the_question_survives_sigkill(tmp_path: Path) -> None:
    store = ("--port", "0", "--store", f"sqlite:///{tmp_path}/parley.db")
    with served(str(SAMPLE), *store, cwd=tmp_path) as server:
        async with Client(server.until_ready()) as client:
            asked = await client.send("How much is 100 USD?")
            server.process.kill()
            server.process.wait()
    assert (asked.state, asked.question) == (TaskState.INPUT_REQUIRED, "To which currency would you like to convert?")
    with served(str(SAMPLE), *store, cwd=tmp_path) as server:
        async with Client(server.until_ready()) as client:
            reply = await client.send("in GBP", task=asked.task)
    assert (reply.text, reply.reason) == ("100 USD is 79.00 GBP.", "")


async def test_the_next_message_goes_on_with_the_conversation() -> None:
    async with running(currency()) as client:
        first = await say(client, "How much is 10 USD in INR?")
        second = await say(client, "And in JPY?", after=first)
    assert [client.text(task) for task in (first, second)] == ["10 USD is 830.00 INR.", "10 USD is 1500.00 JPY."]


async def test_it_survives_crashes() -> None:
    await survives_crashes(currency(), "How much is 100 USD?", answers=["in GBP"])


def test_the_card_has_the_tools_as_skills() -> None:
    card = currency().card()
    assert (card.name, [skill.id for skill in card.skills]) == ("Currency", ["get_exchange_rate", "ask_user"])
