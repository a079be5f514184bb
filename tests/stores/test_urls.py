"""Which store a URL names."""

import subprocess
import sys
from pathlib import Path

import pytest

from parley.stores.interface import StoreError
from parley.stores.memory import MemoryStore
from parley.stores.postgres.store import PostgresStore
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import open_store
from tests.stores.writes import KEY, creation


def test_memory_is_a_store() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


@pytest.mark.anyio
async def test_a_file_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes for a relative path, four for an absolute one: the same file here."""
    monkeypatch.chdir(tmp_path)
    relative, absolute = open_store("sqlite:///tasks.db"), open_store(f"sqlite:///{tmp_path}/tasks.db")
    assert isinstance(relative, SqliteStore)
    await relative.open()
    await relative.tasks.write(creation())
    await relative.close()
    await absolute.open()
    assert await absolute.tasks.head(KEY) is not None
    await absolute.close()


@pytest.mark.parametrize("url", ["", "memory", "sqlite://tasks.db", "sqlite:///", "tasks.db", "mysql://localhost/db"])
def test_another_url_names_no_store(url: str) -> None:
    with pytest.raises(StoreError, match=r"Write memory:, sqlite:///file.db") as refusal:
        open_store(url)
    assert repr(url) in str(refusal.value)


@pytest.mark.parametrize("scheme", ["mysql", "postgresql+asyncpg"])
def test_the_url_of_another_database_is_refused_without_its_password(scheme: str) -> None:
    with pytest.raises(StoreError, match=r"Write memory:, sqlite:///file.db") as refusal:
        open_store(f"{scheme}://parley:hunter2@db/agents")
    assert f"{scheme}://" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_database_is_named_by_its_url(scheme: str) -> None:
    """A password in it is for the server only."""
    store = open_store(f"{scheme}://parley:hunter2@db.example:6432/agents?search_path=parley")
    assert isinstance(store, PostgresStore)
    assert store.is_shared


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://parley:hunter2@[db/agents",
        "postgresql://parley:hunter2@db/agents?statement_cache_size=some",
        "postgresql://parley:hunter2@db/agents?search_path",
        "postgresql://parley:hunter2/x@db/agents",
        "postgresql://parley:1/hunter2@db/agents",
        "postgresql://parley:1#hunter2@db/agents",
        "postgresql://parley:x@hunter2@db/agents",
        "postgresql://parley:hunter2@db:99999/agents",
        "postgresql://parley:hunter2@db:port/agents",
        "postgresql://parley:hunter2@db,,other/agents",
    ],
)
def test_an_invalid_url_of_a_database_is_refused_without_its_password(url: str) -> None:
    """Neither the message nor what caused it shows it."""
    with pytest.raises(StoreError, match=r"Write postgresql://user:password@host:5432/database") as refusal:
        open_store(url)
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None


def test_a_database_needs_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says what to install."""
    monkeypatch.setattr("parley.stores.urls.find_spec", lambda _: None)
    with pytest.raises(StoreError, match=r"pip install 'parley-a2a\[postgres\]'"):
        open_store("postgresql://localhost/db")


def test_other_stores_do_not_import_the_driver() -> None:
    """Who uses SQLite pays nothing for PostgreSQL."""
    code = """
import sys
from parley.stores.urls import open_store
open_store("memory:"), open_store("sqlite:///x.db")
sys.exit("asyncpg" in sys.modules or any(name.startswith("parley.stores.postgres") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
