"""Checking a file and copying it, also while it is used."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from parley.protocol.lifecycle import fold
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.stores.interface import PutRecord, RecordKey, SendRecord, StoreUnavailableError, TaskKey, Write
from parley.stores.sqlite import maintenance
from parley.stores.sqlite.file import APPLICATION_ID
from parley.stores.sqlite.maintenance import FileMaintenance, Findings
from parley.stores.sqlite.store import SqliteStore
from tests.stores.writes import ADA, CONTEXT, EVERYTHING, KEY, NEW, NOON, SEND, addition, creation

pytestmark = pytest.mark.anyio


def check(path: Path) -> Findings:
    return FileMaintenance(path, lambda _: None).check()


def back_up(path: Path, target: Path) -> None:
    FileMaintenance(path, lambda _: None).back_up(target)


async def fill(path: Path) -> None:
    """A closed file with six tasks and one of everything else."""
    store = SqliteStore(path)
    await store.open()
    whole = Write(
        KEY, 0, EVERYTHING, TaskState.WORKING, NOON, NEW, fold(None, EVERYTHING), ((SEND, SendRecord(NOON, "t-1")),)
    )
    await store.tasks.write(whole)
    await store.outbox.put(KEY, PushConfig("https://hook.example", id="h"))
    await store.contexts.put(CONTEXT, "name", "Ada", at=NOON)
    await store.records.write(PutRecord(RecordKey("agents", "acme", "a-1"), {"name": "Ada"}))
    for number in range(2, 7):
        key = TaskKey(ADA, f"t-{number}")
        await store.tasks.write(creation(key))
        for after in range(1, 4):
            await store.tasks.write(addition(after, key))
    await store.close()


async def test_a_whole_file_has_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    await fill(path)
    content = path.read_bytes()
    findings = check(path)
    assert (findings.wrong, findings.unchecked) == ((), None)
    assert str(findings.contents) == (
        f"6 tasks (6 running, 0 waiting for an answer), {20 + len(EVERYTHING)} events, 1 webhook, "
        "values that agents stored for 1 conversation, 1 record"
    )
    assert path.read_bytes() == content


async def test_tasks_that_run_and_tasks_that_wait_are_counted_apart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "tasks.db")
    await store.open()
    states = (TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED, TaskState.COMPLETED)
    for number, state in enumerate(states):
        await store.tasks.write(creation(TaskKey(ADA, f"t-{number}"), state=state))
    await store.close()
    contents = FileMaintenance(tmp_path / "tasks.db", lambda _: None).back_up(tmp_path / "copy.db")
    assert str(contents).startswith("4 tasks (1 running, 2 waiting for an answer), 4 events,")


async def test_what_breaks_the_rules_of_the_log_is_named(tmp_path: Path) -> None:
    """All of it, rule by rule."""
    path = tmp_path / "tasks.db"
    await fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as vandal:
        vandal.executescript(
            """
            UPDATE tasks SET snapshot_seq = 19 WHERE id = 't-1';
            UPDATE snapshots SET snapshot = '{', artifacts = '[' WHERE task = 't-1';
            UPDATE push_configs SET delivered_seq = 77, config = '[]';
            INSERT INTO push_configs
                VALUES ('acme', 't-1', 'theirs', 'bob', '{"url":"https://x.example"}', '1.0', 0, NULL, NULL);
            DELETE FROM events WHERE task = 2 AND last_seq = 2;
            UPDATE events SET events = '{' WHERE task = 3 AND last_seq = 3;
            UPDATE tasks SET last_seq = 5, state = 'asleep', snapshot_seq = 1 WHERE id = 't-4';
            DELETE FROM tasks WHERE id IN ('t-5', 't-6');
            INSERT INTO sends VALUES ('acme', 'ada', 'm-9', x'00', 1, 't-5', '[]', '');
            INSERT INTO push_configs
                VALUES ('acme', 't-3', 'h', 'ada', '{"url":"https://x.example"}', '7.0', 0, NULL, NULL);
            INSERT INTO outbox VALUES ('acme', 'ada', 't-2', 'w');
            INSERT INTO inbox VALUES (1, 'acme', 'bob', 't-2', 'i', '{');
            UPDATE tasks SET holder = 'w', state = 'completed', wake_at = 1 WHERE id = 't-2';
            UPDATE tasks SET has_webhooks = 1 WHERE id IN ('t-2', 't-3');
            UPDATE context_values SET value = 'x';
            UPDATE records SET value = '[]', revision = 0 WHERE collection = 'agents';
            INSERT INTO snapshots VALUES ('acme', 't-5', '{}', NULL);
            """
        )
    assert check(path).wrong == (
        "Row 2 of snapshots refers to tasks that are not there",
        "Task t-2: event 2 is missing, or there twice: 1 events end with 3",
        "Task t-3: the events up to 3 cannot be read",
        "Task t-4: its last event is 4, and not 5",
        "There are events of a task number 5, and no such task",
        "There are events of a task number 6, and no such task",
        f"Task t-1: its snapshot is of event 19, its last event is {len(EVERYTHING)}",
        "Task t-4: it says that it has a snapshot and has none, or the other way round",
        "Message m-9: it went to task t-5, which is not there",
        "Webhook 'theirs' of task t-1: its owner has no such task",
        f"Webhook 'h' of task t-1: event 77 was delivered, and the last one is {len(EVERYTHING)}",
        "Task t-2: it says that it has webhooks and has none, or the other way round",
        "Task t-1: a webhook is behind, and the task is not in the outbox",
        "Task t-3: a webhook is behind, and the task is not in the outbox",
        "Task t-2: it is in the outbox, and none of its webhooks is behind",
        "Task t-2: something waits for its worker, and its owner has no such task",
        "Task t-2: it is completed, and yet worker w holds it",
        "Task t-2: it is completed or held by a worker, and yet it sleeps",
        "Record 'a-1' of 'agents': its revision is 0, and the first one is 1",
        "Task t-4: its state is unknown",
        "Task t-1: its snapshot cannot be read",
        "Task t-5: its snapshot cannot be read",
        "Task t-1: the artifacts of its snapshot cannot be read",
        "Message m-9: its reply cannot be read",
        "Webhook 'h' of task t-1: it cannot be read",
        "Webhook 'h' of task t-3: its version is unknown",
        "Task t-2: what waits for its worker cannot be read",
        "Conversation c-1: its value 'name' cannot be read",
        "Record 'a-1' of 'agents': its value cannot be read",
    )


async def test_damaged_pages_are_found_and_not_copied(tmp_path: Path) -> None:
    path, target = tmp_path / "tasks.db", tmp_path / "copy.db"
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(creation())
    await asyncio.gather(*[store.tasks.write(addition(number)) for number in range(1, 400)])
    await store.close()
    content = path.read_bytes()
    begin = content.index(b"chunk 200") // 4096 * 4096
    path.write_bytes(content[:begin] + bytes(4096) + content[begin + 4096 :])
    wrong = check(path).wrong
    assert f"page {begin // 4096 + 1}" in wrong[0].lower()
    assert wrong[-1] == "The rest of the rows cannot be read: database disk image is malformed"
    with pytest.raises(StoreUnavailableError, match=r"the file is damaged \(.+\), and so would be its copy"):
        back_up(path, target)
    assert not list(tmp_path.glob("*copy*"))


async def test_a_copy_is_of_one_moment_although_the_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write after each page that is copied; and a check beside it. The copy is a store, for its owner's eyes only."""
    monkeypatch.setattr(maintenance, "PAGES_AT_ONCE", 1)
    path, target = tmp_path / "tasks.db", tmp_path / "copy.db"
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(creation())
    await store.tasks.write(addition(1))
    loop, seq, told = asyncio.get_running_loop(), 2, list[str]()

    async def write() -> None:
        await store.tasks.write(addition(seq))

    def tell(text: str) -> None:
        nonlocal seq
        asyncio.run_coroutine_threadsafe(write(), loop).result()
        seq += 1
        told.append(text)

    contents = await asyncio.to_thread(FileMaintenance(path, tell).back_up, target)
    assert contents.events == 2
    assert len(told) > 5
    assert told[-2:] == ["Copying: 100 % …", "Checking the copy …"]
    assert check(path).wrong == check(target).wrong == ()
    assert {file.name for file in tmp_path.glob("*copy*")} == {"copy.db"}
    assert [head.last_seq for head in await store.tasks.orphaned(frozenset(), limit=9)] == [seq]
    await store.close()

    assert target.stat().st_mode & 0o077 == 0
    copy = SqliteStore(target)
    await copy.open()
    assert [number for number, _ in await copy.tasks.events(KEY, after=0, limit=9)] == [1, 2]
    await copy.tasks.write(addition(2))
    await copy.close()


async def test_a_copy_never_takes_the_place_of_a_file(tmp_path: Path) -> None:
    path, target = tmp_path / "tasks.db", tmp_path / "copy.db"
    await fill(path)
    target.write_text("mine")
    with pytest.raises(FileExistsError):
        back_up(path, target)
    assert target.read_text() == "mine"
    with pytest.raises(FileNotFoundError):
        back_up(tmp_path / "nowhere.db", tmp_path / "other.db")
    with pytest.raises(FileNotFoundError):
        back_up(path, tmp_path / "nowhere" / "copy.db")
    assert not (tmp_path / "nowhere.db").exists()


@pytest.mark.parametrize("work", [lambda looking, _: looking.check(), lambda looking, path: looking.back_up(path)])
async def test_work_that_is_interrupted_ends(tmp_path: Path, work: Callable[[FileMaintenance, Path], object]) -> None:
    """And leaves no copy."""
    path = tmp_path / "tasks.db"
    await fill(path)
    looking = FileMaintenance(path, lambda _: looking.interrupt())
    looking.interrupt()  # before it has begun: that is nothing yet, or the first thing it hears of
    with pytest.raises((StoreUnavailableError, InterruptedError)):
        work(looking, tmp_path / "copy.db")
    assert not list(tmp_path.glob("*copy*"))


@pytest.mark.parametrize(
    ("version", "words"),
    [(0, "The file is empty"), (1, "An older Parley wrote this file"), (99, "A newer Parley wrote this file")],
)
def test_a_file_of_another_schema_is_checked_for_damage_only(tmp_path: Path, version: int, words: str) -> None:
    path = tmp_path / "tasks.db"
    with closing(sqlite3.connect(path)) as other:
        other.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}")
    findings = check(path)
    assert (findings.wrong, findings.contents) == ((), None)
    assert str(findings.unchecked).startswith(words)
    with pytest.raises(StoreUnavailableError, match=words):
        back_up(path, tmp_path / "copy.db")
