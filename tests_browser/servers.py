"""Servers for the browser tests, each a process that can be killed and started again at the same address."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.services.postgres import free_port

ROOT = Path(__file__).parent.parent
AGENTS = ROOT / "tests_browser" / "scripted_agents.py"
SECONDS = 60.0
"""Until a server answers; a machine under load takes its time."""


class Server:
    """A command that serves, with what it has printed."""

    def __init__(
        self, folder: Path, *command: str, ready: str = "/readyz", variables: dict[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self._command = [sys.executable, "-m", "parley.cli.main", *command, "--port", str(self.port)]
        self._folder, self._ready = folder, ready
        self._variables = {
            **os.environ,
            "COLUMNS": "200",
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            **(variables or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def console(self) -> str:
        return f"{self.url}/console/"

    @property
    def printed(self) -> str:
        """Everything that it has printed since it was last started."""
        return (self._folder / f"{self.port}.log").read_text(errors="replace")

    @property
    def link(self) -> str:
        """The link that logs in, as it was printed."""
        (*_, link) = re.findall(r"https?://\S+/console/#once=\S+", self.printed)
        return link

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with (self._folder / f"{self.port}.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._variables, stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, self.printed
            assert time.monotonic() < end, self.printed
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(self.url + self._ready, timeout=5).close()
        except OSError:
            return False
        return True

    def freeze(self) -> None:
        """Stop it for a while: it takes connections and reads nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(SECONDS)

    def restart(self) -> None:
        """Kill it, and start it at the same address, on the same store."""
        self.kill()
        self.start()


@contextmanager
def serving(folder: Path, *command: str, **options: object) -> Generator[Server]:
    """A server that is over when the block is."""
    server = Server(folder, *command, **options)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.kill()


def serve_command(folder: Path, *targets: str, options: Sequence[str] = ()) -> list[str]:
    """`parley serve` of the scripted agents, on a file."""
    named = [f"{AGENTS}:{target}" for target in targets or ("scripted", "hostile")]
    return ["serve", *named, "--store", f"sqlite:///{folder}/tasks.db", "--drain-seconds", "0", *options]


def send(url: str, text: str, *, token: str | None = None) -> dict:
    """Have an agent work, and give the task."""
    said = {"messageId": f"m-{time.monotonic_ns()}", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:
        return json.load(reply)["result"]["task"]


def is_open(port: int) -> bool:
    """Whether something listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
