"""`parley check` as it is typed."""

from __future__ import annotations

import asyncio
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
from typer.testing import CliRunner

from parley.cli.main import app as parley
from parley.server.app import App
from tests.check.faulty import Faulty
from tests.check.test_faults import unknown_method_is_500
from tests.server.serving import echo_agent, serving

SECONDS = 30.0


@contextmanager
def served(**fault: Any) -> Generator[str]:
    """The URL of a server in a thread of its own: the command has a loop of its own, too."""
    known: SimpleQueue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = SimpleQueue()

    async def serve() -> None:
        over = asyncio.Event()
        async with _faulty(**fault) as url:
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
async def _faulty(**fault: Any) -> AsyncGenerator[str]:
    app = App(echo_agent())
    async with app.running(), serving(Faulty(app, **fault), seconds=SECONDS) as client:
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
    assert "Checking 1.0 JSONRPC at" in done.stderr
    assert json.loads(files["json"].read_bytes())["counts"]["failed"] == 0
    assert ElementTree.parse(files["junit"]).getroot().tag == "testsuites"
    assert files["html"].read_bytes().startswith(b"<!doctype html>")


def test_a_broken_rule_ends_with_1_and_is_quoted() -> None:
    with served(ask=unknown_method_is_500) as url:
        done = run(url, "--only", "G1.59", "--binding", "JSONRPC", "--header", "X-Key: k")
    assert done.exit_code == 1
    assert "✗ G1.59 failed An unknown method is method not found" in done.stdout
    assert "The rule: JSON-RPC: what cannot be read" in done.stdout
    assert "G1.16" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://agent.example"], "no http or https URL"),
        (["http://localhost:1", "--only", "G9.9"], "There is no rule G9.9"),
        (["http://localhost:1", "--binding", "soap"], "it is jsonrpc, rest or grpc"),
        (["http://localhost:1", "--dialect", "3.0"], "it is 0.1, 0.2, 0.3, 1.0"),
        (["http://localhost:1", "--header", "secret"], "A header is NAME:VALUE"),
        (["http://localhost:1", "--timeout", "0"], "0.1"),
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
    assert done.stderr.startswith(f"Cannot check {url}: ")
