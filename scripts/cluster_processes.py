"""The processes of `make cluster`: PostgreSQL, NATS, three replicas and a balancer, on ports of this machine.

It knows the command line of `parley serve` and nothing of what a replica does. A process that was started here is ended
by `Cluster.end`, whatever state it is in.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.services.nats import Nats
from tests.services.postgres import Postgres, free_port

ROOT = Path(__file__).parent.parent
PARLEY = os.path.relpath(Path(sys.executable).with_name("parley"), ROOT)
REPLICAS = ("a", "b", "c")
AGENTS = ("examples/trip.py", "examples/currency.py", "--root-agent", "trip-planner")
READY_SECONDS = 120.0
END_SECONDS = 10.0


class StartError(Exception):
    """Why the cluster cannot start, and what to do about it."""


class Program:
    """A process with a log file, which can be killed, paused and started again."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self.command = command
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.pid is None:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the program that started it
                )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def end(self) -> None:
        """Stop it, by force if it does not stop itself."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if self.process is not None:
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.send(signal.SIGKILL)
                self.process.wait()

    def last_lines(self) -> str:
        """What it logged last."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])


class Cluster:
    """All processes. `start` starts them, and `end` ends those that have been started."""

    def __init__(self, port: int, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.postgres = Postgres(folder / "postgres", settings={}, port=usable_port(port + 10))  # {}: fsync is on
        self.nats = Nats(usable_port(port + 11))
        self.ports = {name: usable_port(port + number) for number, name in enumerate(REPLICAS, 1)}
        self.replicas = {name: Program(name, self._serve(name), folder / f"replica-{name}.log") for name in REPLICAS}
        ports = [str(number) for number in (port, *self.ports.values())]
        balancing = [sys.executable, "-m", "tests.services.balancer", "--port", *ports]
        self.balancer = Program("balancer", balancing, folder / "balancer.log")

    def _serve(self, name: str) -> list[str]:
        where = ["--port", str(self.ports[name]), "--public-url", self.url]
        shared = ["--store", self.postgres.url(), "--cluster", self.nats.url, "--replica", name]
        quiet = ["--config", os.devnull, "--drain-seconds", "0", "--log-level", "warning"]
        return [PARLEY, "serve", *AGENTS, *where, *shared, *quiet]

    def start(self, say: Callable[[str], None]) -> None:
        """Start everything, and say what is ready. Returns when every replica is.

        Raises:
            StartError: a replica does not start.
            RuntimeError: PostgreSQL or NATS do not start.
        """
        self.postgres.start()
        say("PostgreSQL is ready.")
        self.nats.start()
        say("NATS is ready.")
        for program in (*self.replicas.values(), self.balancer):
            program.start()
        for name in REPLICAS:
            self.wait_until_ready(name)
            say(f"Replica {name} is ready.")

    def wait_until_ready(self, name: str) -> None:
        """Wait until a replica can take requests. Raises StartError."""
        program = self.replicas[name]
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready(self.ports[name]):
            if program.pid is None or time.monotonic() > deadline:
                raise StartError(f"Replica {name} did not start:\n{program.last_lines()}")
            time.sleep(0.05)

    def end(self) -> None:
        """Stop everything that has been started: the replicas at the same time, and PostgreSQL last."""
        self.balancer.end()
        for replica in self.replicas.values():
            replica.send(signal.SIGCONT)
            replica.send(signal.SIGTERM)
        for replica in self.replicas.values():
            replica.end()
        self.nats.kill()
        self.postgres.close()


def is_ready(port: int) -> bool:
    """Whether the replica at a port says that it can take requests."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def usable_port(wanted: int) -> int:
    """This port, or a free one if it is in use."""
    return free_port() if is_in_use(wanted) else wanted


def is_in_use(port: int) -> bool:
    """Whether another program listens at a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except (OSError, OverflowError):
            return True
    return False
