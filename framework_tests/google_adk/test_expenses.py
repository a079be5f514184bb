"""The sample of the A2A documents for google-adk: an expenses agent that asks with a form."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.served import served

from parley import Agent, Client
from parley.cli.serving.agent_loading import load_agent
from parley.forms.fields import SCHEMA_TYPE
from parley.protocol.messages import DataPart
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "adk_expenses.py"

FILLED_IN = {"date": "2026-05-01", "amount": 20, "purpose": "lunch"}


@pytest.fixture(autouse=True)
def _use_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)


def expenses() -> Agent:
    return load_agent(str(SAMPLE))


async def test_the_form_survives_sigkill_and_the_filled_in_form_comes_back(tmp_path: Path) -> None:
    store = ("--port", "0", "--store", f"sqlite:///{tmp_path}/parley.db")
    with served(str(SAMPLE), *store, cwd=tmp_path) as server:
        async with Client(server.until_ready()) as client:
            asked = await client.send("I paid 20 EUR for lunch")
            server.process.kill()
            server.process.wait()
    assert asked.state is TaskState.INPUT_REQUIRED
    assert asked.question == "Please fill in the form."
    assert asked.message
    forms = [part for part in asked.message.parts if isinstance(part, DataPart) and part.media_type == SCHEMA_TYPE]
    assert [form.data for form in forms] == [
        {
            "type": "object",
            "title": "Expense",
            "properties": {
                "date": {"type": "string", "format": "date", "title": "Date of the expense"},
                "amount": {"type": "number", "exclusiveMinimum": 0, "title": "Amount in EUR", "default": 20},
                "purpose": {"type": "string", "minLength": 1, "title": "What for", "default": "lunch"},
            },
            "required": ["date", "amount", "purpose"],
        }
    ]
    with served(str(SAMPLE), *store, cwd=tmp_path) as server:
        async with Client(server.until_ready()) as client:
            reply = await client.send(FILLED_IN, task=asked.task)
    assert (reply.text, reply.reason) == ("Your request 2026-05-01-2000 is approved.", "")


async def test_a_form_that_is_not_filled_in_is_asked_for_again() -> None:
    async with running(expenses()) as client:
        asked = await client.send("I want my money back")
        again = await client.send({"date": "2026-05-01", "amount": -3}, task=asked)
        assert again.status.state is TaskState.INPUT_REQUIRED
        task = await client.send(FILLED_IN, task=asked)
    assert client.text(task) == "Your request 2026-05-01-2000 is approved."


async def test_an_expense_over_the_limit_is_not_reimbursed() -> None:
    async with running(expenses()) as client:
        task = await client.send({**FILLED_IN, "amount": 501}, task=await client.send("I paid 501 EUR"))
    assert client.text(task) == "501 EUR is over the limit of 500 EUR."


async def test_a_crash_at_any_point_changes_nothing() -> None:
    await survives_crashes(expenses(), "I paid 20 EUR for lunch", answers=[(FILLED_IN,)])


def test_the_card_shows_the_tools_as_skills() -> None:
    card = expenses().card()
    assert (card.name, [skill.id for skill in card.skills]) == ("expenses", ["request_form", "reimburse"])
