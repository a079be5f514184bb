"""The page on serving: it names every option, says the true numbers, and its programs and commands run.

So do the programs of the pages that lead to it: the README's first, and that on telemetry.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient
from typer.main import get_command

from parley import Agent
from parley.cli.main import app
from parley.cli.output.help_text import LIMITS
from parley.server.app import App
from parley.server.listener.limits import ListenerLimits
from tests.bounded import bounded
from tests.cli.served import SECONDS, call, fetch, message, served
from tests.deadlines import fail_after

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "serving.md").read_text()

COUNTER = """
from parley import Agent

agent = Agent("Counter")

@agent.on_message
async def count(turn):
    for number in range(20):
        yield f"{number} "
"""


def test_every_option_is_on_the_page_and_no_other() -> None:
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    shown = [option for option in command.params if not getattr(option, "hidden", False)]
    options = {name for option in shown for name in option.opts if option.rich_help_panel not in LIMITS}
    table = {name for row in PAGE.splitlines() if row.startswith("| `--") for name in re.findall(r"`(--[a-z-]+)", row)}
    assert {name for name in options if name.startswith("--")} - {"--help"} == table


def test_the_numbers_are_those_of_the_limits() -> None:
    limits = ListenerLimits()
    for words in (
        f"more than {limits.header_seconds:g} s for a request's headers",
        f"less than {limits.body_bytes_per_second:g} bytes a second, over {limits.body_seconds:g} s",
        f"more than {limits.headers} headers, or {limits.head_bytes // 1024} KiB",
        f"less than {limits.write_bytes_per_second:g} bytes a second, over {limits.write_seconds:g} s",
        f"idle for {limits.idle_seconds:g} s",
        f"more than {limits.connections_per_address:,} connections, or exceeds {limits.connections:,} in total",
    ):
        assert words in PAGE


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs keep their tasks in the working directory."""
    monkeypatch.chdir(tmp_path)


def programs(page: str = PAGE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        names: dict[str, Any] = {}
        exec(text, names)
        found.append(names)
    return found


@pytest.mark.anyio
async def test_the_mounted_app_answers() -> None:
    site = programs()[0]["site"]
    with fail_after(10):
        async with site.router.lifespan_context(site), AsyncClient(transport=ASGITransport(site)) as client:
            reply = await client.get("http://here/echo/.well-known/agent-card.json")
    assert (reply.status_code, reply.json()["name"]) == (200, "Echo")
    assert reply.json()["supportedInterfaces"][0]["url"].startswith("http://here/echo")


@pytest.mark.anyio
async def test_who_asks_at_a_mounted_agents_url_is_told_where_its_card_is() -> None:
    site = programs()[0]["site"]
    with fail_after(10):
        async with site.router.lifespan_context(site), AsyncClient(transport=ASGITransport(site)) as client:
            reply = await client.get("http://here/echo/")
    assert reply.json()["error"]["message"] == (
        "This URL accepts JSON-RPC with POST; the agent card is at http://here/echo/.well-known/agent-card.json"
    )


@pytest.mark.anyio
async def test_a_mounted_app_that_nobody_runs_says_what_is_missing_and_logs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = programs()[0]["site"]
    cure = "The app is not running. Put `async with app.running():` into the lifespan of the outer app."
    async with AsyncClient(transport=ASGITransport(site)) as client:
        for _ in range(2):
            reply = await client.get("http://here/echo/.well-known/agent-card.json")
            assert (reply.status_code, reply.json()["error"]["message"]) == (503, cure)
        assert [record.message for record in caplog.records] == [cure]
        async with site.router.lifespan_context(site):
            pass
        reply = await client.get("http://here/echo/.well-known/agent-card.json")
    assert (reply.status_code, reply.json()["error"]["message"]) == (503, "The server is not running")


def test_the_program_of_ones_own_is_complete() -> None:
    assert callable(programs()[1]["main"])


def test_the_commands_that_resume_and_ask_for_health_work(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    (commands,) = re.findall(r"```\n(curl -N .*?)```", PAGE, re.DOTALL)
    with served("counter", "--port", "0", "--grpc-port", "off", "--store", "memory:", cwd=tmp_path) as server:
        url = server.until_ready()
        task = call(url, "SendMessage", message("go"))["result"]["task"]["id"]
        done = subprocess.run(
            ["sh", "-c", commands],
            env={**os.environ, "URL": url, "TASK": task},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert fetch(f"{url}/readyz") == b'{"status":"ok"}'
        assert server.end() == 0
    numbers = [int(number) for number in re.findall(r"^id: (\d+)$", done.stdout, re.MULTILINE)]
    last = max(numbers)
    assert numbers == [*range(13, last + 1)] * 2


@pytest.mark.anyio
async def test_the_first_program_of_the_readme_is_an_agent() -> None:
    text = (ROOT / "README.md").read_text()
    agent = programs(text.partition("## Serve it")[0])[0]["agent"]
    assert isinstance(agent, Agent)
    async with bounded(agent) as client:
        task = await client.send("100")
        task = await client.send("EUR", task=task)
        assert client.text(task) == "100 USD is 92.00 EUR."


def test_the_program_of_the_page_on_telemetry_runs() -> None:
    assert isinstance(programs((ROOT / "docs" / "telemetry.md").read_text())[0]["app"], App)
