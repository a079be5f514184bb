"""The schema of a database: numbered migrations, applied once, however many processes start at the same time.

A migration only adds what the release before can live with, and a later one removes what no running release needs any
more (expand, then contract). The file of each names the oldest schema whose releases can work with what it leaves. So
two releases run side by side during an upgrade, and a process that is too old refuses to start.

While a migration waits for the lock of a table, every session that comes to the table later waits behind it. So it
gives up after a second, and is tried again after a pause: a backup that holds a table for hours delays the process that
migrates, and no other.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from importlib import resources

import asyncpg
from msgspec import Struct

from parley.stores.interface import StoreUnavailableError
from parley.stores.postgres.statements import load_statements

logger = logging.getLogger(__name__)

_OLDEST = re.compile(r"^-- oldest compatible schema: (\d+)$", re.MULTILINE)

_STATEMENTS = load_statements("schema")

MIGRATION_SECONDS = 600
"""How long a process waits for another one that migrates, or for tables that others use."""

TABLE_SECONDS = 1
"""How long one attempt waits for a table. All other processes may wait for it as long."""

PAUSE_SECONDS = 2
"""Between two attempts."""


class Migration(Struct, frozen=True):
    """A script, and the lowest number of migrations that a process must know to work with what it leaves."""

    number: int
    name: str
    script: str
    oldest_compatible: int


def migrations() -> Sequence[Migration]:
    """The scripts that build the schema, oldest first; the n-th leads to schema n."""
    folder = resources.files("parley.stores.postgres") / "migrations"
    files = sorted([file for file in folder.iterdir() if file.name.endswith(".sql")], key=lambda file: file.name)
    found: list[Migration] = []
    for number, file in enumerate(files, start=1):
        script = file.read_text("utf-8")
        oldest = _OLDEST.search(script)
        assert oldest is not None, f"{file.name} does not say with which schema it is compatible"
        found.append(Migration(number, file.name.removesuffix(".sql"), script, int(oldest[1])))
    return found


async def migrate(connection: asyncpg.Connection, name: str, known: Sequence[Migration]) -> None:
    """Apply what the database has not seen yet, in one transaction, while no other process does.

    Raises:
        StoreUnavailableError: a newer Parley has changed the database, or there is no schema for Parley.
    """
    if await _is_up_to_date(connection, name, known):
        return
    deadline = asyncio.get_running_loop().time() + MIGRATION_SECONDS
    while True:
        try:
            await _apply(connection, name, known)
            return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if asyncio.get_running_loop().time() >= deadline:
                raise
        logger.warning("%s: another session holds a table that an upgrade changes. It is tried again.", name)
        await asyncio.sleep(PAUSE_SECONDS)


async def _apply(connection: asyncpg.Connection, name: str, known: Sequence[Migration]) -> None:
    """One attempt to migrate."""
    await connection.execute("BEGIN")
    try:
        # Other processes do the same; the one that comes second finds that everything is done.
        await connection.execute(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'; SET LOCAL statement_timeout = 0")
        await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{MIGRATION_SECONDS}s'")
        await connection.fetchval(_STATEMENTS["lock"])
        await connection.execute(f"SET LOCAL lock_timeout = '{TABLE_SECONDS}s'")
        if not await _is_up_to_date(connection, name, known):
            await connection.execute(_STATEMENTS["create"])
            applied = await connection.fetchval(_STATEMENTS["last"])
            for migration in known[applied or 0 :]:
                await connection.execute(migration.script)
                row = (migration.number, migration.name, migration.oldest_compatible)
                await connection.execute(_STATEMENTS["note"], *row)
        await connection.execute("COMMIT")
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise


async def require_schema(connection: asyncpg.Connection, name: str, known: Sequence[Migration]) -> None:
    """Check that nothing is left to apply, and change nothing.

    Raises:
        StoreUnavailableError: no server of this release has used the database yet, or a newer one has changed it.
    """
    if not await _is_up_to_date(connection, name, known):
        raise StoreUnavailableError(
            f"{name}: no server of this release has used this database yet. The first one that starts on it creates "
            "or upgrades its tables."
        )


async def _is_up_to_date(connection: asyncpg.Connection, name: str, known: Sequence[Migration]) -> bool:
    (row,) = await connection.fetch(_STATEMENTS["look"])
    schema, is_ours, is_taken = row
    if schema is None:
        raise StoreUnavailableError(
            f"{name}: the schema that search_path names does not exist, or this user may not use it. Create it with "
            "CREATE SCHEMA, or GRANT USAGE and CREATE on it."
        )
    if not is_ours:
        if is_taken:
            raise StoreUnavailableError(
                f"{name}: the schema {schema} has a table `tasks` of another program. Create a schema for Parley, and "
                "add ?search_path=… to the URL."
            )
        return False
    (row,) = await connection.fetch(_STATEMENTS["applied"])
    applied, oldest_compatible = row
    if applied is None:
        return False
    if applied > len(known) and oldest_compatible > len(known):
        raise StoreUnavailableError(
            f"{name}: a newer Parley has changed this database (schema {applied}, which needs a Parley that knows "
            f"schema {oldest_compatible}; this one knows {len(known)}). Upgrade Parley."
        )
    return applied >= len(known)
