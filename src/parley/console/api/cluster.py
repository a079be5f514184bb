"""The cluster, for operators of a host: the processes that share its store, and asking one of them to drain."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import Struct, structs

from parley.cluster.status import ClusterStatus, UnknownReplicaError, find_replicas, read_status
from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleAnswer, ConsoleCall, ConsoleRoute
from parley.stores.interface import Store

logger = logging.getLogger(__name__)


class ClusterView(ClusterStatus, frozen=True, kw_only=True):
    """The replicas and what there is to do, as `parley cluster status --json` shows them."""

    is_shared: bool
    """Whether several processes can use the store."""


class DrainBody(Struct, frozen=True):
    """The replica that is to drain: its name or worker id, or the beginning of one of them."""

    replica: str


class DrainView(Struct, frozen=True):
    """The names of the replicas that were asked to drain."""

    asked: Sequence[str]


async def show_cluster(call: ConsoleCall) -> ConsoleAnswer:
    """The processes that share the store."""
    store = _store(call)
    status = await read_status(store)
    return ConsoleAnswer(ClusterView(**structs.asdict(status), is_shared=store.is_shared))


async def drain_replica(call: ConsoleCall) -> ConsoleAnswer:
    """Ask a replica to drain. The name of a server with several workers stands for all of them."""
    store = _store(call)
    body = await call.read(DrainBody)
    if not store.is_shared:
        raise ConsoleError("conflict", "The store belongs to one process: no other could take its work over")
    try:
        chosen = find_replicas((await read_status(store)).replicas, body.replica)
    except UnknownReplicaError as error:
        raise ConsoleError("not_found", error.message, path="$.replica") from None
    asked = [replica.name for replica in chosen if await store.leases.ask_to_drain(replica.worker)]
    if not asked:
        raise ConsoleError("not_found", "The replica has just ended", path="$.replica")
    logger.info("The operator has asked %s to drain", ", ".join(asked))
    return ConsoleAnswer(DrainView(asked))


def _store(call: ConsoleCall) -> Store:
    """The store of the server, if the caller is an operator. Raises ConsoleError."""
    if not call.caller.is_operator:
        raise ConsoleError("forbidden", "Only operators see the cluster")
    return call.backend.app.store


ROUTES = (
    ConsoleRoute("GET", "/cluster", show_cluster),
    ConsoleRoute("POST", "/cluster/drain", drain_replica),
)
