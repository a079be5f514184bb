"""The cluster under test: three replicas on one Postgres and one NATS, with a proxy on every connection.

client ── balancer ── proxy ── replica ── proxy ── Postgres
                                    └──── proxy ── NATS
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.network import FaultProxy
from tests.chaos.replica_process import ReplicaSettings
from tests.chaos.replicas import Replica
from tests.services.balancer import Balancer
from tests.services.nats import Nats, running_nats
from tests.services.postgres import Postgres, free_port, running_postgres

REPLICAS = 3
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "160MB", "min_wal_size": "32MB"}
"""The processes of Postgres are killed, the machine is not: what they have written to the system is not lost. The
write-ahead log must fit on the disk."""

DISK = "2g"
"""The disk of Postgres, in memory, where one can be mounted: small enough to be filled within a second or two, and
large enough for the log of an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a nemesis can break, and where clients call."""

    url: str
    replicas: tuple[Replica, ...]
    store: str
    """The URL of the store, past the proxies."""
    postgres: Postgres | None
    nats: Nats | None
    disk: Path | None
    """The disk of Postgres if it has one of its own, which can be filled."""
    lease_seconds: float
    side_file: Path


@asynccontextmanager
async def running_cluster(
    folder: Path, *, lease_seconds: float, source: Path | None = None, store: str = "postgres", hints: str = "nats"
) -> AsyncGenerator[Cluster]:
    """A cluster until the block ends; its logs and the side file are in `folder`.

    `store` is `postgres`, or `sqlite` for a file that all replicas share; `hints` is `nats`, `postgres` or `none`.
    """
    async with AsyncExitStack() as stack:
        postgres, disk = None, None
        if store == "postgres":
            disk = stack.enter_context(small_disk())
            place = None if disk is None else disk / "postgres"
            postgres = stack.enter_context(running_postgres(place, settings=SETTINGS))
            stack.callback(_keep_log, postgres, folder)
        nats = stack.enter_context(running_nats()) if hints == "nats" else None
        store_url = f"sqlite:///{folder / 'tasks.db'}" if postgres is None else postgres.url()
        replicas: list[Replica] = []
        for number in range(REPLICAS):
            proxies = {"http": FaultProxy(free_port())}
            if postgres is not None:
                proxies["postgres"] = FaultProxy(postgres.port)
            if nats is not None:
                proxies["nats"] = FaultProxy(nats.port)
            for proxy in proxies.values():
                await proxy.start()
                stack.push_async_callback(proxy.close)
            settings = ReplicaSettings(
                name=f"replica-{number}",
                store=_through(proxies.get("postgres"), store_url),
                hints=hints if nats is None else _through(proxies["nats"], nats.url),
                port=proxies["http"].target_port,
                side_file=str(folder / "side.jsonl"),
                lease_seconds=lease_seconds,
            )
            replicas.append(Replica(settings, proxies, source=source, log=folder / f"replica-{number}.log"))
            stack.push_async_callback(replicas[-1].kill)
        await asyncio.gather(*[replica.start() for replica in replicas])
        balancer = Balancer([replica.proxies["http"].port for replica in replicas])
        stack.push_async_callback(balancer.close)
        yield Cluster(
            url=f"http://127.0.0.1:{await balancer.start()}/",
            replicas=tuple(replicas),
            store=store_url,
            postgres=postgres,
            nats=nats,
            disk=disk,
            lease_seconds=lease_seconds,
            side_file=folder / "side.jsonl",
        )


def _keep_log(postgres: Postgres, folder: Path) -> None:
    shutil.copy(postgres.folder / "log", folder / "postgres.log")


def _through(proxy: FaultProxy | None, url: str) -> str:
    """A URL with the port of a proxy to it."""
    return url if proxy is None else url.replace(f":{proxy.target_port}", f":{proxy.port}")


@contextmanager
def small_disk() -> Generator[Path | None]:
    """A disk of its own that can be filled, until the block ends; None where this user may not mount one."""
    folder = Path(tempfile.mkdtemp(prefix="parley-chaos-disk-"))
    folder.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", str(folder)]
    is_mounted = (
        os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    )
    try:
        yield folder if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
