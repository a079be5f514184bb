"""Who is measured, and how each is started: every one in its own environment and process, on a store of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).parent
ROOT = HERE.parent
STARTING = 30.0
"""Seconds until a server must answer."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that is measured."""

    name: str
    environment: str
    script: str
    is_durable: bool = False
    sent_states: tuple[str, ...] = ("TASK_STATE_COMPLETED",)
    """The states one of which the reply to a send shows."""

    @property
    def python(self) -> str:
        return sys.executable if not self.environment else str(ROOT / self.environment / "bin" / "python")


OURS = Contender("parley, memory", "", "with_parley.py")
OURS_DURABLE = Contender("parley, SQLite", "", "with_parley.py", is_durable=True)
SDK = Contender("a2a-sdk, memory", ".peers/a2a-sdk-1.3.0", "with_a2a_sdk.py")
SDK_DURABLE = Contender("a2a-sdk, SQLite", ".peers/a2a-sdk-1.3.0", "with_a2a_sdk.py", is_durable=True)
# It answers before the agent has run, so its replies show any state of a task.
FASTA2A = Contender("fasta2a, memory", ".peers/fasta2a", "with_fasta2a.py", sent_states=("TASK_STATE_",))
BARE = Contender("bare uvicorn reply", "", "bare.py")
CONTENDERS = (OURS, OURS_DURABLE, SDK, SDK_DURABLE, FASTA2A, BARE)


class Server(AbstractContextManager["Server"]):
    """A contender at work."""

    def __init__(
        self, contender: Contender, *, send_buffer: int = 0, store: str = "", source: Path | None = None
    ) -> None:
        """Start it, on a file of its own or on the `store` of a URL, with the Parley of this or another `source`."""
        self.contender = contender
        self._folder = tempfile.TemporaryDirectory(prefix="parley-bench-")
        command = [contender.python, str(HERE / "servers" / contender.script)]
        if contender.is_durable:
            command += ["--store", store or str(Path(self._folder.name, "tasks.db"))]
        if send_buffer:
            command += ["--send-buffer", str(send_buffer)]
        environment = {**os.environ, "PYTHONPATH": str(source)} if source else None
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.port = int(self._answer()["port"])
        self._wait_until_it_answers()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ports(self) -> tuple[int]:
        return (self.port,)

    def tell(self, command: str) -> dict[str, Any]:
        """Have the server open or close its agent's gate, or say how it is."""
        assert self._process.stdin
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def resident_bytes(self) -> int:
        """The memory of the process that is in use, after it has collected its garbage."""
        self.tell("inspect")
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """The processor time that all threads of the process have taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __exit__(self, *_: object) -> None:
        # Nothing is kept of it, and some would wait for their agents first.
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.contender.name} has ended with {self._process.wait()}")
        return json.loads(line)

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + STARTING
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=STARTING).close()
            except urllib.error.HTTPError:
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return


class Listening(Protocol):
    """What load is put on."""

    @property
    def ports(self) -> Sequence[int]: ...


class Load:
    """A load generator at work, in a process of its own."""

    def __init__(self, kind: str, server: Listening, *, script: str = "load.py", **options: Any) -> None:
        command = [sys.executable, str(HERE / script), kind, "--port", *map(str, server.ports)]
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            values = value if isinstance(value, tuple) else (value,)
            command += [flag] if value is True else [flag, *map(str, values)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def next(self) -> dict[str, Any]:
        """What it says next."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the load generator has ended with {self._process.wait()}")
        return json.loads(line)

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def result(self, timeout: float | None = None) -> dict[str, Any] | None:
        """What it saw in all, or None when it did not come to an end in time."""
        try:
            shown, _ = self._process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return None
        if self._process.returncode:
            raise RuntimeError("the load generator saw something wrong")
        return json.loads(shown.splitlines()[-1])


def load(kind: str, server: Listening, **options: Any) -> dict[str, Any]:
    """What the load generator saw."""
    result = Load(kind, server, **options).result()
    assert result is not None
    return result
