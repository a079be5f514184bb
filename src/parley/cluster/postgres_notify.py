"""Hints over PostgreSQL's LISTEN and NOTIFY, on one connection of their own, for clusters without NATS.

The server delivers notifications one transaction after the other, so they must be few: one statement notifies of
everything that was published since the last one. The channel is named after the schema, so that two clusters in one
database do not hear each other. LISTEN needs a session of its own: a pooler in transaction mode cannot carry hints.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from typing import Any

import asyncpg

from parley.cluster.carrier import CarrierTiming, LinkError, Lost, Receive
from parley.stores.postgres.address import parse_address
from parley.stores.postgres.servers import connect_to_any

MAX_BYTES = 5_900
"""A payload has fewer than 8,000 bytes, and is text: Base64 makes 7,868 of these."""
MAX_CHANNEL = 63
"""PostgreSQL refuses longer names."""
NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"
NO_OWN_NOTIFICATION = (
    "a notification to itself did not arrive; hints need a direct connection, or a pooler in session mode"
)


class PostgresTransport:
    """Makes connections to the database of a URL: `ConnectedHints(PostgresTransport(url))`."""

    max_bytes = MAX_BYTES

    def __init__(self, url: str) -> None:
        """Nothing is opened yet. Raises StoreError if the URL is invalid."""
        self._address = parse_address(url)

    @property
    def name(self) -> str:
        """The server, without credentials."""
        return self._address.name

    async def connect(self, receive: Receive, lost: Lost) -> PostgresLink:
        """Connect and listen.

        Raises:
            LinkError: the server cannot be reached, refuses the credentials, or the search path names no schema.
        """
        try:
            connection = await connect_to_any(
                self._address, server_settings={"application_name": "parley hints", "synchronous_commit": "off"}
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise LinkError(reason_of(error)) from error
        link = PostgresLink(connection, receive, lost)
        try:
            await link.listen()
        except BaseException:
            await link.close()
            raise
        return link


def channel_of(schema: str) -> str:
    """The channel of the cluster whose tables are in a schema."""
    name = f"parley_{schema}"
    return name if len(name.encode()) <= MAX_CHANNEL else f"parley_{sha256(schema.encode()).hexdigest()[:32]}"


def reason_of(error: Exception) -> str:
    """Why there is no connection, in words that name no credentials."""
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return "it refuses the credentials"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).rstrip(".") or type(error).__name__


class PostgresLink:
    """One connection to PostgreSQL. It has one statement under way at a time."""

    def __init__(self, connection: Any, receive: Receive, lost: Lost) -> None:
        self._connection: asyncpg.Connection[asyncpg.Record] = connection
        self._pid = self._connection.get_server_pid()
        self._receive = receive
        self._lost = lost
        self._channel = ""
        self._own_channel = f"parley_probe_{self._pid}"
        self._numbers = count(1)
        self._last_probe = ""
        self._probe_arrived = asyncio.Event()

    async def listen(self) -> None:
        """Begin to hear what others notify of."""
        connection = self._connection
        connection.add_termination_listener(self._note_end)
        try:
            schema = await connection.fetchval("SELECT current_schema()")
            if schema is None:
                raise LinkError("the search_path of its URL names no schema that exists")
            self._channel = channel_of(schema)
            await connection.add_listener(self._channel, self._note_message)
            await connection.add_listener(self._own_channel, self._note_probe)
            self._notify = await connection.prepare(NOTIFY)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise LinkError(reason_of(error)) from error

    def _note_end(self, _connection: object) -> None:
        self._lost("the connection was closed")

    def _note_message(self, _connection: object, pid: int, _channel: str, payload: object) -> None:
        if pid == self._pid:
            return
        try:
            message = b64decode(str(payload), validate=True)
        except (binascii.Error, ValueError):
            message = b""  # which is not a message either
        self._receive(message)

    def _note_probe(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == self._last_probe:
            self._probe_arrived.set()

    async def send(self, messages: Sequence[bytes]) -> None:
        """Notify of messages, in one statement."""
        await self._execute(self._channel, [b64encode(message).decode() for message in messages])

    async def probe(self) -> None:
        """Notify itself, and return when the notification has arrived."""
        self._last_probe = str(next(self._numbers))
        self._probe_arrived.clear()
        await self._execute(self._own_channel, [self._last_probe])
        try:
            async with asyncio.timeout(CarrierTiming().answer / 2):
                await self._probe_arrived.wait()
        except TimeoutError:
            raise LinkError(NO_OWN_NOTIFICATION) from None

    async def _execute(self, channel: str, payloads: list[str]) -> None:
        try:
            await self._notify.fetch(channel, payloads)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise LinkError(reason_of(error)) from error

    async def close(self) -> None:
        """Close the connection, quickly."""
        try:
            await self._connection.close(timeout=CarrierTiming().close)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            self._connection.terminate()
