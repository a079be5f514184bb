"""`parley store`: checks and copies the file of a store, and adds keys, also while a server uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from parley.cli.output.exit_codes import DONE, FAILED, run
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.transcript import console, size_of
from parley.safe_text import printable_line
from parley.sealed.errors import SecretError
from parley.sealed.sources import KeyFile, key_file_beside
from parley.stores.interface import StoreError
from parley.stores.sqlite.maintenance import MAX_FINDINGS, FileMaintenance
from parley.stores.urls import is_postgres, sqlite_path

T = TypeVar("T")

DEFAULT = "sqlite:///parley.db"

EXIT_CODES = """\b
Exit codes:
  0    success, and no damage
  1    the file is damaged, or cannot be read or copied
  2    invalid arguments, or a file is missing or exists already
  130  interrupted by Ctrl+C
"""

ADVICE = (
    "If you have a backup, stop the server and restore it; parley store backup --help says how. If not, save what can "
    "still be read with .recover in the sqlite3 shell."
)

app = typer.Typer(
    cls=ParleyGroup,
    help="Check and back up the file in which a server stores its tasks, and change its key.",
    rich_markup_mode=None,
)


@app.command("check", cls=ParleyCommand, epilog=EXIT_CODES)
def check(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="The store's URL, as parley serve --store has it.")
    ] = DEFAULT,
) -> None:
    """Look for damage in a store: in every page of its file, and in every task.

    Works while a server uses the store, and changes nothing. It lists gaps in the numbers of events, values that cannot
    be read, and references to missing tasks.

    \b
    Examples:
      parley store check
      parley store check sqlite:////var/lib/agent/tasks.db
    """
    run(_check(_path(store)), as_json=False)


@app.command("backup", cls=ParleyCommand, epilog=EXIT_CODES)
def backup(
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store's URL, as parley serve --store has it.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy, which must not exist yet.")],
) -> None:
    """Copy the current state of a store to another file, and check the copy.

    Works while a server uses the store. The copy is one file that only you can read; if the command fails, there is no
    copy. To restore it, stop the server, delete the store's file and those whose names end in -wal and -shm, and put
    the copy in its place.

    The key that encrypts secrets, in FILE.key or where --store-key says, is not part of the copy. Without it a server
    does not start on a copy that holds secrets: keep a copy of the key in another place.

    \b
    Examples:
      parley store backup sqlite:///parley.db backup.db
      parley store backup sqlite:////var/lib/agent/tasks.db /backup/$(date +%F).db
    """
    run(_back_up(_path(store), file), as_json=False)


@app.command("rekey", cls=ParleyCommand, epilog=EXIT_CODES)
def rekey(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="The store's URL, as parley serve --store has it.")
    ] = DEFAULT,
    store_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file with the keys.", show_default="FILE.key beside a SQLite file"),
    ] = None,
) -> None:
    """Add a new key for the secrets in a store, which a server then uses for all of them.

    Works while servers use the store: within half a minute they encrypt new secrets with the new key, and the old
    ones in the background. A server that does not run does so after its next start. The earlier keys stay in the file,
    because older backups need them.

    \b
    Examples:
      parley store rekey
      parley store rekey postgresql://parley@db/parley --store-key /etc/parley/store.key
    """
    if store_key is None and is_postgres(store):
        advice = "Name the file that its servers have: --store-key FILE."
        raise typer.BadParameter(f"A PostgreSQL database has no file beside it. {advice}", param_hint="STORE")
    run(_rekey(KeyFile(store_key if store_key is not None else key_file_beside(_path(store)))), as_json=False)


async def _rekey(file: KeyFile) -> int:
    try:
        added = await asyncio.to_thread(file.add)
    except SecretError as error:
        console(stderr=True).print(f"Error: {printable_line(str(error))}", style="red")
        return FAILED
    console().print(f"{file.path} has the new key {added.id}. Servers that use the file encrypt with it from now on.")
    return DONE


def _path(store: str) -> Path:
    if store == "memory:":
        raise typer.BadParameter("memory: has no file.", param_hint="STORE")
    if is_postgres(store):
        raise typer.BadParameter(
            "PostgreSQL has tools of its own: pg_dump --format=custom backs a database up, pg_amcheck checks it.",
            param_hint="STORE",
        )
    try:
        return sqlite_path(store)
    except StoreError as error:
        raise typer.BadParameter(str(error), param_hint="STORE") from error


async def _check(path: Path) -> int:
    findings = await _in_thread(path, FileMaintenance.check)
    out = console()
    for finding in findings.wrong:
        out.print(printable_line(finding), style="red")
    if findings.unchecked is not None:
        out.print(f"Only the pages were checked. {findings.unchecked}")
    if findings.contents is not None:
        out.print(f"The store holds {findings.contents}.")
    if not findings.wrong:
        out.print("No damage found.", style="green")
        return DONE
    number = f"{len(findings.wrong)}{' or more' if len(findings.wrong) >= MAX_FINDINGS else ''}"
    out.print(f"Problems found: {number}. {ADVICE}", style="red")
    return FAILED


async def _back_up(path: Path, file: Path) -> int:
    contents = await _in_thread(path, lambda work: work.back_up(file))
    console().print(f"{file} holds {contents}: {size_of(file.stat().st_size)}. No damage found.")
    return DONE


async def _in_thread(path: Path, do: Callable[[FileMaintenance], T]) -> T:
    """Do the work in a thread, so that Ctrl+C works, and show the progress on standard error."""
    with _progress(console(stderr=True)) as on_progress:
        work = FileMaintenance(path, on_progress)
        try:
            return await asyncio.to_thread(do, work)
        except asyncio.CancelledError:
            work.interrupt()
            raise


@contextmanager
def _progress(to: Console) -> Generator[Callable[[str], None]]:
    """Shows the progress with a spinner; not at all without a terminal."""
    if not to.is_terminal or to.is_dumb_terminal:
        yield lambda _: None
        return
    with to.status("") as status:
        yield lambda text: status.update(Text(text, style="dim"))
