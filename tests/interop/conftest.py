"""The servers under test: one process that is open to all and one that wants a token, once for all tests."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.peer_environments import TIMEOUT_SECONDS, serving_process

TOKEN = "token-of-the-tester"


@contextmanager
def served(folder: Path, *token: str) -> Iterator[str]:
    """The URL of a server on a store of its own; when it is done with, it must end in good order."""
    command = [sys.executable, "-m", "tests.interop.serve", f"sqlite:///{folder}/tasks.db", *token]
    log = folder / "server.log"
    with serving_process(command, log=log) as (url, process):
        yield url
        process.terminate()
        assert process.wait(TIMEOUT_SECONDS) == 0, log.read_text()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where they are, and the token that the second one wants."""
    with ExitStack() as stack:
        url = stack.enter_context(served(tmp_path_factory.mktemp("open")))
        guarded_url = stack.enter_context(served(tmp_path_factory.mktemp("guarded"), TOKEN))
        yield {"url": url, "guarded_url": guarded_url, "token": TOKEN}
