"""The kinds of faults. Each is a function that injects one, waits, and heals it; the cluster is whole afterwards.

A fault says what it did in a few words, for the fault log. It does not choose its target or its time: those come from
the nemesis' random numbers, so that a seed repeats them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TypeAlias

import asyncpg
from msgspec import Struct

from tests.chaos.cluster import Cluster


class Struck(Struct, frozen=True):
    """What a fault did, the process of the replica that it killed or froze, and what did not go as it should.

    `is_void` says that it found nothing that it could do: such a fault does not count.
    """

    what: str
    victim: int = 0
    trouble: str = ""
    is_void: bool = False


Fault: TypeAlias = Callable[[Cluster, Random], Awaitable[Struck]]
"""Injects a fault and heals it."""


SESSIONS = """
    SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY pid
"""


async def kill_replica(cluster: Cluster, random: Random) -> Struck:
    """SIGKILL, and a new process some seconds later."""
    replica, pause = random.choice(cluster.replicas), random.uniform(0.2, cluster.lease_seconds * 1.5)
    victim = replica.pid
    await replica.kill()
    await asyncio.sleep(pause)
    await replica.start()
    return Struck(f"{replica.name}, back after {pause:.1f} s", victim)


async def freeze_replica(cluster: Cluster, random: Random) -> Struck:
    """SIGSTOP for longer than the lease, then SIGCONT: a zombie that believes to hold its tasks."""
    replica, pause = random.choice(cluster.replicas), cluster.lease_seconds + random.uniform(0.5, 2.5)
    replica.freeze()
    await asyncio.sleep(pause)
    replica.thaw()
    return Struck(f"{replica.name}, for {pause:.1f} s", replica.pid)


async def restart_replicas(cluster: Cluster, random: Random) -> Struck:
    """SIGTERM and a new start, one replica after the other: a release."""
    order = random.sample(cluster.replicas, len(cluster.replicas))
    late: list[str] = []
    for replica in order:
        if not await replica.drain():
            late.append(replica.name)
        await replica.start()
    trouble = f"{', '.join(late)} did not end in time after SIGTERM" if late else ""
    return Struck(", ".join([replica.name for replica in order]), trouble=trouble)


async def skew_clock(cluster: Cluster, random: Random) -> Struck:
    """A replica that starts again with a wrong clock, by SIGTERM or by SIGKILL, and keeps it until its next start."""
    replica, skew = random.choice(cluster.replicas), random.choice((-15.0, -4.0, 4.0, 15.0))
    trouble = ""
    if random.random() < 0.5:
        await replica.kill()
    elif not await replica.drain():
        trouble = f"{replica.name} did not end in time after SIGTERM"
    await replica.start(skew=skew)
    return Struck(f"{replica.name}, by {skew:+g} s", trouble=trouble)


async def restart_postgres(cluster: Cluster, random: Random) -> Struck:
    """The fast shutdown, and a new start. Sometimes all leases expire meanwhile."""
    is_long = random.random() < 0.25
    pause = random.uniform(1.0, 2.0) * cluster.lease_seconds if is_long else random.uniform(0.0, 2.0)
    await asyncio.to_thread(cluster.postgres.stop)
    await asyncio.sleep(pause)
    await asyncio.to_thread(cluster.postgres.start)
    return Struck(f"down for {pause:.1f} s")


async def crash_postgres(cluster: Cluster, random: Random) -> Struck:
    """The immediate shutdown, and a start that recovers from the write-ahead log."""
    pause = random.uniform(0.0, 2.0)
    await asyncio.to_thread(cluster.postgres.kill)
    await asyncio.sleep(pause)
    await asyncio.to_thread(cluster.postgres.start)
    return Struck(f"down for {pause:.1f} s")


async def terminate_backends(cluster: Cluster, random: Random) -> Struck:
    """pg_terminate_backend of some sessions."""
    connection = await asyncpg.connect(cluster.postgres.url())
    try:
        rows = await connection.fetch(SESSIONS)
        chosen = [row["pid"] for row in rows if random.random() < 0.5]
        for pid in chosen:
            await connection.execute("SELECT pg_terminate_backend($1)", pid)
    finally:
        await connection.close()
    return Struck(f"{len(chosen)} of {len(rows)}", is_void=not chosen)


async def kill_backend(cluster: Cluster, random: Random) -> Struck:
    """SIGKILL of one session's process: Postgres ends all others and recovers."""
    connection, ended = await asyncpg.connect(cluster.postgres.url()), asyncio.Event()
    connection.add_termination_listener(lambda _: ended.set())
    try:
        rows = await connection.fetch(SESSIONS)
        if not rows:
            return Struck("none was there", is_void=True)
        try:
            os.kill(random.choice(rows)["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return Struck("it had ended already", is_void=True)
        async with asyncio.timeout(60):
            await ended.wait()  # before that, Postgres has not noticed and still answers
    finally:
        connection.terminate()
    await _until_postgres_answers(cluster)
    return Struck("one of them")


async def fill_disk(cluster: Cluster, random: Random) -> Struck:
    """No space left for Postgres: its disk is filled, or, where it has none of its own, its log tables refuse rows."""
    pause = random.uniform(1.0, 3.0)
    if cluster.disk is None:
        return await _refuse_rows(cluster, pause)
    filler = cluster.disk / "filler"
    await asyncio.to_thread(_fill, filler)
    try:
        await asyncio.sleep(pause)
    finally:
        filler.unlink()
    await _until_postgres_answers(cluster)
    return Struck(f"for {pause:.1f} s")


def _fill(path: Path) -> None:
    """Take all space that is left, also what becomes free meanwhile."""
    with path.open("wb", buffering=0) as file:
        for size in (1024 * 1024, 4096):
            with suppress(OSError):
                while True:
                    left = os.statvfs(path)
                    space = max(left.f_bavail * left.f_frsize // size, 1) * size
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, space)


async def _until_postgres_answers(cluster: Cluster) -> None:
    """Postgres ends all sessions and recovers if it could not write its write-ahead log."""
    async with asyncio.timeout(60):
        while True:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection = await asyncpg.connect(cluster.postgres.url(), timeout=5)
                await connection.close()
                return
            if cluster.postgres.has_ended:
                await asyncio.to_thread(cluster.postgres.start)
            await asyncio.sleep(0.1)


async def _refuse_rows(cluster: Cluster, pause: float) -> Struck:
    """A trigger on the tables of the log that raises the error which a full disk raises (53100)."""
    connection = await asyncpg.connect(cluster.postgres.url())
    try:
        await connection.execute("""
            CREATE OR REPLACE FUNCTION chaos_disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$
        """)
        await connection.execute(
            "CREATE TRIGGER chaos_disk_full BEFORE INSERT ON events EXECUTE FUNCTION chaos_disk_full()"
        )
        await asyncio.sleep(pause)
        await connection.execute("DROP TRIGGER chaos_disk_full ON events")
    finally:
        await connection.close()
    return Struck(f"simulated by a trigger, for {pause:.1f} s")


async def kill_nats(cluster: Cluster, random: Random) -> Struck:
    """NATS gone and back."""
    if cluster.nats is None:
        return Struck("there is none", is_void=True)
    pause = random.uniform(0.5, 4.0)
    await asyncio.to_thread(cluster.nats.kill)
    await asyncio.sleep(pause)
    await asyncio.to_thread(cluster.nats.start)
    return Struck(f"gone for {pause:.1f} s")


async def cut_connections(cluster: Cluster, random: Random) -> Struck:
    """All connections of one kind of one replica are cut."""
    replica = random.choice(cluster.replicas)
    kind = random.choice(sorted(replica.proxies))
    number = await replica.proxies[kind].cut()
    return Struck(f"{number} of {replica.name}, {kind}", is_void=number == 0)


async def lose_connections(cluster: Cluster, random: Random) -> Struck:
    """Connections of one replica to a service go silent and do not end, as when that machine is gone; new ones work."""
    replica = random.choice(cluster.replicas)
    kind = random.choice(sorted(set(replica.proxies) - {"http"}))
    number = replica.proxies[kind].abandon()
    return Struck(f"{number} of {replica.name}, {kind}", is_void=number == 0)


async def delay_connections(cluster: Cluster, random: Random) -> Struck:
    """The connections of one replica are slow for some seconds."""
    replica, pause = random.choice(cluster.replicas), random.uniform(1.0, 4.0)
    kind, delay = random.choice(sorted(replica.proxies)), random.choice((0.05, 0.2, 0.6))
    replica.proxies[kind].delay = delay
    await asyncio.sleep(pause)
    replica.proxies[kind].heal()
    return Struck(f"{replica.name}, {kind}, by {delay * 1000:.0f} ms for {pause:.1f} s")


async def partition_replica(cluster: Cluster, random: Random) -> Struck:
    """One replica cannot reach Postgres or NATS, or cannot be reached, for less or more than the lease."""
    replica, pause = random.choice(cluster.replicas), random.uniform(0.5, 2.5) * cluster.lease_seconds
    kind = random.choice(sorted(replica.proxies))
    replica.proxies[kind].partition()
    await asyncio.sleep(pause)
    replica.proxies[kind].heal()
    if random.random() < 0.5:  # the connections may be dead when the network is back
        await replica.proxies[kind].cut()
    return Struck(f"{replica.name} from {kind}, for {pause:.1f} s")


OF_REPLICAS: Mapping[str, Fault] = {
    "kill replica": kill_replica,
    "freeze replica": freeze_replica,
    "rolling restart": restart_replicas,
    "wrong clock": skew_clock,
    "cut connections": cut_connections,
    "delay connections": delay_connections,
    "silent connections": lose_connections,
    "partition": partition_replica,
}
OF_SERVICES: Mapping[str, Fault] = {
    "restart Postgres": restart_postgres,
    "crash Postgres": crash_postgres,
    "terminate backends": terminate_backends,
    "kill backend": kill_backend,
    "disk full": fill_disk,
    "kill NATS": kill_nats,
}
FAULTS: Mapping[str, Fault] = {**OF_REPLICAS, **OF_SERVICES}
