"""`parley store`: a store's file, to check and to copy, also while a server uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from parley.cli.output.exit_codes import DONE, REFUSED, run
from parley.cli.output.help_text import PlainCommand, PlainGroup
from parley.cli.output.transcript import console, size_of
from parley.safe_text import printable_line
from parley.stores.interface import StoreError
from parley.stores.locate import sqlite_path
from parley.stores.sqlite.maintenance import MAX_FINDINGS, FileMaintenance

T = TypeVar("T")

DEFAULT = "sqlite:///parley.db"

EXIT_CODES = """\b
Exit codes:
  0    it is done, and nothing is wrong
  1    the file is damaged, or cannot be read or copied
  2    the command was asked wrongly, or a file is missing or in the way
  130  interrupted by Ctrl+C
"""

ADVICE = (
    "If you have a backup, stop the server and go back to it; parley store backup --help says how. If not, the sqlite3 "
    "shell's .recover saves what can still be read."
)

app = typer.Typer(
    cls=PlainGroup,
    help="The file in which a server keeps its tasks: check it, back it up.",
    rich_markup_mode=None,
)


@app.command("check", cls=PlainCommand, epilog=EXIT_CODES)
def check(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="The store's URL, as parley serve --store has it.")
    ] = DEFAULT,
) -> None:
    """Look for damage in a store: in every page of its file, and in every task.

    Works while a server uses the store, and changes nothing. Events are numbered without gaps, everything can be read,
    and whatever refers to a task finds it; what is not so is listed.

    \b
    Examples:
      parley store check
      parley store check sqlite:////var/lib/agent/tasks.db
    """
    run(_check(_path(store)), as_json=False)


@app.command("backup", cls=PlainCommand, epilog=EXIT_CODES)
def backup(
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store's URL, as parley serve --store has it.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy, which must not exist yet.")],
) -> None:
    """Copy a store as it is at this moment to another file, and check the copy.

    Works while a server uses the store, which goes on writing meanwhile. The copy is one file that only you can read;
    if the command fails, there is none. To go back to it, stop the server, delete the store's file together with those
    whose names end in -wal and -shm, and put the copy in its place.

    \b
    Examples:
      parley store backup sqlite:///parley.db backup.db
      parley store backup sqlite:////var/lib/agent/tasks.db /backup/$(date +%F).db
    """
    run(_back_up(_path(store), file), as_json=False)


def _path(store: str) -> Path:
    if store == "memory:":
        raise typer.BadParameter("memory: keeps nothing.", param_hint="STORE")
    try:
        return sqlite_path(store)
    except StoreError as error:
        raise typer.BadParameter(str(error), param_hint="STORE") from error


async def _check(path: Path) -> int:
    findings = await _working(path, FileMaintenance.check)
    out = console()
    for finding in findings.wrong:
        out.print(printable_line(finding), style="red")
    if findings.unchecked is not None:
        out.print(f"Only the pages were looked at. {findings.unchecked}")
    if findings.contents is not None:
        out.print(f"The store holds {findings.contents}.")
    if not findings.wrong:
        out.print("Nothing is wrong with it.", style="green")
        return DONE
    number = f"{len(findings.wrong)}{' or more' if len(findings.wrong) >= MAX_FINDINGS else ''}"
    out.print(f"Found wrong: {number}. {ADVICE}", style="red")
    return REFUSED


async def _back_up(path: Path, file: Path) -> int:
    contents = await _working(path, lambda work: work.back_up(file))
    console().print(f"{file} holds {contents}: {size_of(file.stat().st_size)}. Nothing is wrong with it.")
    return DONE


async def _working(path: Path, do: Callable[[FileMaintenance], T]) -> T:
    """Do it in a thread, so that Ctrl+C is heard; tell how far it is on standard error."""
    with _progress(console(stderr=True)) as tell:
        work = FileMaintenance(path, tell)
        try:
            return await asyncio.to_thread(do, work)
        except asyncio.CancelledError:
            work.interrupt()
            raise


@contextmanager
def _progress(to: Console) -> Generator[Callable[[str], None]]:
    """Tells how far the work is, in a line that moves; not at all where there is no terminal."""
    if not to.is_terminal or to.is_dumb_terminal:
        yield lambda _: None
        return
    with to.status("") as status:
        yield lambda text: status.update(Text(text, style="dim"))
