"""What `cluster.py` measures, at work: PostgreSQL, NATS, replicas of `parley serve`, and their processor time.

Everything runs on this machine, in processes of its own. PostgreSQL keeps its defaults, so a commit is durable. Each
measurement has a new database.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import asyncpg

from contenders import HERE, ROOT, STARTING

sys.path.append(str(ROOT))  # `tests` is not an installed package

from tests.services.nats import Nats, running_nats
from tests.services.postgres import Postgres, free_port, running_postgres

AGENT = HERE / "servers" / "replicated.py"
SQLITE_STORE = "sqlite:///tasks.db"
"""A file in the folder of a replica."""
ENDING = 30.0
"""Seconds until a server that was told to stop must have ended."""

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Services:
    """A PostgreSQL and a NATS server."""

    postgres: Postgres
    nats: Nats

    @contextmanager
    def database(self) -> Generator[str]:
        """The name of a new database, which is dropped after the block."""
        name = f"bench_{next(_numbers)}"
        asyncio.run(self._execute(f"CREATE DATABASE {name}"))
        try:
            yield name
        finally:
            asyncio.run(self._execute(f"DROP DATABASE {name} WITH (FORCE)"))

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.postgres.url())
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def running_services() -> Generator[Services]:
    """Both servers, until the block ends."""
    with running_postgres(settings={}) as postgres, running_nats() as nats:
        yield Services(postgres, nats)


class Replica(AbstractContextManager["Replica"]):
    """`parley serve` at work, with all its processes."""

    def __init__(self, store: str, *options: str, source: Path | None = None) -> None:
        """Start it on the store of a URL, with more options, and with the Parley of this or another `source`."""
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="parley-bench-")
        command = [sys.executable, "-m", "parley.cli.main", "serve", f"{AGENT}:agent", "--port", str(self.port)]
        self._command = [*command, "--store", store, "--log-level", "error", *options]
        self._environment = {**os.environ, "PYTHONPATH": str(source)} if source else None
        self.start()

    @property
    def ports(self) -> tuple[int]:
        return (self.port,)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._process = subprocess.Popen(
            self._command,
            cwd=self._folder.name,
            env=self._environment,
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + STARTING
        while not self._is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"parley serve has ended with {self._process.returncode}")
            if time.monotonic() > end:
                self.kill()
                raise RuntimeError("parley serve is not ready")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=STARTING).close()
        except OSError:
            return False
        return True

    def cpu_seconds(self) -> float:
        """The processor time that all its processes have taken so far."""
        return cpu_seconds(self.pid)

    def kill(self) -> None:
        """End all its processes at once."""
        for pid in family(self.pid):
            os.kill(pid, signal.SIGKILL)
        self._process.wait(ENDING)

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._folder.cleanup()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Replicas on one store."""

    replicas: Sequence[Replica]

    @property
    def ports(self) -> list[int]:
        return [replica.port for replica in self.replicas]

    def cpu_seconds(self) -> float:
        return sum(replica.cpu_seconds() for replica in self.replicas)


@contextmanager
def replicas(number: int, store: str, *options: str) -> Generator[Cluster]:
    """Some replicas on the store of a URL."""
    with ExitStack() as stack:
        yield Cluster([stack.enter_context(Replica(store, *options)) for _ in range(number)])


def cpu_seconds(pid: int) -> float:
    """The processor time of a process and of all that it has started, also of those that have ended."""
    ticks = sum(sum(map(int, fields[11:15])) for fields in family(pid).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> dict[int, list[str]]:
    """A process and all that it has started, each with the fields of /proc/PID/stat after the program's name."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    members = {pid}
    while more := {child for child, fields in found.items() if int(fields[1]) in members} - members:
        members |= more
    return {member: found[member] for member in members}
