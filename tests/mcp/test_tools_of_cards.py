"""What a tool takes from a card, what an elicitation takes from a form, and the lines of standard input."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.client.client import Client
from parley.client.reply import Reply
from parley.mcp import standard_input
from parley.mcp.callable_agents import NamedAgent
from parley.mcp.questions import InvalidAnswerContentError, question_in
from parley.mcp.resources import agent_in
from parley.mcp.standard_input import InputLines
from parley.mcp.tools import MAX_SKILLS, input_schema, tool_of
from parley.protocol.cards import AgentCard, AgentSkill
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import DataPart, Message, Role, TextPart
from parley.protocol.tasks import Task, TaskState, TaskStatus


def card(*skills: AgentSkill, modes: tuple[str, ...] = ("text/plain",), description: str = "Cooks.") -> AgentCard:
    return AgentCard("Cook", description, "1", (), skills=skills, default_input_modes=modes)


def test_a_description_names_skills_and_examples_within_bounds() -> None:
    skills = [AgentSkill(f"s{n}", f"Skill {n}", "x" * 1_000, examples=("soup", f"dish {n}")) for n in range(100)]
    tool = tool_of(NamedAgent("cook", card(*skills, description="y" * 10_000)))
    assert tool.description is not None
    assert len(tool.description) < 12_000
    assert f"… and {100 - MAX_SKILLS} more" in tool.description
    assert tool.description.count("soup") == 1


def test_files_and_skills_are_arguments_where_the_card_has_them() -> None:
    plain = input_schema(card(AgentSkill("a", "A", "")))
    assert [*plain["properties"]] == ["message", "context_id", "task_id", "data"]  # type: ignore[misc]
    rich = input_schema(card(AgentSkill("a", "A", ""), AgentSkill("b", "B", ""), modes=("image/png",)))
    properties: Any = rich["properties"]
    assert (properties["skill"]["enum"], properties["files"]["type"]) == (["a", "b"], "array")


def asking(form: JsonObject | None) -> Reply:
    parts = (TextPart("Which?"), *([DataPart(form, "application/schema+json")] if form else []))
    status = TaskStatus(TaskState.INPUT_REQUIRED, Message("m", Role.AGENT, parts))
    return Reply(Client(card()), Task("t", "c", status))


FORM: JsonObject = {
    "type": "object",
    "properties": {
        "stars": {"type": "integer", "enum": [1, 2, 3]},
        "when": {"type": "string", "format": "date", "title": "Day"},
        "tags": {"type": "array"},
        "loud": {"type": "boolean"},
    },
    "required": ["stars", "loud"],
}


def test_a_form_is_asked_for_in_flat_fields_and_read_back_by_its_own_schema() -> None:
    question = question_in(asking(FORM))
    schema: Any = question.schema
    assert schema["required"] == ["stars", "loud"]
    assert schema["properties"]["stars"] == {"type": "string", "title": "stars", "description": "1 | 2 | 3"}
    assert schema["properties"]["when"] == {"type": "string", "title": "Day", "format": "date"}
    assert schema["properties"]["tags"]["type"] == "string"
    given = {"stars": "2", "when": "2026-01-01", "tags": '["a"]', "loud": True}
    assert question.answer(given) == {"stars": 2, "when": "2026-01-01", "tags": ["a"], "loud": True}


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"stars": "9", "loud": True}, "stars"),
        ({"loud": True}, "stars"),
        ({"stars": "1", "loud": 5}, "loud"),
        ({"stars": "1", "loud": True, "tags": "["}, "tags"),
    ],
)
def test_an_answer_that_does_not_fit_names_its_field(content: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidAnswerContentError, match=wrong):
        question_in(asking(FORM)).answer(content)


def test_a_question_without_a_form_has_one_field_for_text() -> None:
    question = question_in(asking(None))
    assert [*question.schema["properties"]] == ["answer"]  # type: ignore[misc]
    assert question.answer({"answer": "four"}) == "four"
    with pytest.raises(InvalidAnswerContentError):
        question.answer({"answer": " "})


@pytest.mark.parametrize(
    ("uri", "name"),
    [("agent://cook/card", "cook"), ("agent://cook/card/", None), ("agent:///card", None), ("file:///etc", None)],
)
def test_only_uris_of_cards_mean_an_agent(uri: str, name: str | None) -> None:
    assert agent_in(uri) == name


@pytest.mark.anyio
async def test_lines_come_whole_however_they_are_written_and_too_long_ones_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standard_input, "MAX_LINE_BYTES", 100_000)
    reading, writing = os.pipe()
    lines = InputLines(reading)
    written = asyncio.to_thread(_write, writing, b"one\ntw", b"o\n" + b"x" * 300_000 + b"\nlast")
    found, _ = await asyncio.gather(_all(lines), written)
    assert found == ["one", "two", "last"]
    os.close(reading)


async def _all(lines: InputLines) -> list[str]:
    return [line async for line in lines]


def _write(descriptor: int, *chunks: bytes) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for chunk in chunks:
            file.write(chunk)


def test_the_command_says_how_to_install_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.cli.commands.mcp.find_spec", lambda _: None)
    done = CliRunner().invoke(app, ["mcp", "http://127.0.0.1:9"])
    assert (done.exit_code, done.stderr) == (2, "Error: MCP is not installed. pip install 'parley-a2a[mcp]'\n")
