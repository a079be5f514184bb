"""What a cluster costs and brings: replicas of `parley serve` on one PostgreSQL, beside a2a-sdk on the same one.

    python bench/cluster.py [--quick] [--only sends latency] [--before COMMIT]

PostgreSQL and NATS are real servers from PyPI with their default settings, so every commit is synced. Rounds go from
contender to contender and begin again, and a rate is the best round, as in `server.py`. `--before` names a commit whose
embedded default (one process, SQLite) is measured in turns with today's. A full run writes CLUSTER.md; README.md beside
this file says what each line means.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from cluster_results import (
    CRASHED,
    LEASES,
    NATS,
    NO_HINTS,
    NOTIFY,
    POSTGRES,
    POSTGRES_NOTIFY,
    SDK_POSTGRES,
    SERVERS,
    SQLITE,
    STOPPED,
    WORKERS,
    show,
    write,
)
from contenders import Contender, Listening, Load, Server, load
from embedded import embedded
from replicas import SQLITE_STORE, Cluster, Replica, Services, cpu_seconds, replicas, running_services
from results import Figures
from server import progress, syncs_per_second

FULL = 2
"""Runs that fill a replica whose work another one takes."""
SLOW = (SDK_POSTGRES,)
"""Those whose long streams take so long that one round must do, and that of 16,000 chunks is left out."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done."""

    rounds: int = 5
    stream_rounds: int = 3
    seconds: float = 2.0
    warmup: float = 1.0
    sizes: tuple[int, ...] = (1_000, 4_000, 16_000)
    longest_for_slow: int = 4_000
    latency_rounds: int = 3
    latency_seconds: float = 5.0
    dispatches: int = 300
    takeovers: int = 3
    restarts: int = 3
    starts: int = 7


QUICK = Effort(
    rounds=1,
    stream_rounds=1,
    seconds=1.0,
    warmup=0.5,
    longest_for_slow=1_000,
    latency_rounds=1,
    latency_seconds=2.0,
    dispatches=50,
    takeovers=1,
    restarts=1,
    starts=3,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A contender at work, and what its database has taken of the processor."""

    listening: Listening
    cpu_seconds: Callable[[], float]
    database_cpu_seconds: Callable[[], float]


@contextmanager
def started(contender: Contender, services: Services) -> Generator[Measured]:
    """A contender on a new store."""
    postgres = services.postgres
    with ExitStack() as stack:
        if contender is SQLITE:
            replica = stack.enter_context(Replica(SQLITE_STORE))
            yield Measured(replica, replica.cpu_seconds, lambda: 0.0)
            return
        url = postgres.url(stack.enter_context(services.database()))
        if contender is SDK_POSTGRES:
            store = url.replace("postgresql://", "postgresql+asyncpg://")
            served: Server | Cluster = stack.enter_context(Server(contender, store=store))
        else:
            number = 1 if contender is POSTGRES else 2
            carrier = "postgres" if contender is POSTGRES_NOTIFY else services.nats.url
            served = stack.enter_context(replicas(number, url, "--cluster", carrier))
        yield Measured(served, served.cpu_seconds, lambda: cpu_seconds(postgres.pid))


# --- throughput -------------------------------------------------------------------------------------------------------


def sends(services: Services, effort: Effort, figures: Figures) -> None:
    """SendMessage over 16 connections, spread over the replicas."""
    for round_ in range(effort.rounds):
        for contender in SERVERS:
            progress(f"sends, round {round_ + 1} of {effort.rounds}: {contender.name}")
            with started(contender, services) as measured:
                before, database_before = measured.cpu_seconds(), measured.database_cpu_seconds()
                seen = load("sends", measured.listening, seconds=effort.seconds, warmup=effort.warmup)
                worked = measured.cpu_seconds() - before
                database_worked = measured.database_cpu_seconds() - database_before
            figures.add("sends", contender.name, seen["rate"])
            figures.add("p99", contender.name, seen["p99"])
            figures.add("send cpu", contender.name, worked / seen["with_warmup"] * 1e6)
            figures.add("database cpu", contender.name, database_worked / seen["with_warmup"] * 1e6)


def streams(services: Services, effort: Effort, figures: Figures) -> None:
    """One stream after the other at each replica, of several lengths: as many short ones as make up a long one."""
    for round_ in range(effort.stream_rounds):
        for contender in SERVERS:
            is_slow = contender in SLOW
            if is_slow and round_:
                continue
            with started(contender, services) as measured:
                load("stream", measured.listening, chunks=100, times=3, checks=True)
                for size in effort.sizes:
                    if is_slow and size > effort.longest_for_slow:
                        continue
                    progress(f"streams, round {round_ + 1} of {effort.stream_rounds}: {contender.name}, {size:,}")
                    times = 1 if is_slow else effort.sizes[-1] // size
                    seen = load("stream", measured.listening, chunks=size, times=times)
                    figures.add(f"talk {size}", contender.name, seen["rate"])


def workers(services: Services, effort: Effort, figures: Figures) -> None:
    """Sends to one process and to two that share a port, of an agent that echoes and of one that computes for 2 ms."""
    for round_ in range(effort.rounds):
        for contender, (is_postgres, number) in WORKERS.items():
            progress(f"workers, round {round_ + 1} of {effort.rounds}: {contender.name}")
            with ExitStack() as stack:
                store = SQLITE_STORE
                if is_postgres:
                    store = services.postgres.url(stack.enter_context(services.database()))
                replica = stack.enter_context(Replica(store, "--workers", str(number)))
                for text in ("echo hello", "work 2"):
                    seen = load("sends", replica, seconds=effort.seconds, warmup=effort.warmup, text=text)
                    figures.add(f"workers {text.split()[0]}", contender.name, seen["rate"])


# --- between replicas -------------------------------------------------------------------------------------------------


def latency(services: Services, effort: Effort, figures: Figures) -> None:
    """An event at one replica until a subscriber at another one has it, at 1,000 a second."""
    for round_ in range(effort.latency_rounds):
        for carrier, url in ((NATS, services.nats.url), (NOTIFY, "postgres"), (NO_HINTS, "none")):
            progress(f"latency, round {round_ + 1} of {effort.latency_rounds}: {carrier.name}")
            with (
                services.database() as database,
                replicas(2, services.postgres.url(database), "--cluster", url) as cluster,
            ):
                seen = load("latency", cluster, script="replica_load.py", seconds=effort.latency_seconds)
            for quantile in ("p50", "p99", "most"):
                figures.add(f"latency {quantile}", carrier.name, seen[quantile])


def dispatch(services: Services, effort: Effort, figures: Figures) -> None:
    """A message that is sent to a full replica until its run begins at another one."""
    for carrier, url in ((NATS, services.nats.url), (NOTIFY, "postgres")):
        progress(f"dispatch: {carrier.name}")
        with services.database() as database:
            store = services.postgres.url(database)
            with (
                Replica(store, "--cluster", url, "--max-runs", str(FULL)) as full,
                Replica(store, "--cluster", url) as other,
            ):
                options = {"runs": FULL, "pid": full.pid, "times": effort.dispatches}
                seen = load("dispatch", Cluster([full, other]), script="replica_load.py", **options)
        for name in ("p50", "p99", "most", "elsewhere"):
            figures.add(f"dispatch {name}", carrier.name, seen[name])


def takeover(services: Services, effort: Effort, figures: Figures) -> None:
    """SIGKILL of the replica that runs a task until a subscriber at another one sees its next event."""
    for lease, contender in LEASES.items():
        with services.database() as database:
            options = ("--cluster", services.nats.url, "--lease", f"{lease}s")
            with replicas(2, services.postgres.url(database), *options) as cluster:
                for round_ in range(effort.takeovers):
                    progress(f"takeover, round {round_ + 1} of {effort.takeovers}: lease of {lease} s")
                    reading = Load("takeover", cluster, script="replica_load.py")
                    reading.next()
                    killed = time.monotonic()
                    cluster.replicas[0].kill()
                    seen = reading.result()
                    assert seen is not None
                    figures.add("takeover", contender.name, seen["next"] - killed)
                    cluster.replicas[0].start()


def restart(services: Services, effort: Effort, figures: Figures) -> None:
    """Sends while PostgreSQL stops and starts again, and while it crashes: until they succeed after it is back."""
    for round_ in range(effort.restarts):
        for contender, end in ((STOPPED, services.postgres.stop), (CRASHED, services.postgres.kill)):
            progress(f"PostgreSQL, round {round_ + 1} of {effort.restarts}: {contender.name}")
            with (
                services.database() as database,
                replicas(1, services.postgres.url(database), "--cluster", services.nats.url) as cluster,
            ):
                sending = Load("outage", cluster, script="replica_load.py")
                sending.next()
                end()
                services.postgres.start()
                sending.tell(str(time.monotonic()))
                seen = sending.result()
            assert seen is not None
            for figure in ("seconds", "refused", "slowest"):
                figures.add(f"restart {figure}", contender.name, seen[figure])


WORK: dict[str, Callable[[Services, Effort, Figures], None]] = {
    "sends": sends,
    "streams": streams,
    "workers": workers,
    "latency": latency,
    "dispatch": dispatch,
    "takeover": takeover,
    "restart": restart,
}
EMBEDDED = "embedded"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds; CLUSTER.md stays as it is")
    parser.add_argument("--only", nargs="+", choices=(*WORK, EMBEDDED), default=[], help="CLUSTER.md stays as it is")
    parser.add_argument("--before", metavar="COMMIT", help="also measure the embedded default of this commit")
    options = parser.parse_args()
    effort = QUICK if options.quick else Effort()
    chosen = options.only or (*WORK, EMBEDDED)
    figures = Figures()
    figures.add("syncs", "disk", syncs_per_second())
    with running_services() as services:
        for name, work in WORK.items():
            if name in chosen:
                work(services, effort, figures)
    if EMBEDDED in chosen:
        embedded(options.before, figures, rounds=effort.rounds, starts=effort.starts, seconds=effort.seconds)
    figures.add("syncs", "disk", syncs_per_second())
    progress("")
    show(figures)
    if not (options.quick or options.only):
        write(figures)


if __name__ == "__main__":
    main()
