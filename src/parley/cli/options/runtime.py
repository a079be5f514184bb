"""The options of a server that runs agents, which `parley serve` and `parley up` share.

They say where tasks are kept and for how long, which other processes share them, how the server shuts down, and what
agents may use.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from parley.cli.options.durations import read_retention
from parley.cli.options.groups import OptionGroup
from parley.cli.options.handover import Handover, decode_handover
from parley.cli.options.limits import ENGINE_LIMITS, NO_CHANGES, LimitValues, limit_options
from parley.cli.options.server import host_names
from parley.cli.output.help_text import Section
from parley.cli.output.store_text import store_text
from parley.client.guard import Guard
from parley.engine.limits import Limits
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.sealed.sources import KeySource, key_source
from parley.stores.urls import is_postgres, open_store, sqlite_path

if TYPE_CHECKING:
    from parley.cluster.hints import Hints
    from parley.server.run import Serving
    from parley.server.telemetry.audit import AuditTrail
    from parley.stores.interface import Store

FileHosts: TypeAlias = Literal["public", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """How agents run."""

    store: str
    store_key: str | None
    """Where the keys for secrets in the store are: a file, or env:NAME; None for the file beside the store."""
    cluster: str | None
    """What carries hints to other processes; None for what the store suggests."""
    replica: str
    """The name of this process in `parley cluster status`."""
    workers: int
    """How many processes to start."""
    handover: Handover | None
    """What this process was given by its parent, if it is one of several workers."""
    retention: timedelta | None
    agent_retention: Mapping[str, timedelta]
    """Of single agents, by id."""
    drain_seconds: float
    drain_delay: float
    limits: LimitValues
    file_guard: Guard
    audit_log: Path | None

    @property
    def needs_workers(self) -> bool:
        """Whether this process is to start others, which serve."""
        return self.workers > 1 and self.handover is None

    def open_store(self) -> Store:
        """The store, not opened yet.

        Raises:
            StoreError: it is not the URL of a store.
        """
        if self.handover is not None and is_sqlite(self.store):
            from parley.stores.sqlite.store import SqliteStore

            return SqliteStore(sqlite_path(self.store), shared=True, keys=self._keys)
        return open_store(self.store, keys=self._keys)

    @property
    def _keys(self) -> KeySource | None:
        return None if self.store_key is None else key_source(self.store_key)

    def hints(self) -> Hints | None:
        """What carries hints to other processes; None if there are none, or if they look at the store regularly.

        Raises:
            ValueError: the URL is not one of a carrier, or does not fit the store.
        """
        if is_sqlite(self.store):
            if self.handover is None:
                return None
            from parley.cluster.carrier import ConnectedHints
            from parley.cluster.sockets import SocketTransport

            return ConnectedHints(SocketTransport(Path(self.handover.hints_folder)))
        if not is_postgres(self.store):
            return None
        from parley.cluster.urls import open_hints

        return open_hints(self.cluster, self.store)

    def applied_to(self, serving: Serving) -> Serving:
        """The settings of the server, with its drain delay and what its parent has handed over."""
        serving = replace(serving, drain_delay=self.drain_delay)
        if self.handover is None:
            return serving
        return replace(serving, listening=self.handover.listening, grpc_port=self.handover.grpc_port)

    @property
    def engine_limits(self) -> Limits:
        """The limits of tasks and runs."""
        return self.limits.of(Limits)

    @property
    def delivery_limits(self) -> DeliveryLimits:
        """The limits of webhook calls."""
        return self.limits.of(DeliveryLimits)

    def audit(self) -> AuditTrail | None:
        """The audit log, not open yet; None if it is off."""
        from parley.server.telemetry.audit import AuditTrail

        return None if self.audit_log is None else AuditTrail(self.audit_log)


_tasks = partial(typer.Option, rich_help_panel=Section.TASKS)
_cluster = partial(typer.Option, rich_help_panel=Section.CLUSTER)
_security = partial(typer.Option, rich_help_panel=Section.SECURITY)
_logs = partial(typer.Option, rich_help_panel=Section.LOGS)

WithEngineLimits = Annotated[LimitValues, OptionGroup(limit_options(*ENGINE_LIMITS))]


def runtime_options(
    store: Annotated[
        str,
        _tasks(
            metavar="URL",
            help="What to store everything in: sqlite:///file.db, postgresql://user@host/database, or memory:.",
        ),
    ] = "sqlite:///parley.db",
    store_key: Annotated[
        str | None,
        _security(
            metavar="FILE",
            help="The keys that encrypt secrets in the store, or env:NAME for a variable that holds them.",
            show_default="FILE.key beside a SQLite file",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        _cluster(
            metavar="URL",
            help="What carries hints to other processes on the store: nats://host, postgres, or none.",
            show_default="postgres for PostgreSQL, otherwise none",
        ),
    ] = None,
    replica: Annotated[
        str | None,
        _cluster(
            metavar="NAME",
            help="The name of this process in parley cluster status.",
            show_default="host name and process id",
        ),
    ] = None,
    workers: Annotated[int, _cluster(metavar="N", min=1, help="Processes that share the port and the store.")] = 1,
    worker: Annotated[str | None, typer.Option(hidden=True, help="What the parent of workers hands over.")] = None,
    retention: Annotated[
        str | None, _tasks(metavar="TIME", help="Delete finished tasks after this time: 30d, or 30d,AGENT=7d.")
    ] = None,
    drain_seconds: Annotated[
        float, _tasks(metavar="N", min=0, help="Seconds that runs have to finish at shutdown.")
    ] = 10,
    drain_delay: Annotated[
        float,
        _tasks(metavar="N", min=0, help="Seconds before that in which the server is not ready but accepts requests."),
    ] = 0,
    files: Annotated[
        FileHosts, _security(metavar="WHICH", help="Where agents may read files by URL: public (https) or any.")
    ] = "public",
    file_host: Annotated[
        list[str] | None,
        _security(
            metavar="NAME",
            callback=host_names,
            help="Also let agents read files on this host, private or not; .example.com for all subdomains.",
        ),
    ] = None,
    audit_log: Annotated[Path | None, _logs(metavar="FILE", help="Write an audit log, in lines of JSON.")] = None,
    limits: WithEngineLimits = NO_CHANGES,
) -> RuntimeOptions:
    """Build the value from the options.

    Raises:
        BadParameter: one of them is not valid.
    """
    _check_cluster(cluster, store)
    handover = decode_handover(worker) if worker is not None else None
    if workers > 1 and handover is None:
        _check_workers(store)
    kept, kept_of_agents = read_retention(retention or "", "--retention")
    return RuntimeOptions(
        store=store,
        store_key=store_key,
        cluster=cluster,
        replica=_replica(replica) if handover is None else handover.replica,
        workers=workers,
        handover=handover,
        retention=kept,
        agent_retention=kept_of_agents,
        drain_seconds=drain_seconds,
        drain_delay=drain_delay,
        limits=limits,
        file_guard=Guard(allow_private=files == "any", allowed_hosts=tuple(file_host or ())),
        audit_log=audit_log,
    )


WithRuntimeOptions = Annotated[RuntimeOptions, OptionGroup(runtime_options)]


def is_sqlite(store: str) -> bool:
    """Whether the URL is that of a SQLite file."""
    return store.startswith("sqlite:")


def _replica(name: str | None) -> str:
    if name is None:
        return f"{socket.gethostname()}-{os.getpid()}"
    if not re.fullmatch(r"[\w.:-]{1,100}", name):
        advice = "Write up to 100 letters, digits and - _ . : without spaces."
        raise typer.BadParameter(f"Invalid name: {name!r}. {advice}", param_hint="--replica")
    return name


def _check_cluster(cluster: str | None, store: str) -> None:
    if cluster is None or cluster == "none":
        return
    if cluster != "postgres" and not re.match(r"(nats|tls)://.", cluster):
        advice = "Write nats://host:4222, postgres or none."
        raise typer.BadParameter(f"Invalid URL: {store_text(cluster)!r}. {advice}", param_hint="--cluster")
    if not is_postgres(store):
        reason = "belongs to the processes of one machine" if is_sqlite(store) else "belongs to one process"
        advice = "Several servers need --store postgresql://…"
        raise typer.BadParameter(f"The store {store_text(store)} {reason}. {advice}", param_hint="--cluster")


def _check_workers(store: str) -> None:
    if sys.platform == "win32":
        raise typer.BadParameter("Several processes cannot share a port on Windows.", param_hint="--workers")
    if not is_sqlite(store) and not is_postgres(store):
        advice = "Several processes need --store sqlite:///file.db or postgresql://…"
        raise typer.BadParameter(
            f"The store {store_text(store)} belongs to one process. {advice}", param_hint="--workers"
        )
