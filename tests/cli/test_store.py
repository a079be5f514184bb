"""`parley store`: checking and copying a store, beside a server and without one."""

import asyncio
import io
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from parley.cli.commands import store
from parley.stores.sqlite.maintenance import FileMaintenance
from tests.cli.sampler import parley
from tests.cli.served import SECONDS, call, message, served

ECHO = """
from parley import Agent

agent = Agent("Echo")

@agent.on_message
async def echo(turn):
    for number in range(100):
        yield f"{turn.text} {number} "
"""

MODULE = [sys.executable, "-m", "parley.cli.main"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MODULE, *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS)


def test_a_store_is_checked_and_copied_while_it_is_served_and_found_damaged_later(folder: Path) -> None:
    """The copy holds what was answered before it was made; a damaged file is not served, and the copy is."""
    with served("echo:agent", "--port", "0", "--grpc-port", "off", cwd=folder) as server:
        url = server.until_ready()
        first = call(url, "SendMessage", message("hello", "m-0"))["result"]["task"]["id"]
        over = threading.Event()

        def send() -> None:
            number = 0
            while not over.is_set():
                number += 1
                call(url, "SendMessage", message("hello", f"m-{number}"))

        sender = threading.Thread(target=send)
        sender.start()
        checked = run(folder, "store", "check")
        copied = run(folder, "store", "backup", "sqlite:///parley.db", "copy.db")
        over.set()
        sender.join(SECONDS)
        assert server.end() == 0
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.endswith("No damage found.\n")
    assert (copied.returncode, copied.stderr) == (0, "")
    assert copied.stdout.startswith("copy.db holds ")

    database = folder / "parley.db"
    with closing(sqlite3.connect(database)) as shell:
        (root,) = shell.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").fetchone()
    with database.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(bytes(4096))
    damaged = run(folder, "store", "check")
    assert damaged.returncode == 1
    assert "restore it; parley store backup --help says how" in damaged.stdout
    refused = run(folder, "serve", "echo:agent", "--port", "0", "--grpc-port", "off")
    assert refused.returncode == 1
    assert "the file is damaged" in refused.stderr

    with served(
        "echo:agent", "--store", "sqlite:///copy.db", "--port", "0", "--grpc-port", "off", cwd=folder
    ) as server:
        task = call(server.until_ready(), "GetTask", {"id": first})["result"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_server_whose_file_is_deleted_acknowledges_nothing_more(folder: Path) -> None:
    """It says in its log what has happened and what to do."""
    with served("echo:agent", "--port", "0", "--grpc-port", "off", cwd=folder) as server:
        url = server.until_ready()
        assert "result" in call(url, "SendMessage", message("hello", "m-1"))
        (folder / "parley.db").unlink()
        error = call(url, "SendMessage", message("hello", "m-2"))["error"]
        assert error["message"] == "The agent cannot store the task's progress now"
        line = server.until_logged("The database file was deleted or moved away while it was in use")
        assert "put the file back, or a backup as parley store backup --help says, and start the server again" in line


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("check", "memory:"), 2, "memory: has no file."),
        (("check", "postgresql://db/agents"), 2, "pg_amcheck checks it"),
        (("backup", "postgres://db/agents", "copy.db"), 2, "pg_dump --format=custom backs a database up"),
        (("check", "tasks.db"), 2, "Invalid store: 'tasks.db'. Write"),
        (("check", "sqlite:///none.db"), 2, "none.db: No such file or directory."),
        (("check", "sqlite:///other.db"), 1, "this database belongs to another program"),
        (("check", "sqlite:///folder.db"), 1, "folder.db: this is not a file."),
        (("check", "sqlite:///pipe.db"), 1, "pipe.db: this is not a file."),
        (("check", "sqlite:///text.db"), 1, "the file is not an SQLite database, or is damaged"),
        (("backup", "sqlite:///text.db", "copy.db"), 1, "the file is not an SQLite database, or is damaged"),
        (("backup", "sqlite:///none.db", "copy.db"), 2, "none.db: No such file or directory."),
        (("backup", "sqlite:///none.db"), 2, "Missing argument 'FILE'"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.db").write_text("Dear diary, " * 1_000)
    (tmp_path / "folder.db").mkdir()
    os.mkfifo(tmp_path / "pipe.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE diary (entry TEXT)")
    done = parley("store", *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert told in done.stderr
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.anyio
async def test_ctrl_c_interrupts_the_work(tmp_path: Path) -> None:
    """And waits for its end."""
    begun, ended = threading.Event(), threading.Event()

    def wait_for_interrupt(work: FileMaintenance) -> None:
        begun.set()
        while not work._is_interrupted:
            ended.wait(0.001)
        ended.set()

    working = asyncio.create_task(store._in_thread(tmp_path / "tasks.db", wait_for_interrupt))
    await asyncio.to_thread(begun.wait, SECONDS)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await asyncio.to_thread(ended.wait, SECONDS)


def test_a_terminal_shows_how_far_the_work_is() -> None:
    shown = io.StringIO()
    with store._progress(Console(file=shown, force_terminal=True, _environ={})) as tell:
        tell("Copying: 40 % …")
    assert "Copying: 40 % …" in shown.getvalue()


def test_an_empty_file_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    done = parley("store", "check", f"sqlite:///{tmp_path}/empty.db")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        ["Only the pages were checked. The file is empty: no server has used it yet.", "No damage found."],
    )
