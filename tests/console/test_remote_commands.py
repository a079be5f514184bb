"""Where the commands let sessions call agents: anywhere from this machine, and into no private network from others."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx2
import pytest

from parley.server.security.auth_file import new_token
from tests.cli.served import running
from tests.console.test_console_commands import ECHO, FREE

PRIVATE = "http://127.0.0.1:1"


def reply_to_adding(url: str, token: str, agent: str) -> dict[str, str]:
    """The error when a person adds an agent that is not there."""
    with httpx2.Client(base_url=url.replace("0.0.0.0", "127.0.0.1"), timeout=60) as browser:
        csrf = browser.get("/console/api/session").raise_for_status().json()["csrf"]
        login = {"scheme": "bearer", "values": {"token": token}}
        reply = browser.post("/console/api/session/login", json=login, headers={"X-Parley-Csrf": csrf})
        csrf = reply.raise_for_status().json()["csrf"]
        return browser.post("/console/api/agents", json={"url": agent}, headers={"X-Parley-Csrf": csrf}).json()["error"]


@pytest.mark.parametrize(("host", "is_called"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_a_server_for_other_machines_calls_no_private_hosts_for_its_users(
    host: str, is_called: bool, tmp_path: Path
) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    token, entry = new_token("ada")
    (tmp_path / "auth.toml").write_text(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    words = ("serve", "echo.py", *FREE, "--host", host, "--auth", "auth.toml")
    with running(sys.executable, "-m", "parley.cli.main", *words, cwd=tmp_path) as served:
        error = reply_to_adding(served.until_ready(), token, PRIVATE)
    assert error["code"] == "agent_error"
    assert ("No connection" in error["message"], "is not encrypted" in error["message"]) == (is_called, not is_called)
