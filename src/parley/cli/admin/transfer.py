"""`parley admin tenants export` and `import`: a tenant as a file, which is never in memory as a whole."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import mkstemp
from typing import Annotated, Any

import msgspec
import typer

from parley.cli.admin.host_connection import (
    HostConnection,
    HostRefusedError,
    WithHostConnection,
    refusal_text,
    value_of,
)
from parley.cli.admin.reply_text import show_members
from parley.cli.admin.typer_commands import EXIT_CODES, AsJson, path_segment
from parley.cli.options.groups import with_option_groups
from parley.cli.output.exit_codes import DONE
from parley.cli.output.help_text import ParleyCommand
from parley.cli.output.transcript import console, print_json, size_of
from parley.client.errors import UnreachableError

CHUNK = 1 << 20
LAST_BYTES = 65_536
"""Bytes at the end of a file in which its last line is looked for first."""

TRANSFER_SECONDS = 3_600.0
"""How long a host may be silent: it reads a whole tenant before it answers an import."""


def add_transfer(app: typer.Typer) -> None:
    """Add both commands to the group of tenants."""
    app.command("export", cls=ParleyCommand, epilog=EXIT_CODES)(with_option_groups(export_tenant))
    app.command("import", cls=ParleyCommand, epilog=EXIT_CODES)(with_option_groups(import_tenant))


async def export_tenant(
    id: Annotated[str, typer.Argument(metavar="ID", help="The tenant's id.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, which must not exist yet.")],
    options: WithHostConnection,
    as_json: AsJson = False,
) -> int:
    """Write a tenant to a file: agents, conversations, settings and the rest, without secrets.

    Disable the tenant before, so that nothing changes meanwhile. Only you can read the file.

    \b
    Example:
      parley admin tenants export 1 acme.ndjson
    """
    _refuse_existing(file)
    size = 0
    descriptor, name = mkstemp(prefix=f"{file.name}.", suffix=".part", dir=file.parent)  # which only its owner reads
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as writing:
            async for chunk in _export(options, id):
                writing.write(chunk)
                size += len(chunk)
            writing.flush()
            os.fsync(writing.fileno())
        last = _last_line(partial)
        if "end" not in last:
            raise HostRefusedError(f"The export is not whole: {last.get('error', 'it was cut off')}.")
        partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)
    if as_json:
        print_json(msgspec.json.encode({"file": str(file), "bytes": size}))
    else:
        console().print(f"Wrote {file} ({size_of(size)}). Import it with parley admin tenants import {file}.")
    return DONE


async def import_tenant(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that export has written.")],
    options: WithHostConnection,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Another name for the tenant.")] = None,
    as_json: AsJson = False,
) -> int:
    """Make a new tenant of an export. Its token is shown only now, and what must be set again.

    \b
    Example:
      parley admin tenants import acme.ndjson --host https://other.example.com
    """
    report = await _import(options, file, name)
    if as_json:
        print_json(msgspec.json.encode(report))
    else:
        show_members(report)
    return DONE


def _refuse_existing(file: Path) -> None:
    if file.exists():
        raise typer.BadParameter(f"{file} exists already.", param_hint="FILE")


def _last_line(file: Path) -> dict[str, Any]:
    with file.open("rb") as reading:
        size, length = file.stat().st_size, LAST_BYTES
        lines: list[bytes] = []
        while len(lines) < 2 and length < 2 * size + LAST_BYTES:  # a long last line is read whole
            reading.seek(max(0, size - length))
            lines, length = reading.read().splitlines(), 2 * length
    try:
        return msgspec.json.decode(lines[-1], type=dict[str, Any]) if lines else {}
    except msgspec.DecodeError:
        return {}


async def _export(connection: HostConnection, tenant_id: str) -> AsyncIterator[bytes]:
    import httpx2

    path = f"/v1/admin/tenants/{path_segment(tenant_id, 'ID')}/export"
    async with connection.client() as client:
        try:
            async with client.stream("GET", path, timeout=TRANSFER_SECONDS) as reply:
                if not reply.is_success:
                    await reply.aread()
                    raise HostRefusedError(refusal_text(reply))
                async for chunk in reply.aiter_bytes(CHUNK):
                    yield chunk
        except httpx2.HTTPError as error:
            raise UnreachableError(f"The connection to {connection.url} was lost: {error}") from error


async def _import(connection: HostConnection, file: Path, name: str | None) -> Any:
    import httpx2

    async def chunks() -> AsyncIterator[bytes]:
        with file.open("rb") as reading:
            while chunk := reading.read(CHUNK):
                yield chunk

    params = {} if name is None else {"name": name}
    async with connection.client() as client:
        try:
            reply = await client.post(
                "/v1/admin/tenants/import", content=chunks(), params=params, timeout=TRANSFER_SECONDS
            )
        except httpx2.HTTPError as error:
            raise UnreachableError(f"The connection to {connection.url} was lost: {error}") from error
    if not reply.is_success:
        raise HostRefusedError(refusal_text(reply))
    return value_of(reply)
