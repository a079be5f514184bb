"""Parley's server for the frameworks' clients: one process that is open to all and one that wants a token."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli.served import served
from tests.peer_environments import ROOT

AGENT = "tests.interop.agent:agent"
TOKEN = "token-of-the-tester"

# A proxy of this machine's environment is none of the tests': everything listens on loopback.
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[variable]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where they are, and the token that the second one wants. They serve HTTP alone, as `parley serve` does."""
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:

        def start(name: str, *options: str) -> str:
            arguments = ["--port", "0", "--store", f"sqlite:///{folder}/{name}.db", *options]
            return stack.enter_context(served(AGENT, *arguments, cwd=ROOT)).until_ready()

        url = start("open")
        guarded_url = start("guarded", "--auth", str(token_file(folder)))
        yield {"url": url, "guarded_url": guarded_url, "token": TOKEN}


@pytest.fixture(scope="session")
def url_with_grpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose card lists gRPC as well."""
    folder = tmp_path_factory.mktemp("grpc")
    arguments = ["--port", "0", "--grpc-port", "0", "--store", f"sqlite:///{folder}/tasks.db"]
    with served(AGENT, *arguments, cwd=ROOT) as server:
        yield server.until_ready()


def token_file(folder: Path) -> Path:
    """What `parley token` writes, for a token that is known."""
    file = folder / "auth.toml"
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    file.write_text(f'[schemes.token]\ntype = "bearer"\ntokens = [{{ name = "tester", hash = "sha256:{digest}" }}]\n')
    return file
