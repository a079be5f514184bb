"""`parley push listen` and `parley chat --push`: notifications of a served agent, shown as they come."""

from __future__ import annotations

import json
import re
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley.client.webhooks.standard_webhooks import new_secret
from parley.dialects.registry import DIALECTS
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from tests.cli.sampler import on_a_port, parley, sampler, sampler_on_a_port
from tests.cli.served import Served, running
from tests.client.scripted_agent import TASK, status
from tests.client.webhook_sender import signed_headers
from tests.server.serving import echo_agent

WORKING = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.WORKING))


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        yield url


@contextmanager
def listening(*words: str, cwd: Path) -> Generator[tuple[Served, str, list[str]]]:
    """The command, the URL of its webhook, and the words of the command that registers it."""
    with running(sys.executable, "-m", "parley.cli.main", "push", "listen", *words, cwd=cwd) as command:
        said = command.until_logged("Listening at")
        (hook,) = re.findall(r"Listening at (\S+)[. ]", said)
        register = command.until_logged("Register it with:") if "--task" not in words else "parley"
        yield command, hook.rstrip("."), shlex.split(register.partition("with: ")[2])


def begun(url: str, text: str) -> str:
    return json.loads(parley("send", url, text, "--no-wait", "--json").stdout)["task"]["id"]


def post(url: str, headers: dict[str, str], body: bytes) -> int:
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_what_an_agent_sends_is_shown(url: str, tmp_path: Path) -> None:
    task = begun(url, "wait")
    with listening(cwd=tmp_path) as (command, hook, words):
        assert words[:6] == ["parley", "push", "set", "URL", "TASK", hook]
        assert parley("push", "set", url, task, *words[5:]).exit_code == 0
        assert parley("tasks", "cancel", url, task).exit_code == 0
        assert re.search(rf"\d\d:\d\d:\d\d {task} canceled$", command.until_logged("canceled"))
        assert post(hook, {}, WORKING) == 401
        assert command.until_logged("refused") == "A notification is refused: The notification has the wrong token"


def test_a_task_is_shown_to_its_end_and_its_webhook_deleted(url: str, tmp_path: Path) -> None:
    task = begun(url, "ask")
    with listening(url, "--task", task, "--json", cwd=tmp_path) as (command, _, _):
        assert parley("send", url, "blue", "--task", task).exit_code == 0
        assert command.ended() == 0
        events = [json.loads(line) for line in command.said]
    chunks = [event["artifactUpdate"]["artifact"]["parts"] for event in events if "artifactUpdate" in event]
    assert [part["text"] for parts in chunks for part in parts] == ["You said: blue"]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert parley("push", "list", url, task).stderr == "The task has no webhooks.\n"


def test_a_question_ends_it_with_the_command_that_answers(url: str, tmp_path: Path) -> None:
    task = begun(url, "draft")
    with listening(url, "--task", task, cwd=tmp_path) as (command, _, _):
        parley("send", url, "yes", "--task", task)
        assert command.ended() == 0
        assert "More? yes" in "\n".join(command.said)
    assert any(line.endswith(f"{task} completed") for line in command.logged)


def test_signed_notifications_are_verified(tmp_path: Path) -> None:
    secret = new_secret()
    with listening("--webhook-auth", f"HMAC {secret}", cwd=tmp_path) as (command, hook, words):
        assert words[-1] == f"HMAC {secret}"
        headers = signed_headers(secret, body=WORKING, delivery_id=f"{TASK}:1")
        assert [post(hook, headers, WORKING), post(hook, {**headers, "webhook-id": "x"}, WORKING)] == [204, 401]
        assert command.until_logged(TASK).endswith(f"{TASK} working")
        assert "no valid signature" in command.until_logged("refused")
        with urllib.request.urlopen(f"{hook}?validationToken=abc", timeout=30) as answer:
            assert answer.read() == b"abc"


def test_a_server_that_calls_public_webhooks_only_is_named_as_the_reason() -> None:
    with on_a_port(lambda: App(sampler(), drain_seconds=0)) as url:
        task = begun(url, "wait")
        listened = parley("push", "listen", url, "--task", task)
        assert listened.exit_code == 1
        assert re.search(r"The agent refuses the webhook http://127\.0\.0\.1:\d+/hook: ", listened.stderr)
        assert "--webhooks any" in listened.stderr
        talked = parley("chat", url, "--push", input="hi\n")
        assert talked.exit_code == 1
        assert "The agent refuses the webhook http://127.0.0.1:" in talked.stdout
        assert "--webhooks any" in talked.stdout
        parley("tasks", "cancel", url, task)


def test_a_task_needs_its_agent() -> None:
    for words in (("--task", "t"), ("http://127.0.0.1:9",)):
        done = parley("push", "listen", *words)
        assert (done.exit_code, "URL and --task" in done.stderr) == (2, True)
    weak = parley("push", "listen", "--webhook-auth", "HMAC short")
    assert (weak.exit_code, "24 to 64 bytes" in weak.stderr) == (2, True)


# --- chat -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_chat_gets_its_replies_by_webhook(url: str, dialect: str) -> None:
    talked = parley("chat", url, "--push", "--dialect", dialect, input="count 3\nask\nblue\ndraft\nyes\n")
    lines = talked.stdout.splitlines()
    assert re.fullmatch(r"Replies come to the webhook http://127\.0\.0\.1:\d+/hook\.", lines[1])
    assert lines[2:] == [
        "> count 3",
        "0 1 2 ",
        "> ask",
        "What?",
        "answer> blue",
        "You said: blue",
        "> draft",
        "A draft. ",
        "Go on?",
        "answer> yes",
        "More? yes",
    ]
    assert talked.exit_code == 0


def test_a_chat_shows_why_a_task_failed(url: str) -> None:
    talked = parley("chat", url, "--push", input="fail\n")
    assert talked.stdout.splitlines()[-1] == "Failed: The vault is empty"
    assert talked.exit_code == 1


def test_an_agent_that_cannot_reach_the_webhook_is_read_instead(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.cli.serving.local_webhook.POLL_SECONDS", 0.05)
    talked = parley("chat", url, "--push", "--webhook-url", "http://127.0.0.1:9/", input="hello\n")
    assert talked.stdout.splitlines()[-2:] == [
        "The agent has not called the webhook. This is the task as it is:",
        "hello",
    ]
    assert talked.exit_code == 0


def test_a_chat_by_webhook_needs_an_agent_with_push_notifications() -> None:
    with on_a_port(lambda: App(echo_agent(), webhooks=None, drain_seconds=0)) as url:
        talked = parley("chat", url, "--push", input="hi\n")
    assert talked.exit_code == 1
    assert "The agent does not send push notifications, as its card says" in talked.stderr
