"""`make cluster`: a stream survives its replica, a restart keeps what was said, and no process stays behind."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio import to_thread
from scripts.cluster_processes import is_in_use

from parley import Client
from parley.client import Update
from parley.stores.urls import open_store, opened
from tests.cli.served import Served
from tests.deadlines import fail_after
from tests.deploy.deploy_files import ROOT

pytestmark = pytest.mark.anyio

SECONDS = 60.0


@pytest.fixture
def folder() -> Generator[Path]:
    """Where the user that PostgreSQL runs as may reach its files, if this process is root's."""
    with tempfile.TemporaryDirectory(prefix="parley-cluster-") as name:
        os.chmod(name, 0o755)
        yield Path(name) / "files"


def base_port() -> int:
    """A port with free ones above it, below those that the system gives to outgoing connections."""
    while True:
        port = random.randrange(15_000, 31_000, 20)
        if not any(is_in_use(port + offset) for offset in range(12)):
            return port


class Clustered(Served):
    """The script of `make cluster`."""

    def __init__(self, port: int, folder: Path) -> None:
        command = [sys.executable, "-m", "scripts.cluster", "--port", str(port), "--folder", str(folder)]
        super().__init__(command, cwd=ROOT, stdin=subprocess.PIPE)
        self.pids: list[int] = []
        self.status = ""

    def read_guide(self) -> None:
        """Wait until it says what to try, and read it."""
        self.until_said("Ctrl-C ends everything")
        text = "\n".join(self.said)
        self.pids = [int(pid) for pid in re.findall(r" pid (\d+)$", text, re.MULTILINE)]
        (self.status,) = {line.strip() for line in self.said if " cluster status " in line}

    def type(self, words: str) -> None:
        """Type a line, and wait until it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        self.until_said(f"Done: {words}")

    async def busy_replica(self) -> str:
        """The replica that holds the only task at work."""
        async with opened(open_store(self.status.split()[-1])) as store:
            (head,) = await store.tasks.orphaned(frozenset(), agents=frozenset(["trip-planner"]), limit=2)
            names = {each.worker: str(each.report["name"]) for each in await store.leases.workers()}
        return names[head.holder]


@contextmanager
def clustered(port: int, folder: Path) -> Generator[Clustered]:
    """The cluster, which SIGTERM ends with the block."""
    cluster = Clustered(port, folder)
    try:
        cluster.read_guide()
        yield cluster
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(SECONDS) == 0
    finally:
        assert cluster.process.stdin is not None
        cluster.process.stdin.close()
        cluster.end()
    assert len(cluster.pids) == 5
    assert_gone(cluster.pids)


def assert_gone(pids: list[int]) -> None:
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.deadline(320)
async def test_a_stream_survives_the_replica_that_works_on_it_and_all_is_there_after_a_restart(folder: Path) -> None:
    port = base_port()
    with fail_after(200), clustered(port, folder) as cluster:
        last: Update | None = None
        busy = ""
        async with Client(f"http://127.0.0.1:{port}") as client:
            async for last in client.stream("4 days in Lisbon"):
                if not busy and "## Day 1" in last.text:
                    busy = await cluster.busy_replica()
                    await to_thread.run_sync(cluster.type, f"kill {busy}")
            assert last is not None
            assert last.needs_input, "the second agent asks for a currency"
            plan = await client.get(last.task.id)
            assert re.findall(r"## Day \d", plan.text) == [f"## Day {number}" for number in range(1, 5)]
            await to_thread.run_sync(cluster.type, f"start {busy}")
            await to_thread.run_sync(cluster.type, "status")
    with fail_after(100), clustered(port, folder):
        async with Client(f"http://127.0.0.1:{port}") as client:
            assert (await client.get(last.task.id)).text == plan.text
            reply = await client.send("JPY", task=last.task)
            assert reply.is_finished
            assert "JPY" in reply.text


@pytest.mark.deadline(120)
def test_nothing_stays_behind_if_the_reader_of_its_output_has_gone(folder: Path) -> None:
    command = [sys.executable, "-m", "scripts.cluster", "--port", str(base_port()), "--folder", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C ends" in line:
                break
        process.stdout.close()
        process.terminate()
        process.wait(SECONDS)
    pids = [int(pid) for pid in re.findall(r" pid (\d+)$", "".join(said), re.MULTILINE)]
    assert len(pids) == 5, said
    assert_gone(pids)


def test_a_port_in_use_is_said_with_a_command_that_works(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "scripts.cluster", "--port", str(port), "--folder", str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1
    assert f"Port {port} is in use. Try another one: make cluster PORT=" in done.stderr
    assert not folder.exists()
