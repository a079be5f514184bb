"""`parley up` as operators use it: real processes, what they print on the first start and later, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.cli.sampler import parley
from tests.cli.served import SECONDS, Served, running

AGENTS = """
from pathlib import Path

import anyio

from parley import Agent

shared = Agent("Shouting", description="Repeats a text in capital letters.", id="shouting")

@shared.on_message
async def shout(turn):
    return turn.text.upper()

own = Agent("Waiting", description="Waits for a signal.", id="waiting")

@own.on_message
async def wait(turn):
    yield "begun "
    yield await anyio.to_thread.run_sync(Path("signal").read_text)
"""

FREE = ("--port", "0", "--grpc-port", "off")
TENANT_TOKEN = re.compile(r"atr_[0-9a-f]{64}")
ADMIN_TOKEN = re.compile(r"adm_[0-9a-f]{64}")
ANSWER = [
    "- 5 miles is 8.04672 km.",
    "- 100 USD is 92.41 EUR (reference rate of 2026-11-02).",
    "- Wrote notes.md (76 bytes).",
]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("PARLEY_")]:
        monkeypatch.delenv(name)
    return tmp_path


@contextmanager
def up(*options: str, cwd: Path) -> Generator[Served]:
    """The command on a free port, which is over when the block is."""
    with running(sys.executable, "-m", "parley.cli.main", "up", *FREE, *options, cwd=cwd) as command:
        yield command


def printed_line(command: Served, title: str) -> str:
    """The line that was printed below a title."""
    (number,) = [number for number, line in enumerate(command.said) if line.startswith(title)]
    return command.said[number + 2].strip()


def paste(command: Served, title: str, **variables: str) -> tuple[str, str]:
    """What a shell in another directory prints for the line below a title."""
    done = subprocess.run(
        ["sh", "-c", printed_line(command, title)],
        cwd="/",
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def ask(url: str, token: str, body: Any = None) -> Any:
    """The reply to a request with a token."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:
        return json.load(reply)


def agents_of(url: str, token: str) -> set[str]:
    return {agent["id"] for agent in ask(f"{url}/v1/agents", token)["agents"]}


# --- starts -----------------------------------------------------------------------------------------------------------


def test_the_first_start_shows_tokens_once_and_lines_that_work_and_later_ones_how_to_get_a_token(
    directory: Path,
) -> None:
    with up(cwd=directory) as command:
        url = command.until_ready()
        text = "\n".join(command.said)
        assert " hosts the agents of 1 tenant\n" in text
        assert "  model      parley/router: built in, offline, not a language model (--model names another)\n" in text
        assert f"  OpenAPI    {url}/openapi.json\n" in text
        token = printed_line(command, "The token of the tenant default (id 1), shown only now:")
        admin = printed_line(command, "The admin token, shown only now; it is kept in parley.db.admin-token:")
        assert TENANT_TOKEN.fullmatch(token)
        assert ADMIN_TOKEN.fullmatch(admin)
        assert (directory / "parley.db.admin-token").read_text().strip() == admin
        assert (directory / "parley.db.admin-token").stat().st_mode & 0o777 == 0o600

        answer, notes = paste(command, "Try it")
        assert answer.splitlines() == ANSWER
        assert {"· units: 5 miles is 8.04672 km.", "· drafts: Wrote notes.md (76 bytes)."} < set(notes.splitlines())
        events = re.findall(r"^event: (\w+)$", paste(command, "The same as a stream of events")[0], re.MULTILINE)
        assert {"agent_start", "file", "text", "sub_agent_response"} < set(events)
        assert (events[0], events[-1]) == ("request_received", "done")
        assert parley("card", f"{url}/v1/a2a/agents/index", "--token", token).stdout.startswith("index ")
        assert command.end() == 0

    with up(cwd=directory) as command:
        command.until_ready()
        text = "\n".join([*command.said, *command.logged])
        assert not TENANT_TOKEN.search(text)
        assert not ADMIN_TOKEN.search(text)
        new = json.loads(paste(command, "Get a new token for the tenant default (id 1)")[0])["token"]
        assert new != token
        assert paste(command, "Try it, after export PARLEY_TOKEN=…", PARLEY_TOKEN=new)[0].splitlines() == ANSWER
        assert command.end() == 0


def test_agents_of_python_are_for_all_tenants_or_for_one_and_runs_finish_when_the_host_is_stopped(
    directory: Path,
) -> None:
    targets = ("--agents", "app.py:shared", "--tenant-agents", "1=app.py:own", "--tenant-agents", "7=app:own")
    with up(*targets, "--no-starters", "--store", "memory:", cwd=directory) as command:
        url = command.until_ready()
        assert command.until_logged("There is no tenant 7 yet, which app:own is for")
        token = printed_line(command, "The token of the tenant default (id 1)")
        admin = printed_line(command, "The admin token, shown only now:")
        other = ask(f"{url}/v1/admin/tenants", admin, {"name": "acme"})["token"]
        assert agents_of(url, token) == {"index", "shouting", "waiting"}
        assert agents_of(url, other) == {"index", "shouting"}
        assert "'What can you do?'" in printed_line(command, "Try it")

        os.mkfifo(directory / "signal")  # reading it waits for a writer
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        request = urllib.request.Request(f"{url}/v1/agents/waiting/chat", b'{"message": "go"}', headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as stream:
            while b"begun" not in stream.readline():
                pass
            command.process.terminate()
            assert command.until_logged("Finishing 1 run, up to 10 s; press Ctrl+C again to stop now.")
            writer = Thread(target=(directory / "signal").write_text, args=("and done",))
            writer.start()
            rest = stream.read().decode()
            writer.join()
        assert '"content":"begun and done"' in rest
        assert command.ended() == 0


def test_programs_get_the_same_facts_in_the_log_and_no_token(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_ADMIN_TOKEN", "adm_from-the-environment")
    (directory / "agents.json").write_text('{"agents": {"weather": {}}}')
    file = directory / "token"
    options = ("--remote-agents", "agents.json", "--tenant-token-file", str(file), "--log-format", "json")
    with up(*options, cwd=directory) as command:
        warning = json.loads(command.until_logged("No remote agents can be called"))
        assert warning["message"].startswith(
            "No remote agents can be called, because agents.json is not valid: $.agents"
        )
        created = json.loads(command.until_logged("Created the tenant default"))
        ready = command.ready_line()
        assert command.end() == 0
    assert created["tenant"] == "1"
    facts = {"store": "sqlite:///parley.db", "model": "parley/router", "model_is_built_in": True, "admin_file": None}
    assert facts.items() <= ready.items()
    token = file.read_text().strip()
    assert TENANT_TOKEN.fullmatch(token)
    assert file.stat().st_mode & 0o777 == 0o600
    assert command.said == []
    assert not [line for line in command.logged if token in line or "adm_" in line]
    assert not (directory / "parley.db.admin-token").exists()


def test_grants_of_people_are_checked_when_the_first_tenant_is_there(directory: Path) -> None:
    grants = "".join(f'[[issuers.grants]]\ntenant = "{id}"\nrole = "viewer"\n' for id in (1, 2))
    (directory / "people.toml").write_text(f'[[issuers]]\nissuer = "https://a.example"\naudience = "b"\n{grants}')
    with up("--people", "people.toml", "--log-format", "json", cwd=directory) as command:
        command.ready_line()
        assert command.end() == 0
    (named,) = [json.loads(line)["message"] for line in command.logged if "People" in line]
    assert named == "People: a grant of https://a.example names the tenant '2', which is unknown"


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--tenant-agents", "acme=app:own"), "--tenant-agents: Invalid value: 'acme=app:own'. Write the tenant's id"),
        (("--openai-compatible", "lab"), "--openai-compatible: Invalid value: 'lab'. Write it as prefix=http://"),
        (("--openai-compatible", "openai=http://x"), "--openai-compatible: The prefix 'openai' already has a meaning."),
        (("--openai-compatible", "lab=ftp://x"), "--openai-compatible: lab: Invalid URL"),
        (("--search", "google"), "--search: Invalid search provider: 'google'."),
        (("--search", "local:nowhere"), "--search: There is no folder nowhere"),
        (("--remote-agents", "nowhere.json"), "--remote-agents: There is no file nowhere.json."),
        (("--fetch-host", "http://x"), "--fetch-host: Invalid host name: 'http://x'."),
        (("--requests-per-minute", "-1"), "--requests-per-minute: Invalid whole number: '-1'."),
        (("--storage-bytes", "much"), "--storage-bytes: Invalid size: 'much'."),
        (("--runs-at-once", "0"), "--runs-at-once: 0 is too small: the minimum is 1."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_invalid_option_is_an_error_with_its_name(directory: Path, words: tuple[str, ...], told: str) -> None:
    done = parley("up", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Error: Invalid value for {told}" in done.stderr
    assert [file.name for file in directory.iterdir()] == ["app.py"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--agents", "nowhere:agent"), "There is no module nowhere"),
        (("--agents", "app.py:shared", "--agents", "app.py:shared"), "Two agents have the id 'shouting'"),
        (("--model", "openai/gpt-6-luna"), "Models of openai need a key: set OPENAI_API_KEY."),
        (("--model", "gpt"), "There is no model 'gpt'. A name begins with one of parley/, anthropic/"),
        (("--store", "mysql://db"), "Invalid store: 'mysql://db'."),
        (("--tenant-token-file", "app.py"), "app.py does not hold a tenant's token. Name another file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_hosted_is_an_error_before_anything_is_stored(
    directory: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = parley("up", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Error: {told}" in done.stderr
    assert not (directory / "parley.db").exists()
    assert (directory / "app.py").read_text() == AGENTS


def test_every_setting_of_a_host_is_also_a_variable_and_a_key_of_the_file(directory: Path) -> None:
    (directory / "parley.toml").write_text(
        '[up]\nagents = ["app.py:shared"]\ntokens-per-day = 1000\nstarters = false\n\n[serve]\nport = 1\n'
    )
    variables = {"PARLEY_MODEL": "openai/gpt-6-luna", "PARLEY_FETCH_HOST": "a.example b.example"}
    done = parley("up", "--search", "local:.", "--show-config", env=variables)
    assert done.exit_code == 0, done.stderr
    for line in (
        'agents = ["app.py:shared"]  # parley.toml, line 2',
        "tokens-per-day = 1000  # parley.toml, line 3",
        "starters = false  # parley.toml, line 4",
        'model = "openai/gpt-6-luna"  # PARLEY_MODEL',
        'fetch-host = ["a.example", "b.example"]  # PARLEY_FETCH_HOST',
        'search = "local:."  # command line',
        'store = "sqlite:///parley.db"  # default',
        "port = 8080  # default",
    ):
        assert line in done.stdout.splitlines()
    assert "# auth " not in done.stdout
