"""`--webhooks listed`: at each command that serves, callers register webhooks at hosts of `--webhook-host` only."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sampler import parley
from tests.cli.served import SECONDS, message, running, served

ECHO = """
from parley import Agent

agent = Agent("Echo")

@agent.on_message
async def echo(turn):
    return turn.text
"""

FREE = ("--port", "0", "--grpc-port", "off")
LISTED = (*FREE, "--webhooks", "listed", "--webhook-host", "hooks.example.com", "--webhook-host", ".corp.example")
REFUSAL = "The host of the webhook is not one of those that the server calls"


def answer(url: str, hook: str, token: str = "") -> Any:
    """What a server says to a message with a webhook."""
    params = message("hi") | {"configuration": {"taskPushNotificationConfig": {"url": hook}}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
    headers = {"content-type": "application/json", "a2a-version": "1.0", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:
        return json.load(reply)


def check_listed_only(url: str, token: str = "") -> None:
    for hook in ("https://public.example.com/hook", "https://corp.example/hook", "http://127.0.0.1:1/hook"):
        refused = answer(url, hook, token)
        assert refused["error"]["code"] == -32602, refused
        assert "taskPushNotificationConfig.url" in json.dumps(refused)
    assert REFUSAL in json.dumps(answer(url, "https://public.example.com/hook", token))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(ECHO)
    return tmp_path


def test_serve_and_proxy_call_listed_hosts_only(directory: Path) -> None:
    with served("app.py:agent", *LISTED, "--store", "memory:", cwd=directory) as command:
        check_listed_only(f"{command.until_ready()}/")
    with served("app.py:agent", *FREE, "--store", "memory:", cwd=directory) as agent:
        words = ("proxy", agent.until_ready(), *LISTED, "--webhook-url", "http://127.0.0.1:1")
        with running(sys.executable, "-m", "parley.cli.main", *words, cwd=directory) as proxy:
            check_listed_only(f"{proxy.until_ready()}/")


def test_a_host_calls_listed_hosts_only(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(directory))
    words = ("up", "--agents", "app.py:agent", *LISTED)
    with running(sys.executable, "-m", "parley.cli.main", *words, cwd=directory) as command:
        url = command.until_ready()
        (token,) = set(re.findall(r"atr_[0-9a-f]{64}", "\n".join(command.said)))
        body = json.dumps({"settings": {"push_notifications": True}}).encode()
        admin = (directory / "parley.db.admin-token").read_text().strip()
        headers = {"authorization": f"Bearer {admin}", "content-type": "application/json"}
        request = urllib.request.Request(f"{url}/v1/admin/tenants/1", body, headers, method="PATCH")
        urllib.request.urlopen(request, timeout=SECONDS).close()
        check_listed_only(f"{url}/v1/a2a/agents/echo", token)


@pytest.mark.parametrize("command", [("serve", "echo"), ("up",), ("proxy", "http://127.0.0.1:1")])
def test_a_list_without_hosts_is_an_invalid_option(command: tuple[str, ...]) -> None:
    done = parley(*command, "--webhooks", "listed")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--webhooks listed: Name a host with --webhook-host" in done.stderr
