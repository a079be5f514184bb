"""`parley tasks`: listing, showing, watching and canceling, against a served agent."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Generator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from parley import Agent
from parley.client.calls import Calls
from parley.client.streams import task_reader
from parley.engine.operations import AgentOperations
from parley.protocol import operations as ops
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    MethodNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.operations import Operation
from parley.server.app import App
from tests.cli.sampler import SECONDS, on_a_port, parley, sampler_on_a_port


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        yield url


def start(url: str, *words: str) -> str:
    """The id of a task that is not waited for."""
    return json.loads(parley("send", url, *words, "--no-wait", "--json").stdout)["task"]["id"]


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_tasks_are_listed_a_line_each(url: str) -> None:
    for number in range(3):
        parley("send", url, f"hello {number} {'x' * 80}", "--context", "listed")
    done = parley("tasks", "list", url, "--context", "listed")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 3)
    assert all("  completed       hello " in line and line.endswith("x…") for line in done.stdout.splitlines())
    listed = lines(parley("tasks", "list", url, "--context", "listed", "--limit", "2", "--json").stdout)
    assert [task["contextId"] for task in listed] == ["listed", "listed"]
    assert listed[0]["artifacts"][0]["parts"][0]["text"].startswith("hello ")


def test_a_list_of_nothing_says_so(url: str) -> None:
    done = parley("tasks", "list", url, "--context", "nothing", "--state", "failed")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "There are no tasks.\n")


def test_an_old_dialect_cannot_list(url: str) -> None:
    done = parley("tasks", "list", url, "--dialect", "0.3", "--binding", "jsonrpc")
    assert done.exit_code == 1
    assert "A2A 0.3 has no ListTasks" in done.stderr


def test_a_task_is_shown_with_what_was_said_and_produced(url: str, tmp_path: Path) -> None:
    task = lines(parley("send", url, "work", "--no-stream", "--json").stdout)[0]["task"]
    done = parley("tasks", "show", url, task["id"], "--save", str(tmp_path))
    assert done.exit_code == 0
    shown = done.stdout.splitlines()
    assert shown[:3] == [
        f"  task        {task['id']}",
        f"  context     {task['contextId']}",
        "  state       completed",
    ]
    assert shown[4:9] == ["", "Messages", "you:", "work", "agent:"]
    assert "Artifacts" in shown
    assert "— report.md" in shown
    assert (tmp_path / "data.csv").read_bytes() == b"1,2"


def test_the_last_word_of_a_task_is_shown_and_its_state_is_the_exit_code(url: str) -> None:
    task = lines(parley("send", url, "fail", "--no-stream", "--json").stdout)[0]["task"]["id"]
    done = parley("tasks", "show", url, task)
    assert (done.exit_code, done.stdout.splitlines()[-2:]) == (1, ["Status message", "The vault is empty"])
    assert parley("tasks", "show", url, task, "--history", "0", "--json").exit_code == 1


def test_an_unknown_task_ends_with_one(url: str) -> None:
    for command in ("show", "watch", "cancel"):
        done = parley("tasks", command, url, "nope")
        assert (done.exit_code, done.stderr) == (1, "Error: Task not found (taskId nope).\n")
    done = parley("tasks", "show", url, "nope", "--json")
    assert lines(done.stderr) == [
        {
            "error": {
                "code": -32001,
                "message": "Task not found",
                "reason": "TASK_NOT_FOUND",
                "details": {"taskId": "nope"},
            }
        }
    ]


def test_the_last_question_of_a_canceled_task_is_not_shown_as_the_reason(url: str) -> None:
    task = start(url, "ask")
    assert parley("tasks", "watch", url, task).stdout == "What?\n"
    assert parley("tasks", "cancel", url, task).exit_code == 0
    watched = parley("tasks", "watch", url, task)
    assert (watched.exit_code, watched.stderr.splitlines()[-1]) == (1, "Canceled.")


def test_a_task_is_watched_until_it_is_canceled(url: str) -> None:
    task = start(url, "wait")
    command = [sys.executable, "-m", "parley.cli.main", "tasks", "watch", url, task]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        assert any(line == "· waiting\n" for line in watching.stderr)
        canceled = parley("tasks", "cancel", url, task)
        out, error = watching.communicate(timeout=SECONDS)
    assert (canceled.exit_code, canceled.stdout.splitlines()[2]) == (0, "  state       canceled")
    assert (watching.returncode, out) == (1, "begun, \n")
    assert error.splitlines()[-1] == "Canceled."
    assert lines(parley("tasks", "show", url, task, "--json").stdout)[0]["status"]["state"] == "TASK_STATE_CANCELED"
    assert parley("tasks", "cancel", url, task).exit_code == 1


def test_a_task_that_has_ended_is_watched_by_being_shown(url: str) -> None:
    task = lines(parley("send", url, "work", "--no-stream", "--json").stdout)[0]["task"]["id"]
    done = parley("tasks", "watch", url, task)
    assert done.exit_code == 0
    assert done.stdout.startswith("# Report\none\n")
    assert done.stderr.splitlines()[0].endswith(" completed")
    (event,) = lines(parley("tasks", "watch", url, task, "--json").stdout)
    assert event["task"]["id"] == task


def test_a_task_that_asks_ends_the_watch_with_four(url: str) -> None:
    task = parley("send", url, "ask").stderr.split()[-1]
    done = parley("tasks", "watch", url, task)
    assert (done.exit_code, done.stdout) == (4, "What?\n")
    assert (
        done.stderr.splitlines()[-1] == f"The task waits for input. Answer with: parley send {url} TEXT --task {task}"
    )


def test_a_form_that_is_watched_is_to_be_answered_with_data(url: str) -> None:
    task = lines(parley("send", url, "form", "--no-stream", "--json").stdout)[0]["task"]["id"]
    done = parley("tasks", "watch", url, task)
    assert (done.exit_code, done.stdout) == (4, "What did you spend?\n")
    assert done.stderr.splitlines()[-1].endswith(f"""--data '{{"amount":1,"kind":"train"}}' --task {task}""")


def test_an_id_that_is_empty_is_a_mistake(url: str) -> None:
    for command in ("show", "watch", "cancel"):
        done = parley("tasks", command, url, "")
        assert done.exit_code == 2
        assert "An id cannot be empty" in done.stderr


def test_canceling_tells_programs_the_task(url: str) -> None:
    (task,) = lines(parley("tasks", "cancel", url, start(url, "wait"), "--json").stdout)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


def is_read_twice(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a client has read a task for the second time. Nobody waits between two looks."""
    monkeypatch.setattr(task_reader, "POLL_SECONDS", 0.01)
    read_twice, reads, call = threading.Event(), count(1), Calls.call

    async def counted(calls: Calls, operation: Operation, request: Any) -> Any:
        result = await call(calls, operation, request)
        if operation is ops.GET_TASK and next(reads) == 2:
            read_twice.set()
        return result

    monkeypatch.setattr(Calls, "call", counted)
    return read_twice


def slow_agent(go_on: threading.Event, **options: Any) -> Agent:
    """An agent that says a word, and another one when it may go on."""
    agent = Agent("Slow", **options)

    @agent.on_message
    async def work(turn: Any) -> Any:
        yield "one, "
        await asyncio.to_thread(go_on.wait, SECONDS)
        yield "two"

    return agent


def test_an_agent_that_does_not_stream_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = slow_agent(is_read_twice(monkeypatch), streaming=False)
    with on_a_port(lambda: App(agent)) as url:
        done = parley("tasks", "watch", url, start(url, "go"))
    assert (done.exit_code, done.stdout) == (0, "one, two\n")
    assert done.stderr.splitlines()[-1].endswith(" completed")


@pytest.mark.parametrize("refusal", [UnsupportedOperationError, MethodNotFoundError, InvalidParamsError])
def test_a_task_that_nobody_may_subscribe_to_is_read_again_and_again(
    monkeypatch: pytest.MonkeyPatch, refusal: type[A2AError]
) -> None:
    """Agents that say they stream, and refuse, each in its way: our own server cannot be made to."""
    agent = slow_agent(is_read_twice(monkeypatch))

    async def refused(operations: AgentOperations, *arguments: Any) -> None:
        raise refusal

    monkeypatch.setattr(AgentOperations, "_start_subscription", refused)
    with on_a_port(lambda: App(agent)) as url:
        done = parley("tasks", "watch", url, start(url, "go"))
    assert (done.exit_code, done.stdout) == (0, "one, two\n")
