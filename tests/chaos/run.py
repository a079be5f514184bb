"""One run of the harness: start the cluster and the clients, inject faults, heal, wait until all is quiet, check."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import asyncpg
import msgspec
from msgspec import Struct

from tests.chaos.checker import Violation, check
from tests.chaos.cluster import Cluster, running_cluster
from tests.chaos.evidence import Evidence
from tests.chaos.faults import FAULTS, OF_SERVICES
from tests.chaos.history import now, read_history
from tests.chaos.log_reader import read_tasks, tasks_in_outbox, unfinished_tasks
from tests.chaos.nemesis import InjectedFault, Nemesis
from tests.chaos.replicas import ROOT
from tests.chaos.side_file import read_side_file

logger = logging.getLogger(__name__)

QUIET_SECONDS = 60.0
"""How long the cluster may take to end everything when all faults are healed and all clients have gone."""

LONGER = 5
"""How many times as long as asked for a slow machine may take for the least number of faults."""

GIVING_UP_SECONDS = 50.0
"""How much longer than their patience clients may take to end their conversations."""


class Settings(Struct, frozen=True, kw_only=True):
    """How long and how hard a run is."""

    seconds: float
    seed: int
    clients: int = 200
    client_processes: int = 1
    lease_seconds: float = 2.0
    pauses: tuple[float, float] = (0.5, 3.0)
    """The shortest and the longest pause between two faults."""
    least_faults: int = 0
    """A run with fewer goes on for up to `LONGER` times as long, and fails if it does not reach them."""
    most_faults: int = 10_000
    kinds: tuple[str, ...] = ()
    store: str = "postgres"
    hints: str = "nats"
    patience: float = 100.0
    """Seconds after which a client gives a conversation up, as stuck. By default far longer than any takes."""


class Outcome(Struct, frozen=True):
    """What a run has shown."""

    settings: Settings
    faults: Sequence[InjectedFault]
    evidence: Evidence
    violations: Sequence[Violation]
    seconds: float


async def run_chaos(settings: Settings, folder: Path, *, source: Path | None = None) -> Outcome:
    """Run it; all files are in `folder`. `source` is a folder with another `parley` package for the replicas."""
    begun = now()
    async with running_cluster(
        folder, lease_seconds=settings.lease_seconds, source=source, store=settings.store, hints=settings.hints
    ) as cluster:
        logger.info("The cluster is up after %.1f s: %s", now() - begun, cluster.url)
        clients = [await _start_clients(settings, cluster, folder, n) for n in range(settings.client_processes)]
        try:
            nemesis = Nemesis(cluster, seed=settings.seed, kinds=settings.kinds or _kinds(settings))
            await nemesis.inject_until(
                now() + settings.seconds,
                pauses=settings.pauses,
                least=settings.least_faults,
                most=settings.most_faults,
                last_deadline=now() + settings.seconds * LONGER,
            )
            logger.info("%d faults after %.1f s; the clients finish", nemesis.injected, now() - begun)
            have_finished = await asyncio.gather(*[_finish(process, settings.patience) for process in clients])
            await _until_quiet(cluster, min(QUIET_SECONDS, settings.patience))
        finally:
            for process in clients:
                if process.stdin is not None and process.returncode is None:
                    process.stdin.write(b"exit\n")
            await asyncio.gather(*[_end(process) for process in clients])
        histories = [folder / f"history-{number}.jsonl" for number in range(settings.client_processes)]
        evidence = Evidence(
            await read_tasks(cluster.store),
            read_history(histories),
            read_side_file(cluster.side_file),
            await tasks_in_outbox(cluster.store),
        )
    (folder / "faults.json").write_bytes(msgspec.json.format(msgspec.json.encode(nemesis.log)))
    (folder / "tasks.jsonl").write_bytes(b"\n".join([msgspec.json.encode(task) for task in evidence.tasks.values()]))
    troubles = [
        Violation("replicas end", "", f"{fault.kind}: {fault.trouble}") for fault in nemesis.log if fault.trouble
    ]
    if nemesis.injected < settings.least_faults:
        text = f"{nemesis.injected} were injected, and {settings.least_faults} were asked for"
        troubles.append(Violation("enough faults", "", text))
    if not all(have_finished):
        troubles.append(Violation("clients end", "", "they were killed, and what they noted last is not known"))
    return Outcome(settings, nemesis.log, evidence, [*troubles, *check(evidence)], now() - begun)


def _kinds(settings: Settings) -> tuple[str, ...]:
    unfit = set() if settings.hints == "nats" else {"kill NATS"}
    if settings.store != "postgres":
        unfit |= {*OF_SERVICES, "silent connections"}
    return tuple([kind for kind in FAULTS if kind not in unfit])


async def _start_clients(settings: Settings, cluster: Cluster, folder: Path, number: int) -> Process:
    share = settings.clients // settings.client_processes
    history = folder / f"history-{number}.jsonl"
    arguments = [cluster.url, str(history), str(share), str(settings.seed), f"c{number}.", str(settings.patience)]
    with (folder / "clients.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "tests.chaos.clients", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )


async def _finish(process: Process, patience: float) -> bool:
    """Let the clients of a process end their conversations; False if they do not end in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"finish\n")
    try:
        async with asyncio.timeout(patience + GIVING_UP_SECONDS):
            line = await process.stdout.readline()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    if line != b"finished\n":
        raise RuntimeError("A process with clients has failed: see clients.log")
    return True


async def _end(process: Process) -> None:
    try:
        async with asyncio.timeout(10):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _until_quiet(cluster: Cluster, seconds: float) -> None:
    """Wait until no task is worked on and no webhook is behind, or it has taken too long; the checker tells."""
    deadline = now() + seconds
    while now() < deadline:
        with suppress(OSError, asyncpg.PostgresError):
            if not await unfinished_tasks(cluster.store) and not await tasks_in_outbox(cluster.store):
                return
        await asyncio.sleep(0.2)
    logger.warning("The cluster is not quiet after %g s", seconds)
