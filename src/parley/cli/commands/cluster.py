"""`parley cluster`: shows the servers that share a store, and lets one of them drain.

It reads and writes the store itself, and calls no server. So it works whatever a load balancer does.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from parley.cli.admin.reply_text import show_table
from parley.cli.options.durations import seconds_as_text
from parley.cli.options.runtime import is_sqlite
from parley.cli.output.exit_codes import DONE, FAILED, USAGE, run
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.store_text import store_text
from parley.cli.output.transcript import console, print_json
from parley.cluster.status import ClusterStatus, Replica, UnknownReplicaError, find_replicas, read_status
from parley.safe_text import printable_line
from parley.stores.interface import Store, StoreError, StoreUnavailableError
from parley.stores.urls import is_postgres, open_store, opened, sqlite_path

LOOK_SECONDS = 0.3
"""How often `drain --wait` looks whether a replica has ended."""

EXIT_CODES = """\b
Exit codes:
  0    success
  1    the store cannot be used, or a replica died instead of draining
  2    invalid arguments, or there is no such replica
  130  interrupted by Ctrl+C
"""

app = typer.Typer(
    cls=ParleyGroup,
    help="Show the servers that share a store, and drain one of them.",
    rich_markup_mode=None,
)

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="PARLEY_STORE",
        show_envvar=False,
        help="The servers' store; also the variable PARLEY_STORE.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")]

DEFAULT = "sqlite:///parley.db"


@app.command("status", cls=ParleyCommand, epilog=EXIT_CODES)
def status(store: StoreUrl = DEFAULT, as_json: AsJson = False) -> None:
    """List the servers that share a store, and count what waits in it.

    A server is alive, draining, or expired: it died, and others take its runs over.

    \b
    Examples:
      parley cluster status --store postgresql://parley@db/parley
      parley cluster status --json | jq '.replicas[] | select(.state != "alive")'
    """
    run(_status(store, as_json=as_json), as_json=as_json)


@app.command("drain", cls=ParleyCommand, epilog=EXIT_CODES)
def drain(
    replica: Annotated[
        str, typer.Argument(metavar="REPLICA", help="Its name or worker id, or the beginning of one of them.")
    ],
    store: StoreUrl = DEFAULT,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
) -> None:
    """Ask a server to drain, as SIGTERM does: it accepts nothing new, ends its runs or hands them on, and exits.

    It notices the request when it renews its lease, usually within two seconds. The name of a server with --workers
    stands for all of its workers.

    \b
    Examples:
      parley cluster drain a --store postgresql://parley@db/parley
      parley cluster drain web-1/2 --wait
    """
    run(_drain(replica, store, wait=wait), as_json=False)


def _open(url: str) -> Store:
    """The store, not opened yet. Raises StoreError."""
    if is_sqlite(url):
        path = sqlite_path(url)
        if not path.exists():
            raise StoreUnavailableError(f"{path}: there is no such file.")
        from parley.stores.sqlite.store import SqliteStore

        return SqliteStore(path, shared=True)
    if not is_postgres(url):
        raise StoreError(f"Invalid store: {store_text(url)!r}. Only servers on PostgreSQL or SQLite can share a store.")
    return open_store(url, migrates=False)


# --- status -----------------------------------------------------------------------------------------------------------


async def _status(url: str, *, as_json: bool) -> int:
    async with opened(_open(url)) as store:
        found = await read_status(store)
    if as_json:
        print_json(msgspec.json.encode(found))
    else:
        _show(found)
    return DONE


def _show(status: ClusterStatus) -> None:
    columns = ("replica", "state", "version", "url", "up", "runs", "waiting", "lease", "hints")
    show_table([_row(replica) for replica in status.replicas], columns)
    out = console()
    for replica in status.replicas:
        if replica.hint_problem and replica.is_live:
            out.print(f"{replica.name}: {printable_line(replica.hint_problem)}", style="yellow")
    oldest = f", the oldest for {_age(status.waiting_since)}" if status.waiting_since is not None else ""
    out.print()
    out.print(f"Tasks: {status.held:,} running, {status.waiting:,} waiting{oldest}, {status.sleeping:,} sleeping.")
    out.print(f"Webhooks: {status.undelivered:,} tasks have some that are behind.")


def _row(replica: Replica) -> dict[str, Any]:
    return {
        "replica": replica.name,
        "state": replica.state,
        "version": replica.version,
        "url": replica.url,
        "up": _age(datetime.fromisoformat(replica.started_at)) if replica.started_at else None,
        "runs": replica.runs,
        "waiting": replica.waiting,
        "lease": f"{replica.lease_seconds:g} s",
        "hints": None if replica.hint_lag is None else f"{replica.hint_lag * 1000:.1f} ms",
    }


def _age(since: datetime) -> str:
    return seconds_as_text(max(0, round((datetime.now(UTC) - since).total_seconds())))


# --- drain ------------------------------------------------------------------------------------------------------------


async def _drain(name: str, url: str, *, wait: bool) -> int:
    out = console()
    async with opened(_open(url)) as store:
        try:
            chosen = find_replicas((await read_status(store)).replicas, name)
        except UnknownReplicaError as error:
            console(stderr=True).print(f"Error: {printable_line(str(error))}", style="red")
            return USAGE
        for replica in chosen:
            if await store.leases.ask_to_drain(replica.worker):
                out.print(f"{replica.name} was asked to drain.")
        return await _wait(store, chosen) if wait else DONE


async def _wait(store: Store, chosen: list[Replica]) -> int:
    """Wait until replicas have released their leases; `FAILED` if one expired instead."""
    out, code = console(), DONE
    names = {replica.worker: replica.name for replica in chosen}
    while names:
        known = {each.worker: each for each in await store.leases.workers()}
        for worker, name in tuple(names.items()):
            if worker not in known:
                out.print(f"{name} has drained.")
                del names[worker]
            elif known[worker].expires_in <= 0:
                out.print(f"{name} died while it was draining. Others take its runs over.", style="red")
                del names[worker]
                code = FAILED
        if names:
            await asyncio.sleep(LOOK_SECONDS)
    return code
