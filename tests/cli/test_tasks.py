"""`parley tasks`: listing, showing, watching and canceling, against a served agent."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from parley import Agent
from parley.cli import tasks
from parley.client.client import Client
from parley.protocol.errors import UnsupportedOperationError
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
    assert all("  completed  hello " in line and line.endswith("x…") for line in done.stdout.splitlines())
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
    assert shown[4:9] == ["", "Said", "you:", "work", "agent:"]
    assert "Produced" in shown
    assert "— report.md" in shown
    assert (tmp_path / "data.csv").read_bytes() == b"1,2"


def test_the_last_word_of_a_task_is_shown_and_its_state_is_the_exit_code(url: str) -> None:
    task = lines(parley("send", url, "fail", "--no-stream", "--json").stdout)[0]["task"]["id"]
    done = parley("tasks", "show", url, task)
    assert (done.exit_code, done.stdout.splitlines()[-2:]) == (1, ["Last word", "The vault is empty"])
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
    assert done.stderr.splitlines()[-1] == f"It waits. Answer with: parley send {url} TEXT --task {task}"


def test_canceling_tells_programs_the_task(url: str) -> None:
    (task,) = lines(parley("tasks", "cancel", url, start(url, "wait"), "--json").stdout)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


def test_an_agent_that_does_not_stream_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.01)
    agent = Agent("Slow", streaming=False)
    was_read_twice, reads, get = threading.Event(), count(1), Client.get

    @agent.on_message
    async def work(turn: Any) -> Any:
        yield "one, "
        await asyncio.to_thread(was_read_twice.wait, SECONDS)
        yield "two"

    async def counted(client: Client, task: str, **options: Any) -> Any:
        reply = await get(client, task, **options)
        if next(reads) == 2:
            was_read_twice.set()
        return reply

    monkeypatch.setattr(Client, "get", counted)
    with on_a_port(lambda: App(agent)) as url:
        done = parley("tasks", "watch", url, start(url, "go"))
    assert (done.exit_code, done.stdout) == (0, "one, two\n")
    assert done.stderr.splitlines()[-1].endswith(" completed")


def test_a_task_that_nobody_may_subscribe_to_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """As with agents that say they stream, and refuse: the typed API of our own server cannot produce that."""
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.01)

    async def subscribe(client: Client, task: str) -> AsyncGenerator[Any]:
        assert (await client.cancel(task)).task is not None
        raise UnsupportedOperationError
        yield

    monkeypatch.setattr(Client, "subscribe", subscribe)
    done = parley("tasks", "watch", url, start(url, "wait"))
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "Canceled.")
