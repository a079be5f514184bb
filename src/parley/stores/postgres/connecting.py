"""Connections to the database, and the settings of their sessions.

The settings are made once the connection is open, and not while connecting: a pooler such as PgBouncer refuses startup
parameters that it does not know. A setting that the URL names is left as the URL says.
"""

from __future__ import annotations

import asyncpg

from parley.stores.interface import StoreUnavailableError
from parley.stores.postgres.address import Address
from parley.stores.postgres.servers import CONNECT_SECONDS, connect_to_any

SHORTEST_LIMIT = 1.0
"""Seconds that a statement may take at least."""

OLDEST_VERSION = 14

SETTINGS = {
    # A process that is paused in the middle of a transaction keeps locks no longer than this: well below a lease.
    "idle_in_transaction_session_timeout": "3s",
    # Longer than that, so that a session that waits for such a process gets the lock.
    "lock_timeout": "5s",
    # Every statement is served by an index. A plan that was made while a table was small would scan it for ever.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",  # compiling takes longer than any statement here
    "application_name": "parley",
}

WRITER_SETTINGS = {
    # Planning a batch again, for the numbers of its rows, takes longer than writing it.
    "plan_cache_mode": "force_generic_plan",
}

REQUIRE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', FALSE) WHERE current_setting('synchronous_commit') = 'off'
"""
"""A server may be set up to acknowledge what a crash takes back. Only the URL can ask for that."""


async def connect(address: Address, *, answer_seconds: float, is_writer: bool = False) -> asyncpg.Connection:
    """A connection to a database that can be written.

    A statement times out before `answer_seconds`, after which the caller treats the server as gone. So a slow server is
    reported as slow.
    """
    connection = await connect_to_any(
        address,
        max_cached_statement_lifetime=0,  # for ever
        max_cacheable_statement_size=0,  # of any size
    )
    try:
        limit = {"statement_timeout": f"{max(SHORTEST_LIMIT, answer_seconds * 0.8):.3f}s"}
        settings = {**SETTINGS, **limit, **(WRITER_SETTINGS if is_writer else {})}
        wanted = [f"SET {name} = '{value}'" for name, value in settings.items() if name not in address.settings]
        await connection.execute("; ".join(wanted), timeout=CONNECT_SECONDS)
        if is_writer and "synchronous_commit" not in address.settings:
            await connection.execute(REQUIRE_DURABLE, timeout=CONNECT_SECONDS)
    except BaseException:
        connection.terminate()
        raise
    return connection


def check_server(connection: asyncpg.Connection, name: str) -> None:
    """Refuse a server that cannot hold a store.

    Raises:
        StoreUnavailableError: it is too old, or its database is not in UTF-8.
    """
    version = connection.get_server_version()
    if version.major < OLDEST_VERSION:
        raise StoreUnavailableError(
            f"{name}: this is PostgreSQL {version.major}; Parley needs {OLDEST_VERSION} or newer."
        )
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"{name}: the encoding of this database is {encoding}. Create one with ENCODING 'UTF8' TEMPLATE template0."
        )
