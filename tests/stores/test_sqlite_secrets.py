"""Secrets in SQLite: what the file holds of them, and the key beside it."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from parley.sealed.errors import SecretError
from parley.sealed.sources import KeyFile
from parley.stores.interface import DeleteRecord, PutRecord
from parley.stores.sqlite.maintenance import FileMaintenance
from parley.stores.sqlite.store import SqliteStore
from parley.stores.store_secrets import PAGE
from parley.stores.urls import opened
from tests.stores.secrets_suite import (
    EVERYTHING,
    FIRST,
    HOOK,
    PUBLIC,
    SECOND,
    Execute,
    Keys,
    Open,
    SecretsSuite,
    check_without_lost_secrets,
    put_all,
    put_plain_webhooks,
    put_what_is_not_renewed,
    read_all,
    script_for_a_lost_key,
)
from tests.stores.writes import KEY

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def bytes_of(path: Path) -> bytes:
    """All that is on disk of a store, without its key."""
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*") if file.suffix != ".key")


class TestSqliteSecrets(SecretsSuite):
    @pytest.fixture
    def open_with(self, path: Path) -> Open:
        def open_with(keys: Keys) -> SqliteStore:
            store = SqliteStore(path, keys=keys)
            store.secrets._beside = None
            return store

        return open_with

    @pytest.fixture
    def execute(self, path: Path) -> Execute:
        async def execute(statement: str, *values: str) -> list[str]:
            with closing(sqlite3.connect(path)) as shell:
                found = [row[0] for row in shell.execute(statement, values)]
                shell.commit()
                return found

        return execute


async def test_without_keys_one_is_made_beside_the_file_and_that_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        async with opened(SqliteStore(path)) as store:
            if await store.tasks.head(KEY) is None:
                await put_all(store)
            assert await read_all(store) == EVERYTHING
    key = path.with_name("tasks.db.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in said] == [
        f"The secrets in the store are encrypted with a new key in {key}. Keep a copy of it, apart from backups"
    ]
    assert b"secret-" not in bytes_of(path)


async def test_a_file_whose_key_is_gone_gets_no_new_one(path: Path) -> None:
    """With a new key the server would start, and every webhook would fail."""
    async with opened(SqliteStore(path)) as store:
        await put_all(store)
    key = path.with_name("tasks.db.key")
    (made,) = KeyFile(key).read() or ()
    key.rename(path.with_name("elsewhere"))
    with pytest.raises(SecretError, match=f"encrypted with key {made.id} .+ holds no key. Restore the key"):
        await SqliteStore(path).open()
    assert not key.exists()
    async with opened(SqliteStore(path, keys=KeyFile(path.with_name("elsewhere")))) as store:
        assert await read_all(store) == EVERYTHING


async def test_a_store_moves_from_the_key_beside_it_to_another(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await put_all(store)
    async with opened(SqliteStore(path, keys=Keys(FIRST))) as store:
        assert await read_all(store) == EVERYTHING
    path.with_name("tasks.db.key").unlink()
    async with opened(SqliteStore(path, keys=Keys(FIRST))) as store:
        assert await read_all(store) == EVERYTHING


async def test_a_file_of_keys_that_is_named_must_be_there(path: Path) -> None:
    with pytest.raises(SecretError, match="missing does not exist, and --store-key names it"):
        await SqliteStore(path, keys=KeyFile(path.with_name("missing"))).open()


async def test_a_file_of_keys_that_everyone_can_read_is_warned_about(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = KeyFile(path.with_name("keys"))
    file.make()
    async with opened(SqliteStore(path, keys=file)):
        assert caplog.text == ""
    file.path.chmod(0o644)
    async with opened(SqliteStore(path, keys=file)):
        assert f"Every user of this machine can read the keys in {file.path}" in caplog.text


async def test_a_store_whose_key_is_lost_opens_after_what_the_documentation_says(path: Path) -> None:
    async with opened(SqliteStore(path)) as store:
        await put_all(store)
        await put_what_is_not_renewed(store)
    key = path.with_name("tasks.db.key")
    (lost,) = KeyFile(key).read() or ()
    key.unlink()
    found = "2 webhooks, 3 records, 1 messages that wait, 1 writes of events, 1 values of conversations"
    with pytest.raises(SecretError, match=found):
        await SqliteStore(path).open()
    with closing(sqlite3.connect(path)) as shell:
        shell.executescript(script_for_a_lost_key("SQLite", lost))
    async with opened(SqliteStore(path)) as store:
        await check_without_lost_secrets(store)
    assert FileMaintenance(path, lambda _: None).check().wrong == ()


async def test_nothing_of_a_plain_secret_is_left_in_the_file_or_its_log(path: Path) -> None:
    """What a row was before it was encrypted is overwritten, also in the log of writes."""
    await put_plain_webhooks(SqliteStore(path), PAGE - 1)
    assert b"secret-credentials" in bytes_of(path)
    async with opened(SqliteStore(path)) as store:
        assert b"secret-" not in bytes_of(path)
        assert len(await store.outbox.webhooks(KEY)) == PAGE - 1
    assert b"secret-" not in bytes_of(path)


async def test_what_is_deleted_after_a_change_of_keys_is_overwritten_as_before(path: Path) -> None:
    """The connection that encrypts again is the one that deletes."""
    async with opened(SqliteStore(path, keys=Keys(FIRST))) as store:
        await put_all(store)
        await store.records.write(PutRecord(PUBLIC, {"word": "private-" * 400}, expected=1))
    async with opened(SqliteStore(path, keys=Keys(SECOND, FIRST))) as store:
        assert b"private-" in bytes_of(path)
        await store.records.write(DeleteRecord(PUBLIC))
        assert await store.owner_data.erase()
        assert b"private-" not in bytes_of(path)


@pytest.mark.parametrize("pages", [1, 2, 3])
async def test_a_kill_in_the_middle_of_encrypting_loses_nothing(path: Path, pages: int) -> None:
    number = 4 * PAGE
    await put_plain_webhooks(SqliteStore(path), number)
    command = [sys.executable, "-m", "tests.stores.encrypting_process", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(pages):
            assert process.stdout.readline() == "page\n"
        os.kill(process.pid, signal.SIGKILL)
    store = SqliteStore(path)
    async with opened(store):
        await store.secrets.close()
        await store.secrets.renew()
        found = [webhook.config for webhook in await store.outbox.webhooks(KEY)]
        assert [(config.token, config.authentication) for config in found] == [
            (HOOK.token, HOOK.authentication)
        ] * number
    with closing(sqlite3.connect(path)) as shell:
        plain = shell.execute("SELECT count(*) FROM push_configs WHERE config LIKE '%secret-%'").fetchone()
        assert plain == (0,)
