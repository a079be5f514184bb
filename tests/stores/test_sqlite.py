"""SQLite: the suite of every store, and what is particular to a file: crashes, locks, full disks, damage."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from parley.protocol.events import ArtifactUpdate, TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Artifact, TaskState
from parley.stores.encoding import encode
from parley.stores.interface import (
    ConflictError,
    ContextKey,
    Owner,
    SendKey,
    SendRecord,
    StoreError,
    StoreUnavailableError,
    TaskFilter,
    TaskKey,
    Write,
)
from parley.stores.sqlite import file, recent_sends, writer
from parley.stores.sqlite.sends import DELETED_AT_ONCE
from parley.stores.sqlite.store import SqliteStore
from tests.stores.shared_store_suite import ManualTime, SharedStoreSuite
from tests.stores.store_suite import MakeStore, StoreSuite
from tests.stores.writes import ADA, CONTEXT, EVERYTHING, KEY, NEW, NOON, SEND, addition, chunk, creation, minute

ROOT = Path(__file__).parents[2]
LONE_SURROGATE = "\ud800"

pytestmark = pytest.mark.anyio


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: SqliteStore(tmp_path / "tasks.db")


class TestSqliteStoreOfOneProcess(SharedStoreSuite):
    @pytest.fixture
    def make_store(self, tmp_path: Path, now: ManualTime) -> MakeStore:
        store = SqliteStore(tmp_path / "tasks.db", now=now)
        return lambda: store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path, busy_timeout=0.05)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def patient_log(path: Path) -> AsyncGenerator[SqliteStore]:
    """Waits for a lock as long as a test takes: what is written meanwhile gathers in one batch."""
    store = SqliteStore(path, busy_timeout=30)
    await store.open()
    yield store
    await store.close()


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Another program that writes to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def process(module: str, *arguments: Path | str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"tests.stores.{module}", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def read_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


async def read_seqs(store: SqliteStore) -> list[int]:
    return [seq for seq, _ in await store.tasks.events(KEY, after=0, limit=1_000_000)]


# --- crashes ----------------------------------------------------------------------------------------------------------


async def test_what_was_acknowledged_survives_kill_9(path: Path) -> None:
    """Five processes in turn go on with one task and are killed at different points; there is never a gap."""
    for promises in (1, 7, 60, 250, 30):
        with process("writing_process", path) as child:
            assert read_line(child) == "open"
            for _ in range(promises):
                promised = int(read_line(child))
            child.kill()
            rest, _ = child.communicate()
            lines = rest.splitlines(keepends=True)
            promised = max([promised, *(int(line) for line in lines if line.endswith("\n"))])
        store = SqliteStore(path)
        await store.open()
        seqs = await read_seqs(store)
        head = await store.tasks.head(KEY)
        await store.close()
        assert head is not None
        assert seqs == list(range(1, head.last_seq + 1))
        assert head.last_seq >= promised


# --- one process at a time --------------------------------------------------------------------------------------------


async def test_two_processes_cannot_use_one_file(path: Path) -> None:
    """The second is told so; when the first is killed, the file is free at once."""
    store = SqliteStore(path)
    with process("writing_process", path) as child:
        assert read_line(child) == "open"
        with pytest.raises(StoreUnavailableError, match="another Parley process uses this file"):
            await store.open()
        child.kill()
        child.communicate()
    await store.open()
    await store.close()


async def test_two_logs_of_one_process_cannot_use_one_file(store: SqliteStore, path: Path) -> None:
    """Not even by another name."""
    link = path.with_name("link.db")
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(StoreUnavailableError, match="another Parley process uses this file"):
            await SqliteStore(name).open()
    await store.tasks.write(creation())


async def test_a_file_that_cannot_be_read_is_let_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the second connection fails, the first does not stay."""
    store = SqliteStore(path)
    with monkeypatch.context() as patch:
        patch.setattr("parley.stores.sqlite.access.connect_reader", lambda path: sqlite3.connect(path / "no directory"))
        with pytest.raises(StoreUnavailableError, match="cannot be opened"):
            await store.open()
    await store.open()
    await store.close()


# --- when the disk or others are in the way ---------------------------------------------------------------------------


async def test_a_full_disk_refuses_writes_until_there_is_room(store: SqliteStore) -> None:
    """Everybody in the batch hears it; nothing of it is kept; afterwards the store works as before."""
    await store.tasks.write(creation())

    def allow_pages(number: int) -> Callable[[sqlite3.Connection], None]:
        return lambda writer: writer.execute(f"PRAGMA max_page_count = {number}").close()

    await store._access._writer.submit(allow_pages(1))  # SQLite makes that: no more than there are
    large = ArtifactUpdate("t-1", "c-1", Artifact("a-1", (TextPart("x" * 100_000),)))
    writes = [Write(KEY, 1, (large,), TaskState.WORKING, NOON), addition(2)]
    outcomes = await asyncio.gather(*[store.tasks.write(write) for write in writes], return_exceptions=True)
    assert isinstance(outcomes[0], StoreUnavailableError)
    assert "the disk is full" in str(outcomes[0])
    assert isinstance(outcomes[1], StoreError)
    assert await read_seqs(store) == [1]
    assert store.problem() == "The store could not be written: the disk is full."

    await store._access._writer.submit(allow_pages(1_000_000))
    assert store.problem() is None
    await asyncio.gather(*[store.tasks.write(write) for write in writes])
    assert await read_seqs(store) == [1, 2, 3]


def test_a_failing_disk_refuses_writes_until_it_works(path: Path) -> None:
    """In a process of its own, which the operating system keeps from writing."""
    with process("confined_process", path) as child:
        assert read_line(child) == "written"
        refused = read_line(child)
        assert refused.startswith("StoreUnavailableError")
        assert "the disk f" in refused  # "is full" or "fails": systems differ
        assert read_line(child) == "written 2"
        assert child.wait() == 0


async def test_a_lock_of_another_program_refuses_writes_until_it_goes(store: SqliteStore, path: Path) -> None:
    """Reads go on meanwhile."""
    await store.tasks.write(creation())
    with locked(path):
        outcomes = await asyncio.gather(store.tasks.write(addition(1)), store.tasks.delete(KEY), return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, StoreUnavailableError)
            assert "another process holds the database" in str(outcome)
        assert await read_seqs(store) == [1]
        assert await store.tasks.head(KEY) is not None
        assert store.problem() == "The store could not be written: another process holds the database."
    await store.tasks.write(addition(1))
    assert store.problem() is None
    assert await read_seqs(store) == [1, 2]
    await store.close()
    with locked(path):
        await store.open()  # which writes nothing
        assert await read_seqs(store) == [1, 2]


async def test_a_value_that_sqlite_refuses_spoils_one_batch_only(store: SqliteStore) -> None:
    """Such as a number of more than 64 bits, which no engine counts to."""
    with pytest.raises(StoreUnavailableError, match="int too large"):
        await store.tasks.write(structs.replace(creation(), attempts=2**70))
    await store.tasks.write(creation())
    assert await read_seqs(store) == [1]


# --- files that are not ours, or not whole ----------------------------------------------------------------------------


async def refuse(path: Path, reason: str) -> None:
    with pytest.raises(StoreUnavailableError, match=reason) as refusal:
        await SqliteStore(path).open()
    assert str(path) in str(refusal.value)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("Dear diary, " * 1_000)
    await refuse(path, "not an SQLite database")
    assert path.read_text().startswith("Dear diary")


async def test_a_lock_file_that_is_something_else_is_named(path: Path) -> None:
    path.with_name("tasks.db-owner").write_text("Dear diary, " * 1_000)
    await refuse(path, "tasks.db-owner: the file is not an SQLite database")


async def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE diary (entry TEXT)")
    await refuse(path, "another program")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("diary",)]


async def test_conversations_are_for_the_eyes_of_their_owner_alone(store: SqliteStore, path: Path) -> None:
    files = list(path.parent.glob(f"{path.name}*"))
    assert len(files) >= 3  # the database, its log, and who owns it
    assert {file.stat().st_mode & 0o077 for file in files} == {0}


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    await refuse(tmp_path / "nowhere" / "tasks.db", "does its directory exist")


async def test_a_file_of_a_newer_schema_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 999")
    await refuse(path, "a newer Parley wrote this file")


async def fill(path: Path, *, events: int = 2_000) -> None:
    """A closed file with one long task."""
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(creation())
    await asyncio.gather(*[store.tasks.write(addition(number)) for number in range(1, events)])
    await store.close()


def damage(path: Path) -> None:
    """Put zeros in the place of one page, with events in the middle of the task, as a failing disk does."""
    content = path.read_bytes()
    begin = content.index(b"chunk 1000") // 4096 * 4096
    path.write_bytes(content[:begin] + bytes(4096) + content[begin + 4096 :])


async def test_a_damaged_file_is_refused_when_it_is_opened(path: Path) -> None:
    await fill(path)
    damage(path)
    await refuse(path, r"the file is damaged \(.+\)\. Stop the server, look at the damage with parley store check")


async def test_damage_that_is_met_later_ends_all_writing(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file too large to be looked through at its opening. What can be read is read; the log tells it once."""
    await fill(path)
    damage(path)
    monkeypatch.setattr(file, "check_quickly", lambda *_: None)
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(creation(TaskKey(ADA, "t-2")))
    assert store.problem() is None
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="the file is damaged"):
            await read_seqs(store)
        with pytest.raises(StoreUnavailableError, match=r"The database file is damaged\. Stop the server"):
            await store.tasks.write(creation(TaskKey(ADA, "t-3")))
    assert store.problem() == "The database file is damaged."
    assert await store.tasks.head(TaskKey(ADA, "t-2")) is not None
    assert await store.tasks.head(TaskKey(ADA, "t-3")) is None
    assert len([record for record in caplog.records if record.levelname == "CRITICAL"]) == 1
    await store.close()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: path.unlink(), "The database file was deleted or moved away"),
        (lambda path: path.parent.rename(path.parent.with_name("elsewhere")), "The database file was deleted or moved"),
        (lambda path: shutil.copy(path, path.with_name("copy")).replace(path), "Another file was put in the place"),
        (lambda path: path.with_name("tasks.db-wal").unlink(), "The database's write-ahead log was deleted"),
    ],
    ids=["deleted", "moved", "replaced", "log deleted"],
)
async def test_a_file_that_is_no_longer_at_its_path_acknowledges_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Path], object], what: str
) -> None:
    """Nothing would be left of what is written there. It is noticed without a write too, and told in the log once."""
    path = tmp_path / "store" / "tasks.db"
    path.parent.mkdir()
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(creation())
    assert store.problem() is None
    change(path)
    for number in (1, 2):
        with pytest.raises(StoreUnavailableError, match=f"{what}.+Stop the server, put the file back, or a backup"):
            await store.tasks.write(addition(number))
    with pytest.raises(StoreUnavailableError, match=what):
        await read_seqs(store)  # in a connection of its own, which would read another file
    assert str(store.problem()).startswith(what)
    assert str(path) not in str(store.problem())
    assert await store.tasks.head(KEY) is not None
    assert len([record for record in caplog.records if record.levelname == "CRITICAL"]) == 1
    await store.close()


async def test_a_damaged_value_says_so(store: SqliteStore) -> None:
    await store.tasks.write(creation())
    await store._access._writer.submit(lambda writer: writer.execute("UPDATE events SET events = '{'"))
    for reading in (store.tasks.read(KEY), read_seqs(store)):
        with pytest.raises(StoreUnavailableError, match="the file is damaged"):
            await reading


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    for is_there in (False, True):
        store = SqliteStore(path)
        await store.open()
        assert (await store.tasks.head(KEY) is not None) is is_there
        if not is_there:
            await store.tasks.write(creation())
        await store.close()


# --- names that no database can hold ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.tasks.write(creation(TaskKey(ADA, LONE_SURROGATE))),
        lambda store: store.tasks.write(creation(TaskKey(Owner(LONE_SURROGATE, "ada"), "t"))),
        lambda store: store.tasks.write(creation(TaskKey(ADA, "t"), new=structs.replace(NEW, agent=LONE_SURROGATE))),
        lambda store: store.tasks.write(Write(KEY, 1, (chunk(1, LONE_SURROGATE),), TaskState.WORKING, NOON)),
        lambda store: store.tasks.write(
            creation(TaskKey(ADA, "t"), sends=((SendKey(LONE_SURROGATE, b""), SendRecord(NOON)),))
        ),
        lambda store: store.tasks.head(TaskKey(ADA, LONE_SURROGATE)),
        lambda store: store.tasks.read(TaskKey(ADA, LONE_SURROGATE)),
        lambda store: store.tasks.events(TaskKey(ADA, LONE_SURROGATE), after=0, limit=1),
        lambda store: store.tasks.list(ADA, TaskFilter(context_id=LONE_SURROGATE)),
        lambda store: store.tasks.delete(TaskKey(ADA, LONE_SURROGATE)),
        lambda store: store.sends.find(ADA, SendKey(LONE_SURROGATE, b""), since=NOON),
        lambda store: store.sends.put(ADA, SEND, SendRecord(NOON, LONE_SURROGATE)),
        lambda store: store.outbox.put(KEY, PushConfig("https://hook.example", id=LONE_SURROGATE)),
        lambda store: store.outbox.configs(TaskKey(ADA, LONE_SURROGATE)),
        lambda store: store.outbox.delete(KEY, LONE_SURROGATE),
        lambda store: store.contexts.put(ContextKey(ADA, "cook", LONE_SURROGATE), "name", 1, at=NOON),
        lambda store: store.contexts.put(CONTEXT, "name", LONE_SURROGATE, at=NOON),
        lambda store: store.contexts.get(ContextKey(ADA, LONE_SURROGATE, "c-1")),
    ],
)
async def test_half_of_a_surrogate_pair_is_refused(store: SqliteStore, call) -> None:
    """Alone: a write in the same batch is not touched, and later ones are none the worse."""
    await store.tasks.write(creation())
    good = store.tasks.write(addition(1))
    with pytest.raises(StoreError, match=r"Unicode|cannot be kept"):
        await call(store)
    await good
    await store.tasks.write(addition(2))
    assert await read_seqs(store) == [1, 2, 3]


# --- settings ---------------------------------------------------------------------------------------------------------


async def test_every_commit_of_the_writer_is_synced_and_readers_cannot_write(store: SqliteStore, path: Path) -> None:
    """As SQLite itself says: nothing else shows it before the power fails."""
    with closing(file.connect_reader(path)) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("DELETE FROM sends")
    for setting, value in (("synchronous", 2), ("journal_mode", "wal"), ("foreign_keys", 1)):
        question = f"PRAGMA {setting}"
        assert await store._access._writer.submit(lambda writer, ask=question: writer.execute(ask).fetchone()) == (
            value,
        )


# --- batches ----------------------------------------------------------------------------------------------------------


async def test_waiting_writes_are_shared_out_to_transactions(
    patient_log: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait, all of them are written, in order."""
    monkeypatch.setattr(writer, "MAX_BATCH", 3)
    with locked(path):
        waiting = [
            patient_log.tasks.write(creation()),
            *(patient_log.tasks.write(addition(number)) for number in range(1, 11)),
        ]
    await asyncio.gather(*waiting)
    assert await read_seqs(patient_log) == list(range(1, 12))


async def test_a_task_is_deleted_and_created_again_in_one_transaction(patient_log: SqliteStore, path: Path) -> None:
    """Each change sees what those before it left."""
    await patient_log.tasks.write(creation())
    with locked(path):
        waiting = [
            patient_log.tasks.write(addition(1)),
            asyncio.ensure_future(patient_log.tasks.delete(KEY)),
            asyncio.ensure_future(patient_log.outbox.put(KEY, PushConfig("https://hook.example"))),
        ]
        await asyncio.sleep(0)  # the latter two are in line when they have begun
        waiting += [
            patient_log.tasks.write(creation()),
            patient_log.tasks.write(addition(1)),
            patient_log.tasks.write(addition(9)),
        ]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [outcome if outcome is None or outcome is True else type(outcome) for outcome in outcomes] == [
        None,
        True,
        ConflictError,
        None,
        None,
        ConflictError,
    ]
    assert await read_seqs(patient_log) == [1, 2]


async def test_tasks_are_created_before_and_after_another_change_in_one_transaction(
    patient_log: SqliteStore, path: Path
) -> None:
    """Each gets a number of its own, also those that the table does not know yet."""
    keys = [TaskKey(ADA, f"t-{number}") for number in range(6)]
    with locked(path):
        waiting = [patient_log.tasks.write(creation(keys[0]))]
        while not patient_log._access._writer._jobs.empty():  # until the writer has it, and waits for the lock
            await asyncio.sleep(0)
        waiting += [patient_log.tasks.write(creation(key)) for key in keys[1:3]]
        changing = asyncio.ensure_future(patient_log.outbox.put(keys[1], PushConfig("https://hook.example")))
        waiting.append(changing)
        await asyncio.sleep(0)
        waiting += [patient_log.tasks.write(creation(key)) for key in keys[3:]]
        waiting += [patient_log.tasks.write(addition(1, key)) for key in keys]
    await asyncio.gather(*waiting)
    assert [len(await patient_log.tasks.events(key, after=0, limit=9)) for key in keys] == [2] * 6
    assert len(await patient_log.outbox.configs(keys[1])) == 1


async def test_closing_waits_for_what_was_written(path: Path) -> None:
    """Although another program is in the way; what comes after it is refused."""
    store = SqliteStore(path, busy_timeout=30)
    await store.open()
    with locked(path):
        waiting = [store.tasks.write(creation())]
        while not store._access._writer._jobs.empty():  # until the writer has it, and waits for the lock
            await asyncio.sleep(0)
        waiting += [store.tasks.write(addition(number)) for number in range(1, 5)]
        closing_log = asyncio.ensure_future(store.close())
        while store._access._writer._stopped is not None:  # until closing is under way
            await asyncio.sleep(0)
        late = store.tasks.write(addition(5))
    await closing_log
    assert [done.done() for done in waiting] == [True] * 5
    with pytest.raises(StoreUnavailableError, match="not open"):
        await late


async def test_a_write_whose_waiter_is_cancelled_happens_all_the_same(patient_log: SqliteStore, path: Path) -> None:
    """Those behind it count on it."""
    with locked(path):
        first, second = patient_log.tasks.write(creation()), patient_log.tasks.write(addition(1))
        first.cancel()
    await second
    assert await read_seqs(patient_log) == [1, 2]


def test_a_loop_that_is_gone_is_not_missed(path: Path) -> None:
    """A program that ends its loop without closing the log sees no traceback, and the write is there."""
    store = SqliteStore(path, busy_timeout=30)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        async def forget_to_close() -> None:
            await store.open()
            other.execute("BEGIN IMMEDIATE")
            store.tasks.write(creation())

        asyncio.run(forget_to_close())
        other.execute("ROLLBACK")

    store._access._writer._jobs.put(None)  # the end of the process would end the thread
    (writer,) = [thread for thread in threading.enumerate() if thread.name == "parley-sqlite-writer"]
    writer.join(5)
    assert not writer.is_alive()
    asyncio.run(store._access._close_readers())
    with closing(sqlite3.connect(path)) as shell:
        assert shell.execute("SELECT count(*) FROM events").fetchone() == (1,)


async def test_a_log_that_is_not_open_says_so(path: Path) -> None:
    store = SqliteStore(path)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.tasks.write(creation()),
        lambda: store.tasks.head(KEY),
        lambda: read_seqs(store),
        lambda: store.tasks.delete(KEY),
        lambda: store.sends.find(ADA, SEND, since=NOON),
        lambda: store.sends.put(ADA, SEND, SendRecord(NOON)),
    ]
    for _ in range(2):
        for call in calls:
            with pytest.raises(StoreUnavailableError, match="not open"):
                await call()
        await store.close()
        await store.open()  # and closed again it is as before
        await store.close()


# --- sends without a look into the file -------------------------------------------------------------------------------


async def asks_the_file(store: SqliteStore, send: SendKey, since: datetime) -> tuple[SendRecord | None, bool]:
    """What became of a message, and whether that took a question."""
    assert store._access._reader is not None
    statements: list[str] = []
    store._access._reader.set_trace_callback(statements.append)
    record = await store.sends.find(ADA, send, since=since)
    store._access._reader.set_trace_callback(None)
    return record, bool(statements)


async def test_a_message_that_was_not_sent_lately_is_known_to_be_new(path: Path) -> None:
    """Also after a restart. One that was sent is looked for, and one whose window is over is new again."""
    record = SendRecord(NOON, "t-1")
    reply = SendRecord(NOON, reply=Message("m-9", Role.AGENT, (TextPart("Hello"),)))
    store = SqliteStore(path)
    await store.open()
    assert await asks_the_file(store, SEND, NOON) == (None, False)
    await store.tasks.write(creation(sends=((SEND, record),)))
    await store.sends.put(ADA, SendKey("direct", b""), reply)
    for _ in range(2):
        assert await asks_the_file(store, SEND, NOON) == (record, True)
        assert await asks_the_file(store, SendKey("direct", b""), NOON) == (reply, True)
        assert await asks_the_file(store, SendKey("other", b""), NOON) == (None, False)
        assert await asks_the_file(store, SEND, NOON + timedelta(seconds=1)) == (None, False)
        await store.close()
        await store.open()
    await store.close()


async def test_messages_that_share_a_place_are_looked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets another's answer, and an earlier one does not hide a later one."""
    monkeypatch.setattr(recent_sends, "SLOTS", 1)
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(
        creation(sends=((SEND, SendRecord(minute(1), "t-1")), (SendKey("late", b""), SendRecord(NOON))))
    )
    assert await asks_the_file(store, SEND, minute(1)) == (SendRecord(minute(1), "t-1"), True)
    assert await asks_the_file(store, SendKey("other", b""), minute(1)) == (None, True)
    await store.close()


async def test_messages_of_earlier_that_were_too_many_to_read_are_looked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest are known, and so is what is sent from then on."""
    store = SqliteStore(path)
    await store.open()
    for number in range(4):
        await store.sends.put(ADA, SendKey(str(number), b""), SendRecord(minute(number)))
    await store.close()
    monkeypatch.setattr(recent_sends, "READ_AT_OPENING", 2)
    await store.open()
    for number in range(4):
        assert await store.sends.find(ADA, SendKey(str(number), b""), since=NOON) == SendRecord(minute(number))
    assert await asks_the_file(store, SendKey("new", b""), minute(2)) == (None, True)
    assert await asks_the_file(store, SendKey("new", b""), minute(3)) == (None, False)
    assert await asks_the_file(store, SendKey("3", b""), minute(3)) == (SendRecord(minute(3)), True)
    await store.close()


# --- what is in the file ----------------------------------------------------------------------------------------------


async def test_many_old_messages_are_deleted_in_turns_with_other_writes(store: SqliteStore) -> None:
    old = [SendKey(f"m-{number}", b"") for number in range(3 * DELETED_AT_ONCE)]
    await asyncio.gather(*[store.sends.put(ADA, send, SendRecord(NOON)) for send in old])
    deleting = asyncio.create_task(store.sends.delete_before(NOON + timedelta(hours=1)))
    await asyncio.sleep(0)
    await store.tasks.write(creation())
    assert not deleting.done()
    await deleting
    assert [await store.sends.find(ADA, send, since=NOON) for send in (old[0], old[-1])] == [None, None]


async def test_a_deleted_task_leaves_no_row_in_any_table(store: SqliteStore, path: Path) -> None:
    sends = ((SEND, SendRecord(NOON, "t-1")),)
    await store.tasks.write(Write(KEY, 0, EVERYTHING, TaskState.COMPLETED, NOON, NEW, fold(None, EVERYTHING), sends))
    await store.outbox.put(KEY, PushConfig("https://hook.example", id="h"))
    with closing(sqlite3.connect(path)) as shell:
        shell.execute("DELETE FROM records")  # the id of the key, which is there from the beginning
        shell.commit()
        tables = [name for (name,) in shell.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        kept = {name for name in tables if shell.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)}
        assert kept == {"tasks", "events", "snapshots", "sends", "push_configs"}
        await store.tasks.delete(KEY)
        assert {name for name in tables if shell.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)} == set()


async def test_people_can_look_into_the_file(store: SqliteStore, path: Path) -> None:
    """Values are JSON text, moments are numbers that SQLite's own functions understand."""
    await store.tasks.write(creation())
    await store.tasks.write(addition(1))
    with closing(sqlite3.connect(path)) as shell:
        texts = shell.execute(
            """
            SELECT tasks.id, json_extract(event.value, '$.artifact.parts[0].text')
            FROM tasks JOIN events ON task = number, json_each(events) AS event
            """
        ).fetchall()
        assert texts == [("t-1", None), ("t-1", "chunk 2")]
        (moment,) = shell.execute("SELECT datetime(status_at / 1000000, 'unixepoch') FROM tasks").fetchone()
        assert moment == "2026-03-01 12:00:00"


async def test_an_event_costs_the_same_however_much_there_is(store: SqliteStore, path: Path) -> None:
    """Counted in pages written: neither earlier events nor a large snapshot are written again."""
    large = ArtifactUpdate("t-1", "c-1", Artifact("a-1", (TextPart("x" * 1_000_000),)))
    wal = path.with_name("tasks.db-wal")
    await store._access._writer.submit(lambda writer: writer.execute("PRAGMA wal_autocheckpoint = 0").close())
    await store.tasks.write(creation())
    events = (large, *(chunk(number) for number in range(3_000)))
    snapshot = fold(None, (*EVERYTHING[:1], *events))
    await store.tasks.write(structs.replace(addition(1), events=events, snapshot=snapshot))
    before = wal.stat().st_size
    for number in range(10):
        await store.tasks.write(addition(3_002 + number))
    assert wal.stat().st_size - before <= 10 * 4 * 4_200  # the task's row, the last page of events, at times a new one


@pytest.mark.parametrize("text", ["a few words", "x" * 2_000], ids=["in rows of many", "each in a row of its own"])
async def test_pages_begin_and_end_anywhere_in_a_write(store: SqliteStore, text: str) -> None:
    """However its events are shared out to rows."""
    await store.tasks.write(creation())
    events = tuple(
        ArtifactUpdate("t-1", "c-1", Artifact("a-1", (TextPart(f"{number} {text}"),))) for number in range(200)
    )
    await store.tasks.write(Write(KEY, 1, events, TaskState.WORKING, NOON))
    await store.tasks.write(addition(201))
    everything = await store.tasks.events(KEY, after=0, limit=1_000)
    assert [seq for seq, _ in everything] == list(range(1, 203))
    assert tuple(event for _, event in everything[1:-1]) == events
    for after in (0, 1, 2, 63, 64, 65, 66, 200, 201, 202):
        for limit in (1, 2, 63, 64, 65, 130):
            assert list(await store.tasks.events(KEY, after=after, limit=limit)) == list(
                everything[after : after + limit]
            )
    seen: list[tuple[int, TaskEvent]] = []
    while page := await store.tasks.events(KEY, after=len(seen), limit=1_000, size=5_000):
        assert len(page) <= 65  # rows are read whole: one of 64 that goes beyond the size, and one before it
        seen += page
    assert seen == list(everything)
    stored = await store.tasks.read(KEY)
    assert stored is not None
    assert stored.events == tuple(event for _, event in everything)


async def test_a_task_of_an_earlier_version_is_listed_although_its_artifacts_are_within_its_snapshot(
    store: SqliteStore, path: Path
) -> None:
    await store.tasks.write(creation())
    snapshot = fold(None, (*creation().events, *addition(1).events))
    await store.tasks.write(structs.replace(addition(1), snapshot=snapshot))
    await store.tasks.write(addition(2))
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE snapshots SET snapshot = ?, artifacts = NULL", (encode(snapshot),))
        file.execute("UPDATE events SET is_unlisted = 0")
    whole = await store.tasks.read(KEY)
    assert whole is not None
    assert whole.snapshot == snapshot
    assert list(await store.tasks.read_many([KEY], artifacts=False)) == [whole]


async def test_no_question_reads_a_whole_table(store: SqliteStore) -> None:
    """Each statement that runs is explained: SQLite searches, in an index that begins with tenant and owner or id."""
    await store.tasks.write(creation(sends=((SEND, SendRecord(NOON, "t-1")),)))
    assert store._access._reader is not None
    statements: list[str] = []
    store._access._reader.set_trace_callback(statements.append)
    store._access._thread_readers.append(store._access._reader)  # nothing runs at the same time here
    for query in (
        TaskFilter(),
        TaskFilter(agent="cook", after=(NOON, "t-1")),
        TaskFilter(state=TaskState.WORKING, agent="cook"),
        TaskFilter(context_id="c-1", state=TaskState.WORKING, after=(NOON, "t-1")),
        TaskFilter(status_at_or_after=NOON),
    ):
        await store.tasks.list(ADA, query)
        if query.context_id is None:
            await store.tasks.list_all(query)
            await store.tasks.list_all(query, tenant="acme")
    await store.tasks.orphaned(frozenset({"worker"}), limit=9)
    await store.tasks.orphaned(frozenset({"worker"}), after=(NOON, "t-1"), limit=9)
    await store.outbox.webhooks(KEY)
    for after in (None, ADA, KEY):
        for owner in (None, ADA):
            await store.outbox.undelivered(holder="w", live=frozenset(), after=after, limit=9, owner=owner)
    await store.tasks.read(KEY)
    await store.tasks.events(KEY, after=0, limit=9)
    await store.outbox.configs(KEY)
    await store.sends.find(ADA, SEND, since=NOON)
    await store.contexts.get(CONTEXT)
    await store.contexts.delete_unused(before=NOON, limit=9)
    store._access._thread_readers.remove(store._access._reader)
    store._access._reader.set_trace_callback(None)

    questions = {statement for statement in statements if "SELECT" in statement}
    assert len(questions) >= 15
    for question in questions:
        plan = [row[3] for row in store._access._reader.execute(f"EXPLAIN QUERY PLAN {question}")]
        assert not [step for step in plan if step.startswith("SCAN")], question
        assert not [step for step in plan if step.endswith("(tenant=?)") and "tasks_by_time" not in step], question
        if "context = " not in question:  # the few tasks of a context are sorted
            assert not [step for step in plan if "TEMP B-TREE" in step], question
