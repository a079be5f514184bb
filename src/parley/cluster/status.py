"""What a store says of the processes that share it: who is alive, what each does, and what waits.

Everything here is read from the store. What a replica says of itself is as old as its last renewal of its lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import Store, Worker

ALIVE, DRAINING, EXPIRED = "alive", "draining", "expired"


class UnknownReplicaError(ParleyError):
    """No replica, or more than one, has this name."""


class Replica(Struct, frozen=True, kw_only=True):
    """One process that uses the store."""

    name: str
    """As its server was called, or its worker id."""
    worker: str
    """The id under which it holds tasks."""
    state: str
    url: str = ""
    version: str = ""
    started_at: str = ""
    runs: int = 0
    waiting: int = 0
    """Messages that wait in its memory for a run."""
    lease_seconds: float
    """Until its lease expires; negative if it has."""
    hint_lag: float | None = None
    """Seconds that a hint took to reach it."""
    hint_problem: str | None = None
    """Why hints do not reach it."""

    @property
    def is_live(self) -> bool:
        """Whether its lease has not expired."""
        return self.state != EXPIRED


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """The replicas of a store, and what there is to do."""

    replicas: tuple[Replica, ...]
    held: int
    """Tasks that live replicas work on."""
    waiting: int
    """Tasks that wait for a replica with room, or for the lease of a dead one to be noticed."""
    waiting_since: datetime | None
    sleeping: int
    undelivered: int
    """Tasks whose webhooks are behind."""


async def read_status(store: Store) -> ClusterStatus:
    """The replicas of an open store by name, and what there is to do. Raises StoreError."""
    replicas = sorted(map(_replica, await store.leases.workers()), key=lambda each: (each.name, each.worker))
    workload = await store.tasks.workload(frozenset([each.worker for each in replicas if each.is_live]))
    return ClusterStatus(
        replicas=tuple(replicas),
        held=workload.held,
        waiting=workload.waiting,
        waiting_since=workload.waiting_since,
        sleeping=workload.sleeping,
        undelivered=await store.outbox.backlog(),
    )


def find_replicas(replicas: Sequence[Replica], name: str) -> list[Replica]:
    """The live replicas that a name means: one by its name, worker id or their beginning, or all workers of a server.

    Raises:
        UnknownReplicaError: there is none, or the beginning is that of several.
    """
    live = [each for each in replicas if each.is_live]
    exact = [each for each in live if name in (each.name, each.worker)]
    if exact:
        return exact
    if workers := [each for each in live if each.name.startswith(f"{name}/")]:
        return workers
    found = [each for each in live if name and (each.name.startswith(name) or each.worker.startswith(name))]
    if len(found) == 1:
        return found
    names = ", ".join(sorted({each.name for each in found or live}))
    if found:
        raise UnknownReplicaError(f"Several replicas begin with {name!r}: {names}.")
    raise UnknownReplicaError(
        f"No live replica is named {name!r}. {f'There are: {names}.' if names else 'There are none.'}"
    )


def _replica(worker: Worker) -> Replica:
    report = worker.report
    is_draining = worker.is_asked_to_drain or report.get("state") == DRAINING
    return Replica(
        name=_text(report, "name") or worker.worker,
        worker=worker.worker,
        state=EXPIRED if worker.expires_in <= 0 else DRAINING if is_draining else ALIVE,
        url=_text(report, "url"),
        version=_text(report, "version"),
        started_at=_text(report, "started_at"),
        runs=int(_number(report, "runs") or 0),
        waiting=int(_number(report, "waiting") or 0),
        lease_seconds=round(worker.expires_in, 1),
        hint_lag=_number(report, "hint_lag"),
        hint_problem=_text(report, "hint_problem") or None,
    )


def _text(report: JsonObject, name: str) -> str:
    value = report.get(name)
    return value if isinstance(value, str) else ""


def _number(report: JsonObject, name: str) -> float | None:
    value = report.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
