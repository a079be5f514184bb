"""Which store a URL names."""

from pathlib import Path

import pytest

from parley.stores.interface import StoreError
from parley.stores.memory import MemoryStore
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


@pytest.mark.parametrize(
    "url", ["", "memory", "sqlite://tasks.db", "sqlite:///", "tasks.db", "postgres://localhost/db"]
)
def test_another_url_names_no_store(url: str) -> None:
    with pytest.raises(StoreError, match=r"Write memory:, sqlite:///file.db") as refusal:
        open_store(url)
    assert repr(url) in str(refusal.value)
