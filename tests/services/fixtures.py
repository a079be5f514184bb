"""Fixtures: a PostgreSQL and a NATS server for all tests of a process, started when a test first needs them.

With `PARLEY_TEST_STORE=postgres`, the suites of the engine, the host and the conformance matrix run on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import asyncpg
import pytest

from tests.services.nats import Nats, running_nats
from tests.services.postgres import Postgres, running_postgres

ON_POSTGRES = os.environ.get("PARLEY_TEST_STORE") == "postgres"
"""Whether the tests run on PostgreSQL that run on stores in memory and in files otherwise."""

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """The server that tests share. A test that stops it has its own: `running_postgres()`."""
    with running_postgres() as postgres:
        yield postgres


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> str:
    """The URL of an empty schema."""
    return empty_schema(postgres_server)


def empty_schema(postgres: Postgres) -> str:
    """The URL of a new, empty schema. An event loop may be running: this blocks it for some milliseconds."""
    name = f"test_{next(_numbers)}"

    async def create() -> None:
        connection = await asyncpg.connect(postgres.url())
        try:
            await connection.execute(f"CREATE SCHEMA {name}")
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, create()).result()
    return postgres.url(search_path=name)


@pytest.fixture(scope="session")
def nats_server() -> Iterator[Nats]:
    """The server that tests share. A test that stops it has its own: `running_nats()`."""
    with running_nats() as nats:
        yield nats
