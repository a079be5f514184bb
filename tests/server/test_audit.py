"""The audit trail: the lines of a task's life, and what happens when the disk does not go along."""

import json
import logging
import os
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from parley.protocol.tasks import TaskState
from parley.server.telemetry import audit
from parley.server.telemetry.audit import AuditLine, AuditTrail, encode_line, utc_now

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def line(task: str, caller: str = "alice") -> AuditLine:
    return AuditLine(NEW_YEAR, "created", "acme", caller, "echo", task, to_state=TaskState.SUBMITTED)


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


@contextmanager
def opened(path: Path) -> Generator[AuditTrail]:
    trail = AuditTrail(path)
    trail.open()
    try:
        yield trail
    finally:
        trail.close()


def test_lines_are_appended_in_order_and_there_when_the_trail_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for first in (0, 2_500):
        with opened(path) as trail:
            trail.open()  # is open already
            for number in range(first, first + 2_500):
                trail.append(line(f"task-{number}"))
    assert [entry["task"] for entry in lines_in(path)] == [f"task-{number}" for number in range(5_000)]
    assert lines_in(path)[0] == {
        "time": "2026-01-01T00:00:00Z",
        "what": "created",
        "tenant": "acme",
        "caller": "alice",
        "agent": "echo",
        "task": "task-0",
        "to": "submitted",
    }
    assert path.stat().st_mode & 0o007 == 0  # not for everybody's eyes


def test_several_trails_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    def write(name: str) -> None:
        with opened(path) as trail:
            for number in range(500):
                trail.append(line(f"{name}-{number}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tasks = [entry["task"] for entry in lines_in(path)]
    for name in ("one", "two"):
        assert [task for task in tasks if task.startswith(name)] == [f"{name}-{number}" for number in range(500)]


def test_names_cannot_forge_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with opened(path) as trail:
        trail.append(line("1", caller='x"}\n{"what":"created"}'))
        trail.append(line("2", caller="half \ud83d"))
    assert [entry["caller"] for entry in lines_in(path)] == ['x"}\n{"what":"created"}', "half \ud83d"]


def test_after_a_rotation_lines_go_into_the_new_file(tmp_path: Path) -> None:
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    with opened(path) as trail:
        trail.append(line("before"))
        path.rename(old)
        trail.append(line("still before"))
        trail.reopen()
        trail.append(line("after"))
    assert [entry["task"] for entry in lines_in(old)] == ["before", "still before"]
    assert [entry["task"] for entry in lines_in(path)] == ["after"]


def test_a_rotation_that_fails_keeps_the_old_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "trail"
    folder.mkdir()
    with opened(folder / "audit.jsonl") as trail:
        folder.rename(tmp_path / "moved")
        trail.reopen()
        trail.append(line("kept"))
    assert [entry["task"] for entry in lines_in(tmp_path / "moved" / "audit.jsonl")] == ["kept"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_trail_that_cannot_be_opened_says_so_at_once(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "nowhere" / "audit.jsonl")
    with pytest.raises(FileNotFoundError):
        trail.open()
    trail.close()


def test_a_full_disk_is_logged_once_and_its_lines_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.jsonl"
    path.symlink_to("/dev/full")
    with opened(path) as trail:
        trail.append(line("lost"))
        trail.reopen()  # so that the two lines are two writes
        trail.append(line("lost, too"))
    assert trail.lost == 2
    path.unlink()
    trail.open()
    trail.append(line("kept"))
    trail.close()
    assert trail.lost == 2
    assert [(entry["what"], entry.get("lost"), entry.get("task")) for entry in lines_in(path)] == [
        ("lines-lost", 2, None),
        ("created", None, "kept"),
    ]
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]


def test_a_line_that_a_full_disk_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = len(encode_line(line("1")))
    trail = AuditTrail(path)
    trail.open()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size * 2 + 10, hard))
        for task in ("1", "2", "3", "4"):
            trail.append(line(task))
        trail.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert trail.lost == 2
    trail.open()
    trail.append(line("5"))
    trail.close()
    first, second, torn, gap, last = path.read_bytes().splitlines()
    assert [json.loads(text)["task"] for text in (first, second, last)] == ["1", "2", "5"]
    assert len(torn) == 10
    assert json.loads(gap)["lost"] == 2


def test_a_disk_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody reads hangs as a disk does."""
    monkeypatch.setattr(audit, "LINES_WAITING", 10)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    trail = AuditTrail(path)
    trail.open()
    appended = 0
    while trail.lost < 5:
        trail.append(line(f"task-{appended}", caller="a" * 1_000))
        appended += 1
    os.set_blocking(reader, True)
    received: list[bytes] = []

    def read() -> None:
        while piece := os.read(reader, 65_536):
            received.append(piece)

    thread = threading.Thread(target=read)
    thread.start()
    trail.close()
    thread.join()
    os.close(reader)
    entries = [json.loads(text) for text in b"".join(received).splitlines()]
    assert len([entry for entry in entries if entry["what"] == "created"]) == appended - trail.lost
    assert sum(entry.get("lost", 0) for entry in entries) == trail.lost


def test_the_time_is_that_of_tasks() -> None:
    now = utc_now()
    assert now.tzinfo is UTC
    assert now.microsecond % 1_000 == 0
