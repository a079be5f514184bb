"""The file itself: its migrations, and what its errors mean."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite.file import APPLICATION_ID, explain, migrate, migrations

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
    assert read_tables(connection) == {
        *("tasks", "events", "snapshots", "sends", "push_configs", "context_values"),
        *("leases", "inbox", "outbox", "records", "number_series"),
    }


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


def test_tasks_get_numbers_and_keep_all_they_have(connection: sqlite3.Connection) -> None:
    """When a file of version 2 learns to keep the events of a write together."""
    *before, third = migrations()[:3]
    migrate(connection, PATH, before)
    connection.executescript(
        """
        INSERT INTO tasks VALUES ('acme', 't-1', 'ada', 'cook', 'c-1', 'working', 9, 2, '0.3', 2, 1, 0, 30);
        INSERT INTO tasks VALUES ('acme', 't-2', 'bob', 'cook', 'c-2', 'completed', 8, 1, '1.0', 1, 0, 1, 40);
        INSERT INTO tasks VALUES ('zoo', 't-1', 'eve', 'cook', 'c-3', 'working', 7, 3, '1.0', 0, 0, 0, 0);
        INSERT INTO events VALUES ('acme', 't-1', 1, '{"n":1}'), ('acme', 't-1', 2, '{"n":2}');
        INSERT INTO events VALUES ('acme', 't-2', 1, '{"n":3}');
        INSERT INTO snapshots VALUES ('acme', 't-2', '{}');
        INSERT INTO push_configs VALUES ('acme', 't-1', 'hook', 'ada', '{}', '0.3', 2);
        INSERT INTO sends VALUES ('acme', 'ada', 'm-1', x'00', 2, 't-1', NULL);
        INSERT INTO sends VALUES ('acme', 'bob', 'm-1', x'00', 1, NULL, '{}');
        """
    )
    migrate(connection, PATH, [*before, third])

    assert connection.execute("SELECT * FROM tasks").fetchall() == [
        (1, "acme", "t-2", "bob", "cook", "c-2", "completed", 8, 1, "1.0", 1, 0, 1, 40),
        (2, "acme", "t-1", "ada", "cook", "c-1", "working", 9, 2, "0.3", 2, 1, 0, 30),
        (3, "zoo", "t-1", "eve", "cook", "c-3", "working", 7, 3, "1.0", 0, 0, 0, 0),
    ]
    assert connection.execute("SELECT * FROM events").fetchall() == [
        (1, 1, '[{"n":3}]'),
        (2, 1, '[{"n":1}]'),
        (2, 2, '[{"n":2}]'),
    ]
    assert connection.execute("SELECT * FROM snapshots").fetchall() == [("acme", "t-2", "{}")]
    assert connection.execute("SELECT * FROM push_configs").fetchall() == [
        ("acme", "t-1", "hook", "ada", "{}", "0.3", 2)
    ]
    assert connection.execute("SELECT * FROM sends").fetchall() == [
        ("acme", "bob", "m-1", b"\0", 1, None, "{}"),
        ("acme", "ada", "m-1", b"\0", 2, "t-1", None),
    ]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_values_of_contexts_get_the_agents_that_they_belong_to(connection: sqlite3.Connection) -> None:
    """Every agent of the conversation; where its tasks are deleted, the only agent of the file, or none."""
    *before, fourth = migrations()[:4]
    migrate(connection, PATH, before)
    task = "INSERT INTO tasks VALUES (NULL, 'acme', ?, 'ada', ?, ?, 'working', 1, 1, '1.0', 1, 0, 0, 0)"
    connection.execute(task, ("t-1", "cook", "c-1"))
    connection.execute(task, ("t-2", "cook", "c-1"))
    for context in ("c-1", "c-2"):
        connection.execute("INSERT INTO context_memory VALUES ('acme', 'ada', ?, 'name', '1')", (context,))
    connection.execute("INSERT INTO context_memory VALUES ('acme', 'bob', 'c-1', 'name', '2')")
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with closing(copy):
        connection.backup(copy)
        copy.execute(task, ("t-3", "waiter", "c-1"))
        for file, rows in (
            (connection, [("ada", "cook", "c-1"), ("ada", "cook", "c-2"), ("bob", "cook", "c-1")]),
            (copy, [("ada", "cook", "c-1"), ("ada", "waiter", "c-1")]),
        ):
            migrate(file, PATH, [*before, fourth])
            assert file.execute("SELECT owner, agent, context FROM context_values ORDER BY 1, 2, 3").fetchall() == rows
            assert file.execute("SELECT min(written_at) > 1700000000000000 FROM context_values").fetchone() == (1,)


def test_a_script_that_fails_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    """Together with those before it."""
    migrate(connection, PATH, migrations())
    before = read_version(connection), read_tables(connection)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, PATH, [*migrations(), ADD_NOTES, "CREATE nonsense;"])
    assert (read_version(connection), read_tables(connection)) == before


def test_a_newer_file_is_refused(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, [*migrations(), ADD_NOTES])
    known = len(migrations())
    said = rf"newer Parley wrote this file \(schema {known + 1}, this one knows {known}\)"
    with pytest.raises(StoreUnavailableError, match=said):
        migrate(connection, PATH, migrations())


def test_an_error_that_nobody_foresaw_keeps_its_words(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError) as error:
        connection.execute("nonsense")
    explained = explain(error.value, PATH)
    assert isinstance(explained, StoreUnavailableError)
    assert str(explained) == '/somewhere/tasks.db: near "nonsense": syntax error'
