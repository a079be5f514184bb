"""The file itself: its migrations, and what its errors mean."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite_file import APPLICATION_ID, explain, migrate, migrations

PATH = Path("/somewhere/tasks.db")
ADD_NOTES = "CREATE TABLE notes (note TEXT);"


@pytest.fixture
def connection() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def read_version(connection: sqlite3.Connection) -> tuple[int, int]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return version, application


def read_tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_an_empty_file_sees_every_script(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, migrations())
    assert read_version(connection) == (len(migrations()), APPLICATION_ID)
    assert read_tables(connection) == {"tasks", "events", "snapshots", "sends", "push_configs", "context_memory"}


def test_a_file_of_version_1_sees_the_scripts_after_it(connection: sqlite3.Connection) -> None:
    """And keeps what it holds. A file that has seen them all is left alone."""
    first = migrations()[0]
    migrate(connection, PATH, [first])
    connection.execute("INSERT INTO events VALUES ('acme', 't-1', 1, '{}')")
    for _ in range(2):
        migrate(connection, PATH, [first, ADD_NOTES])
        assert read_version(connection) == (2, APPLICATION_ID)
    assert "notes" in read_tables(connection)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)


def test_webhooks_that_nobody_called_begin_where_their_tasks_stand(connection: sqlite3.Connection) -> None:
    """In the dialect of the task, when a file of version 1 learns to deliver."""
    first, second, *_ = migrations()
    migrate(connection, PATH, [first])
    connection.execute(
        "INSERT INTO tasks VALUES ('acme', 't-1', 'ada', 'cook', 'c', 'working', 1, 1, '0.3', 7, 0, 0, 0)"
    )
    connection.execute("INSERT INTO push_configs VALUES ('acme', 't-1', 'hook', 'ada', '{}')")
    migrate(connection, PATH, [first, second])
    rows = connection.execute("SELECT * FROM push_configs").fetchall()
    assert rows == [("acme", "t-1", "hook", "ada", "{}", "0.3", 7)]


def test_a_script_that_fails_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    """Together with those before it."""
    migrate(connection, PATH, migrations())
    before = read_version(connection), read_tables(connection)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, PATH, [*migrations(), ADD_NOTES, "CREATE nonsense;"])
    assert (read_version(connection), read_tables(connection)) == before


def test_a_newer_file_is_refused(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, [*migrations(), ADD_NOTES])
    with pytest.raises(StoreUnavailableError, match=r"newer Parley wrote this file \(schema 3, this one knows 2\)"):
        migrate(connection, PATH, migrations())


def test_an_error_that_nobody_foresaw_keeps_its_words(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError) as error:
        connection.execute("nonsense")
    explained = explain(error.value, PATH)
    assert isinstance(explained, StoreUnavailableError)
    assert str(explained) == '/somewhere/tasks.db: near "nonsense": syntax error'
