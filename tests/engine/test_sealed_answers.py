"""Answers to `auth-required` may be credentials: the handler gets them, and neither the log nor its readers do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley import Agent, Turn
from parley.protocol.masking import MASK, SEALED_MESSAGE
from parley.protocol.messages import DataPart, Message, Role, TextPart, text_of
from parley.protocol.requests import GetTaskRequest, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.sealed.sources import KeyFile
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient, running
from tests.stores.secrets_suite import script_for_a_lost_key

pytestmark = pytest.mark.anyio

SECRET = "secret-of-the-answer"


def asking_agent(heard: list[str]) -> Agent:
    agent = Agent("Bank", description="Needs a credential")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        given = await turn.require_auth("Your token, please")
        heard.append(f"{given.text} {[part.data for part in given.message.parts if isinstance(part, DataPart)]}")
        return f"Really, {(await turn.ask('Sure?')).text}"

    return agent


async def say(client: AgentClient, text: str, task: Task | None = None, **fields: object) -> Task:
    data = (DataPart({"token": SECRET}),) if text == SECRET else ()
    message = Message(f"m-{len(text)}", Role.USER, (TextPart(text), *data), task_id=task and task.id, **fields)  # type: ignore
    answer = await client.agent.send_message(SendMessageRequest(message), client.caller)
    assert isinstance(answer, Task)
    return answer


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob("*.db*"))


async def test_only_the_handler_gets_the_answer_also_when_it_begins_again(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "tasks.db"
    async with running(asking_agent(heard), store=SqliteStore(path)) as client:
        task = await say(client, "begin")
        assert task.status.state is TaskState.AUTH_REQUIRED
        asked = await say(client, SECRET, task)
        assert asked.status.state is TaskState.INPUT_REQUIRED
        await client.crash()
        await client.restart()
        done = await say(client, "yes", task)
        assert done.status.state is TaskState.COMPLETED
        assert heard == [f"{SECRET} [{{'token': '{SECRET}'}}]"] * 2
        read = await client.agent.get_task(GetTaskRequest(task.id), client.caller)
        said = [text_of(message.parts) for message in read.history if message.role is Role.USER]
        assert said == ["begin", MASK, "yes"]
        assert SECRET not in str(read)
        assert SECRET.encode() not in bytes_of(path)
    assert SECRET.encode() not in bytes_of(path)


async def test_a_repeated_answer_is_still_recognised(tmp_path: Path) -> None:
    heard: list[str] = []
    async with running(asking_agent(heard), store=SqliteStore(tmp_path / "tasks.db")) as client:
        task = await say(client, "begin")
        first, second = await say(client, SECRET, task), await say(client, SECRET, task)
        assert first.status.state is second.status.state is TaskState.INPUT_REQUIRED
        assert len(second.history) == len(first.history)
        assert len(heard) == 1


async def test_an_answer_whose_key_is_lost_is_asked_for_again(tmp_path: Path) -> None:
    heard: list[str] = []
    path, key = tmp_path / "tasks.db", tmp_path / "tasks.db.key"
    async with running(asking_agent(heard), store=SqliteStore(path)) as client:
        task = await say(client, "begin")
        await say(client, SECRET, task)
        await client.crash()
        (lost,) = KeyFile(key).read() or ()
        key.unlink()
        with closing(sqlite3.connect(path)) as shell:
            shell.executescript(script_for_a_lost_key("SQLite", lost))
        await client.restart()
        asked = await say(client, "yes", task)
        assert asked.status.state is TaskState.AUTH_REQUIRED
        done = await say(client, "other", task)
        assert done.status.state is TaskState.COMPLETED
        assert heard[1:] == ["other []"]


async def test_a_caller_cannot_send_an_encrypted_message() -> None:
    """The handler would be given something that no one checked."""
    heard: list[str] = []
    async with running(asking_agent(heard)) as client:
        task = await say(client, "begin")
        asked = await say(client, "hello", task, metadata={SEALED_MESSAGE: "parley-sealed.1.x.y", "note": 1})
        assert asked.status.state is TaskState.INPUT_REQUIRED
        assert heard == ["hello []"]


async def test_other_answers_stay_readable() -> None:
    async with running(asking_agent([])) as client:
        task = await say(client, "begin")
        await say(client, SECRET, task)
        done = await say(client, "yes", task)
        assert done.artifacts[0].parts == (TextPart("Really, yes"),)
        assert text_of(done.history[-1].parts) == "yes"
