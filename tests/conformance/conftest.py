"""One server process with every app for all conformance tests, and a caller for each place in the matrix."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from tests.conformance.peer import Peer
from tests.conformance.serve import NUMBER_OF_APPS
from tests.deadlines import fail_after
from tests.services.fixtures import ON_POSTGRES, empty_schema

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def places(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, dict[str, str]]]:
    """Where each app is, by store and name."""
    directory = tmp_path_factory.mktemp("conformance")
    command = [sys.executable, "-m", "tests.conformance.serve", str(directory)]
    if ON_POSTGRES:
        server = request.getfixturevalue("postgres_server")
        command += [empty_schema(server) for _ in range(NUMBER_OF_APPS)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, "the server did not start"
        yield json.loads(line)
        server.stdin.close()
        assert server.wait(timeout=20) == 0


@pytest.fixture
async def peer(request: pytest.FixtureRequest, places: dict[str, dict[str, str]]) -> AsyncGenerator[Peer]:
    """A caller in the dialect, over the binding and at the store that the test's matrix says."""
    version, binding, store, app = request.param
    with fail_after(20):
        async with Peer(version, binding, places, store, app) as peer:
            yield peer
