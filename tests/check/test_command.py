"""`parley check` as it is typed."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from parley import __version__
from parley.cli.commands.check import progress
from parley.cli.main import app as parley
from parley.server.app import App
from parley.server.pages.signer import Signer
from tests.check.faulty import Faulty
from tests.check.test_cards import KEY, OTHER_KEY
from tests.check.test_faults import unknown_method_is_500
from tests.check.test_own_server import TOKEN, secured
from tests.server.serving import echo_agent, serving

SECONDS = 30.0


@contextmanager
def served(before: Any = Faulty, **fault: Any) -> Generator[str]:
    """The URL of a server in a thread of its own: the command has a loop of its own, too."""
    known: SimpleQueue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = SimpleQueue()

    async def serve() -> None:
        over = asyncio.Event()
        async with _faulty(before, **fault) as url:
            known.put((url, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, loop, over = known.get(timeout=SECONDS)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(SECONDS)


@asynccontextmanager
async def _faulty(before: Any = Faulty, app: Any = lambda: App(echo_agent()), **fault: Any) -> AsyncGenerator[str]:
    """`before` is what stands before the app."""
    behind = app()
    async with behind.running(), serving(before(behind, **fault), seconds=SECONDS) as client:
        yield str(client.base_url)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(parley, ["check", *arguments], catch_exceptions=False)


def test_a_good_server_ends_with_0_and_all_reports_are_written(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("json", "junit", "html")}
    options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    with served() as url:
        done = run(url, *options, "--binding", "jsonrpc", "--dialect", "1.0", "--all")
    assert done.exit_code == 0
    assert "✓ G1.16 passed An unknown task is not found" in done.stdout
    assert "Checking 1.0 JSONRPC http://" in done.stderr
    assert json.loads(files["json"].read_bytes())["counts"]["failed"] == 0
    assert ElementTree.parse(files["junit"]).getroot().tag == "testsuites"
    assert files["html"].read_bytes().startswith(b"<!doctype html>")


def test_a_report_that_cannot_be_written_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "report.json").symlink_to(tmp_path / "nowhere" / "report.json")
    with served() as url:
        done = run(url, "--only", "G1.16", "--binding", "jsonrpc", "--json", str(tmp_path / "report.json"))
    assert done.exit_code == 2
    assert f"Error: {tmp_path / 'report.json'}: No such file or directory." in done.stderr


def test_a_broken_rule_ends_with_1_and_is_quoted() -> None:
    with served(ask=unknown_method_is_500) as url:
        done = run(url, "--only", "G1.59", "--binding", "JSONRPC", "--header", "X-Key: k")
    assert done.exit_code == 1
    assert "✗ G1.59 failed An unknown method is method not found" in done.stdout
    assert "The rule (A2A 1.0): JSON-RPC: errors have JSON-RPC's codes.\n" in done.stdout
    assert "G1.16" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://agent.example"], "Invalid URL"),
        (["http://localhost:1", "--only", "G9.9"], "There is no rule G9.9"),
        (["http://localhost:1", "--binding", "soap"], "is not one of"),
        (["http://localhost:1", "--dialect", "3.0"], "is not one of"),
        (["http://localhost:1", "--header", "secret"], "Invalid header"),
        (["http://localhost:1", "--timeout", "0"], "0.1"),
        (["http://localhost:1", "--skill", " "], "An id cannot be empty"),
        (["--json", "http://localhost:1"], "Expected a file, or - for standard output"),
        (["--html", "localhost:8080"], "Expected a file, or - for standard output"),
        (["http://localhost:1", "--card-keys", __file__], "The keys cannot be used"),
        (["http://localhost:1", "--html", "/no/such/place/report.html"], "There is no directory /no/such/place"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_no_server_ends_with_3() -> None:
    with served() as url:
        pass
    done = run(url, "--timeout", "2")
    assert done.exit_code == 3
    assert done.stderr.startswith("Error: No connection to http://127.0.0.1")


def test_what_the_card_does_not_declare_ends_with_3() -> None:
    with served() as url:
        done = run(url, "--binding", "grpc")
    assert done.exit_code == 3
    assert "declares what was asked for" in done.stderr


class Silent:
    """A server that has a card and says nothing else."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "GET":
            await asyncio.Event().wait()
        await self.app(scope, receive, send)


def test_a_server_that_goes_away_ends_with_3_and_a_report(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    with served(Silent) as url:
        done = run(url, "--timeout", "0.3", "--dialect", "1.0", "--binding", "jsonrpc", "--junit", str(junit))
    assert done.exit_code == 3
    assert "Not checked to the end: 1.0 JSONRPC" in done.stdout
    assert [suite.get("errors") for suite in ElementTree.parse(junit).getroot()][-1] == "1"


def test_an_agent_that_wants_credentials_ends_with_3_and_says_which_option_gives_them(tmp_path: Path) -> None:
    """Nothing is broken, and hardly anything was seen: that must not look like a good end."""
    junit = tmp_path / "junit.xml"
    options = ("--dialect", "1.0", "--binding", "jsonrpc", "--junit", str(junit))
    with served(app=secured) as url:
        stranger, known = run(url, *options), run(url, *options, "--token", TOKEN)
    assert stranger.exit_code == 3
    assert f"\n  Hardly anything could be decided: 1.0 JSONRPC {url}/\n" in stranger.stdout
    assert " undecided: credentials are missing; give --token or --header" in stranger.stdout
    assert known.exit_code == 0


def test_what_cannot_be_read_as_a_card_ends_with_1_and_a_report() -> None:
    with served(answer=lambda request, kind, body: b'{"hello": 1}') as url:
        done = run(url)
    assert done.exit_code == 1
    assert f"{url}/.well-known/agent-card.json (1 failed)\n  ✗ G1.53 failed The card is complete\n" in done.stdout


def test_a_report_can_be_written_to_standard_output_instead_of_the_text() -> None:
    with served() as url:
        done = run(url, "--only", "G1.16", "--binding", "jsonrpc", "--dialect", "1.0", "--json", "-")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["counts"]["passed"]) == (0, 1)
    assert found["made_by"] == f"Parley {__version__}"
    assert found["options"] == {
        "message": "Hello",
        "timeout": "30 s",
        "webhook": "https://example.com/parley-check",
        "only": "G1.16",
        "binding": "JSONRPC",
        "dialect": "1.0",
    }


def test_credentials_are_given_as_to_the_other_commands_and_are_in_no_report(tmp_path: Path) -> None:
    """The server repeats what it was sent, as careless ones do."""
    files = {name: tmp_path / name for name in ("json", "junit", "html")}
    options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    with served(answer=repeats_secrets, app=secured) as url:
        given = ("--token", TOKEN, "--header", f"X-Key: {OTHER}", "--header", f"Cookie: session={OTHER}c")
        done = run(url, *given, *options, "--dialect", "1.0", "--all")
    assert "✓ G1.48 passed Credentials are accepted" in done.stdout
    texts = [done.stdout, done.stderr, *(path.read_text() for path in files.values())]
    assert [text for text in texts if TOKEN in text or OTHER in text] == []
    assert "(not shown)" in files["json"].read_text()


OTHER = "another-secret-of-the-tester"


def repeats_secrets(request: Any, kind: str, body: bytes) -> bytes:
    said = f"You sent {TOKEN} and {OTHER} and {OTHER}c".encode()
    return body.replace(b'"message":"', b'"message":"' + said)


def test_on_a_terminal_one_line_says_what_is_tried() -> None:
    out = io.StringIO()
    with progress(Console(file=out, force_terminal=True, width=60)) as on_progress:
        on_progress("1.0 JSONRPC http://agent.example/\x1b[2J", "An unknown task is not found")
    shown = out.getvalue()
    assert "1.0 JSONRPC http://agent.example/␛[2J  An unknown task i…" in shown
    assert shown.count("\n") == 1
    assert shown.endswith("\x1b[1A\x1b[2K")  # and nothing of it stays


def test_elsewhere_a_line_per_place_says_where_it_is() -> None:
    out = io.StringIO()
    with progress(Console(file=out, width=40)) as on_progress:
        for case in ("one", "two"):
            on_progress("1.0 JSONRPC http://agent.example/a/long/path", case)
    assert out.getvalue() == "Checking 1.0 JSONRPC http://agent.example/a/long/path …\n"


def test_signatures_are_verified_with_the_keys_of_a_file(tmp_path: Path) -> None:
    def keys(key: Any) -> str:
        path = tmp_path / "keys.json"
        path.write_bytes(Signer(key, "k1").public_keys())
        return str(path)

    signer = Signer(KEY, "k1", "https://keys.example/none.json")
    with served(app=lambda: App(echo_agent(), signer=signer)) as url:
        options = ("--only", "G1.56", "--all", "--dialect", "1.0", "--binding", "jsonrpc")
        unknown = run(url, *options)
        known = run(url, *options, "--card-keys", keys(KEY))
        wrong = run(url, *options, "--card-keys", keys(OTHER_KEY))
    assert "? G1.56 undecided" in unknown.stdout
    assert "✓ G1.56 passed The card's signatures are good" in known.stdout
    assert (wrong.exit_code, "✗ G1.56 failed" in wrong.stdout) == (1, True)
