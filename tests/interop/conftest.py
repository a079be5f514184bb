"""The servers under test: one process that is open to all and one that wants a token, once for all tests."""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.interop.javascript import ROOT

START_SECONDS = 60  # it takes about one; a machine under load may need a while
TOKEN = "token-of-the-tester"


@contextmanager
def served(folder: Path, *token: str) -> Iterator[str]:
    """The URL of a server on a store of its own; when it is done with, it must end in good order."""
    command = [sys.executable, "-m", "tests.interop.serve", f"sqlite:///{folder}/tasks.db", *token]
    log = folder / "server.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            line = process.stdout.readline() if ready else ""
            assert line, log.read_text()
            yield json.loads(line)["url"]
            process.terminate()
            assert process.wait(START_SECONDS) == 0, log.read_text()
        finally:
            process.kill()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where they are, and the token that the second one wants."""
    with ExitStack() as stack:
        url = stack.enter_context(served(tmp_path_factory.mktemp("open")))
        guarded_url = stack.enter_context(served(tmp_path_factory.mktemp("guarded"), TOKEN))
        yield {"url": url, "guarded_url": guarded_url, "token": TOKEN}
