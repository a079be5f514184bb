"""`parley tasks export` and `parley tasks delete`: the data of one caller, from a server or from a store."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from parley.cli.options.client import AsJson
from parley.cli.options.groups import with_option_groups
from parley.cli.options.owner_data import DataOptions, WithDataOptions, data_store
from parley.cli.output.exit_codes import DONE, EXIT_CODES, FAILED, USAGE
from parley.cli.output.help_text import ParleyCommand
from parley.cli.output.transcript import console, print_json, show_rows
from parley.engine.owner_data import DeletedData, delete_data, export_lines
from parley.protocol.errors import MethodNotFoundError, TaskNotFoundError
from parley.stores.interface import Store, TaskHead
from parley.stores.urls import opened

if TYPE_CHECKING:
    from parley.engine.owner_data import OwnerRecords

PAGE = "/parley/data"

NOT_ERASED = (
    "Another program still reads an older state of the file, so bytes of the data may be left in its WAL. They are "
    "gone when it has ended and the server is restarted, or something else is deleted."
)


def add_commands(app: typer.Typer) -> None:
    """Add both commands to `parley tasks`."""
    app.command("export", cls=ParleyCommand, epilog=EXIT_CODES)(with_option_groups(export))
    app.command("delete", cls=ParleyCommand, epilog=EXIT_CODES)(with_option_groups(delete))


# --- export -----------------------------------------------------------------------------------------------------------


async def export(options: WithDataOptions) -> int:
    """Export your data as lines of JSON: tasks with every event, webhooks without secrets, memory, sends.

    With --store, an operator exports the data of any caller.

    \b
    Examples:
      parley tasks export https://agents.example --all --token $TOKEN > mine.jsonl
      parley tasks export localhost:8080 --context $CONTEXT --token $TOKEN > conversation.jsonl
      parley tasks export --store sqlite:///parley.db --owner bearer:ada --all > ada.jsonl
    """
    last = b""
    async with aclosing(_exported(options)) as chunks:
        async for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            last = (last + chunk)[-4096:]
    sys.stdout.flush()
    if b'{"kind":"end"' not in last:
        console(stderr=True).print("The export is not whole: it has no last line of the kind “end”.", style="red")
        return FAILED
    return DONE


async def _exported(options: DataOptions) -> AsyncGenerator[bytes]:
    if options.client is not None:
        async with options.client.client() as client, aclosing(client.pages.read("GET", PAGE, options.query)) as chunks:
            with _explained(options):
                async for chunk in chunks:
                    yield chunk
        return
    async with opened(data_store(options.store)) as store:
        lines = export_lines(
            store, options.owner, options.selection, at=datetime.now(UTC), records=_host_records(store)
        )
        async with aclosing(lines):
            async for line in lines:
                yield line


@contextmanager
def _explained(options: DataOptions) -> Generator[None]:
    """Say of a server that has no such page why that is. Raises MethodNotFoundError."""
    try:
        yield
    except (MethodNotFoundError, TaskNotFoundError) as error:
        if isinstance(error, TaskNotFoundError) and options.selection.task_id is not None:
            raise  # it may be so
        raise MethodNotFoundError(
            "This server does not export or delete data. Only a server of Parley that runs the agent itself does: not "
            "a proxy, and none of other software"
        ) from error


# --- delete -----------------------------------------------------------------------------------------------------------


async def delete(
    options: WithDataOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel tasks that are at work; otherwise refuse.")] = False,
    audit: Annotated[
        Path | None,
        typer.Option("--audit", metavar="FILE", help="With --store: add a line to this audit trail of the server."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Delete your data for good: tasks, events, webhooks, memory of conversations, sends.

    This cannot be undone. With --store, an operator deletes the data of any caller; stop a server that has the file to
    itself first.

    \b
    Examples:
      parley tasks delete https://agents.example --task $TASK --token $TOKEN
      parley tasks delete localhost:8080 --all --cancel --yes --token $TOKEN
      parley tasks delete --store postgresql://localhost/parley --owner bearer:ada --all
    """
    if audit is not None and options.client is not None:
        raise typer.BadParameter("A server writes its own audit trail.", param_hint="--audit")
    if not yes and not typer.confirm(f"Delete {_described(options)}? It cannot be undone.", err=True):
        console(stderr=True).print("Nothing was deleted.")
        return USAGE
    deleted = await _deleted(options, cancels=cancel, audit=audit)
    if as_json:
        print_json(msgspec.json.encode(deleted))
    else:
        _show(deleted)
    return DONE


def _described(options: DataOptions) -> str:
    selection = options.selection
    what = f"conversation {selection.context_id}" if selection.context_id else f"task {selection.task_id}"
    if selection.context_id is None and selection.task_id is None:
        what = "all data"
    whose = f"of {options.owner.name!r} in {options.store}" if options.client is None else f"at {options.client.url}"
    return f"{what} {whose}"


async def _deleted(options: DataOptions, *, cancels: bool, audit: Path | None) -> DeletedData:
    if options.client is not None:
        query = options.query | ({"cancel": "true"} if cancels else {})
        async with options.client.client() as client, aclosing(client.pages.read("DELETE", PAGE, query)) as chunks:
            with _explained(options):
                reply = b"".join([chunk async for chunk in chunks])
        return msgspec.json.decode(reply, type=DeletedData)
    async with opened(data_store(options.store)) as store:
        deleted = await delete_data(
            store,
            options.owner,
            options.selection,
            stop=_cut_off if cancels else None,
            records=_host_records(store),
        )
    if audit is not None:
        _write_audit(audit, options, deleted)
    return deleted


async def _cut_off(_: TaskHead) -> None:
    """Nothing: without its task, a run fails at its next write. There may be no engine that could be asked."""


def _write_audit(audit: Path, options: DataOptions, deleted: DeletedData) -> None:
    from parley.server.telemetry.audit import AuditTrail, deletion_line

    trail = AuditTrail(audit)
    trail.open()
    trail.append(deletion_line(datetime.now(UTC), options.owner, "operator", options.selection, deleted))
    trail.close()


def _host_records(store: Store) -> OwnerRecords:
    """What a host keeps beside tasks; in the store of another server there is nothing of it."""
    from parley.engine.clock import SystemClock
    from parley.host.owner_records import HostOwnerRecords

    return HostOwnerRecords(store.records, SystemClock(), actor="operator")


def _show(deleted: DeletedData) -> None:
    rows = [
        ("tasks", str(deleted.tasks)),
        ("events", str(deleted.events)),
        ("webhooks", str(deleted.webhooks)),
        ("memory", str(deleted.context_values)),
        ("sends", str(deleted.sends)),
        *((name, str(count)) for name, count in deleted.records.items()),
    ]
    show_rows(console(), rows)
    if not deleted.is_erased:
        console(stderr=True).print(NOT_ERASED, style="yellow")
