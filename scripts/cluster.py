"""Starts a cluster on this machine, says what to try and what to kill, and ends it on Ctrl-C: `make cluster`.

    python -m scripts.cluster --port 8080 --folder .venv/cluster

PostgreSQL syncs to the disk and its files stay, so what was said is there again after the next start. A replica that is
killed stays dead until it is started again: typing `start a` does that. Every process that was started here has ended
when this one ends, also by SIGTERM or because its terminal was closed.
"""

from __future__ import annotations

import argparse
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from scripts.cluster_processes import PARLEY, REPLICAS, ROOT, Cluster, StartError, is_in_use

from parley.file_lock import lock_file

SENTENCE = "9 days in Lisbon"
"""The example plans a day in about two seconds: long enough to kill something."""


def main() -> int:
    parser = argparse.ArgumentParser(description="A cluster on this machine, until Ctrl-C.")
    parser.add_argument("--port", type=port_number, default=8080, help="of the balancer; the others use those above it")
    parser.add_argument("--folder", type=Path, help="where PostgreSQL keeps its files, and the logs are")
    chosen = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    cluster: Cluster | None = None
    try:
        if is_in_use(chosen.port):
            raise StartError(f"Port {chosen.port} is in use. Try another one: make cluster PORT={chosen.port + 100}")
        folder = state_folder(chosen.folder)
        with (folder / "lock").open("w") as lock:
            if not lock_file(lock.fileno()):
                raise StartError(f"Another cluster uses {folder}. Stop it, or choose another folder: FOLDER=…")
            say(f"Starting PostgreSQL, NATS, three replicas and a balancer. Their files are in {folder}.")
            cluster = Cluster(chosen.port, folder)
            try:
                cluster.start(say)
                say(guide(cluster))
                Console(cluster).run()
            finally:
                end(cluster)
    except (StartError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def say(text: str) -> None:
    """Print a text, if the terminal or the program that reads it is still there."""
    with suppress(OSError):
        print(text, flush=True)


def port_number(text: str) -> int:
    """A port that leaves room for those of the other processes."""
    number = int(text)
    if not 1 <= number <= 65_500:
        raise ValueError
    return number


was_interrupted = threading.Event()
"""Python drops what a signal raises while a finalizer runs. So the loop looks here, too."""


def interrupt(_number: int, _frame: object) -> None:
    """End as Ctrl-C does, whichever signal it was."""
    was_interrupted.set()
    raise KeyboardInterrupt


def end(cluster: Cluster) -> None:
    """Stop all processes. Neither further signals nor a closed terminal interrupt this."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say("\nStopping everything.")
    cluster.end()
    say("Stopped. What was said is kept: make cluster shows it again.")


# --- where the files are ----------------------------------------------------------------------------------------------


def state_folder(chosen: Path | None) -> Path:
    """The folder of all files, created if need be.

    PostgreSQL does not run as root, but as another user, who must be able to reach its files. If that user cannot reach
    the folder of this checkout, such as one in /root, they are in the system's folder for temporary files.

    Raises:
        StartError: the folder cannot be used.
    """
    folder = (chosen or ROOT / ".venv" / "cluster").absolute()
    if chosen is None and os.geteuid() == 0 and not is_reachable(folder):
        name = sha256(str(ROOT).encode()).hexdigest()[:8]
        folder = Path(tempfile.gettempdir()) / f"parley-cluster-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_ours = folder.stat().st_uid == os.geteuid() and not folder.is_symlink()
        if is_ours and os.geteuid() == 0:
            folder.chmod(0o755)
    except OSError as error:
        raise StartError(f"{folder} cannot be used: {error.strerror}. Choose another folder: FOLDER=…") from error
    if not is_ours:
        raise StartError(f"{folder} belongs to another user. Choose another folder: FOLDER=…")
    return folder


def is_reachable(folder: Path) -> bool:
    """Whether every user can reach what is below a folder."""
    return all(parent.stat().st_mode & 0o001 for parent in folder.parents if parent.exists())


# --- what to try ------------------------------------------------------------------------------------------------------


def guide(cluster: Cluster) -> str:
    """What runs where, what to try, and what to kill."""
    pids = {name: replica.pid for name, replica in cluster.replicas.items()}
    rows = [f"  replica {name}   http://127.0.0.1:{cluster.ports[name]}   pid {pids[name]}" for name in REPLICAS]
    send = shlex.join([PARLEY, "send", cluster.url, SENTENCE])
    status, drain = (shlex.join(cluster_command(cluster, *words)) for words in (("status",), ("drain", "a")))
    return f"""
A cluster at {cluster.url}: three replicas on one PostgreSQL, with NATS between them.
Any replica answers any request.

{chr(10).join(rows)}
  PostgreSQL  {cluster.postgres.url()}   pid {cluster.postgres.pid}
  NATS        {cluster.nats.url}   pid {cluster.nats.pid}

In a second terminal, let the agent talk for a while:

  {send}

Meanwhile break something, in a third terminal or by typing the words on the right here:

  kill -9 {pids["a"]:<8}      kill a        A replica dies. If it was at work, the answer pauses for the rest of its
                                      lease (10 seconds) and goes on at another replica.
  kill -STOP {pids["b"]:<8}   pause b       A replica sleeps for longer than its lease: its tasks go on at the others.
  kill -CONT {pids["b"]:<8}   resume b      It wakes up, and finds that it may not write to these tasks any more.
  kill -9 {cluster.nats.pid:<8}      kill nats     Hints are gone. Everything works, a little later.
  kill -INT {cluster.postgres.pid:<8}    kill postgres All sends fail with an error that says so. Nothing is lost.
                       start a       Start a again; so with b, c, nats and postgres.

  {status}
                       status        Which replica does what.
  {drain}
                       drain a       It hands its work on, and ends.

Ctrl-C ends everything. What was said stays: {shlex.join([PARLEY, "tasks", "list", cluster.url])}
"""


def cluster_command(cluster: Cluster, *words: str) -> list[str]:
    """`parley cluster …` for this cluster."""
    return [PARLEY, "cluster", *words, "--store", cluster.postgres.url()]


class Console:
    """What is typed, and what happens to the replicas, until the cluster is ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dead: set[str] = set()
        services: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "nats": (cluster.nats.kill, cluster.nats.start),
            "postgres": (cluster.postgres.stop, cluster.postgres.start),
        }
        self._commands: dict[str, Callable[[], None]] = {"status": lambda: self._show("status"), "help": self._help}
        for name, (kill, start) in services.items():
            self._commands[f"kill {name}"] = kill
            self._commands[f"start {name}"] = lambda kill=kill, start=start: (kill(), start())[1]
        for name, replica in cluster.replicas.items():
            self._commands[f"kill {name}"] = lambda replica=replica: replica.send(signal.SIGKILL)
            self._commands[f"pause {name}"] = lambda replica=replica: replica.send(signal.SIGSTOP)
            self._commands[f"resume {name}"] = lambda replica=replica: replica.send(signal.SIGCONT)
            self._commands[f"drain {name}"] = lambda name=name: self._show("drain", name)
            self._commands[f"start {name}"] = lambda name=name: self._start(name)

    def run(self) -> None:
        """Do what is typed, and say which replicas have ended, until a signal comes."""
        sources, typed = [0], b""
        while not was_interrupted.is_set():
            if select.select(sources, [], [], 0.2)[0]:
                found = os.read(0, 4096)
                *lines, typed = (typed + found).split(b"\n")
                for line in lines:
                    self._do(" ".join(line.decode(errors="replace").lower().split()))
                if not found:  # no terminal: only signals end it
                    sources = []
            self._report()

    def _do(self, words: str) -> None:
        if words in self._commands:
            try:
                self._commands[words]()
                say(f"Done: {words}")
            except (StartError, RuntimeError) as error:
                say(str(error))
        elif words:
            say(f"There is no command {words!r}. These are: {', '.join(sorted(self._commands))}")

    def _report(self) -> None:
        """Say once that a replica has ended."""
        for name, replica in self._cluster.replicas.items():
            if replica.pid is not None:
                self._dead.discard(name)
            elif name not in self._dead:
                self._dead.add(name)
                say(f"Replica {name} has ended. Type “start {name}” to start it again, or paste:")
                say(f"  {shlex.join(replica.command)}")

    def _start(self, name: str) -> None:
        self._cluster.replicas[name].start()
        self._cluster.wait_until_ready(name)
        say(f"Replica {name} runs again, pid {self._cluster.replicas[name].pid}.")

    def _show(self, *words: str) -> None:
        subprocess.run(
            cluster_command(self._cluster, *words), cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def _help(self) -> None:
        say(guide(self._cluster))


if __name__ == "__main__":
    sys.exit(main())
