"""Hints over NATS: every process publishes to one subject and subscribes to it.

    nats://[user:password@|token@]host[:port][,host…][/NAME][?credentials=FILE], or tls://…

NAME, by default `parley`, is the first part of the subject, so that two clusters can share a server. Nothing is kept by
NATS (core subjects, no JetStream). Reconnecting is left to `carrier`: each link is one connection of the client.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Coroutine, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import AuthorizationError

from parley.cluster.carrier import LinkError, Lost, Receive

MAX_BYTES = 64 * 1024
"""A sixteenth of what NATS allows by default: a longer message only delays those behind it."""
MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""What may wait for a blocked event loop before the connection is given up, which makes the process look everywhere."""
EXAMPLE = "nats://[user:password@]host:port[,host2:port2][/NAME][?credentials=FILE]"
DEFAULT_PORT = 4222
CLOSE_SECONDS = 0.5


class NatsAddress(Struct, frozen=True):
    """What the URL of a NATS server says."""

    servers: tuple[str, ...]
    needs_tls: bool
    name: str = "parley"
    user: str | None = None
    password: str | None = None
    token: str | None = None
    credentials: str | None = None


def parse_nats_url(url: str) -> NatsAddress:
    """The parts of a URL.

    Raises:
        ValueError: it is not the URL of a NATS server; the message does not repeat it, as it may hold a password.
    """
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    name = parts.path.removeprefix("/") or "parley"
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    credentials = options.pop("credentials", None)
    if parts.scheme not in ("nats", "tls") or not hosts:
        raise ValueError(f"Invalid NATS URL. Write {EXAMPLE}, or tls://…")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError("Invalid name in a NATS URL. It may have letters, digits, - and _, up to 64.")
    if options or parts.fragment or credentials == "":
        raise ValueError(f"Invalid option in a NATS URL. There is one: ?credentials=FILE, as in {EXAMPLE}")
    return NatsAddress(
        servers=tuple([f"{parts.scheme}://{_host_and_port(host)}" for host in hosts.split(",")]),
        needs_tls=parts.scheme == "tls",
        name=name,
        user=unquote(user) if colon else None,
        password=unquote(password) if colon else None,
        token=unquote(login) if login and not colon else None,
        credentials=credentials,
    )


def _host_and_port(text: str) -> str:
    """`host` → `host:4222`, `[::1]:4223` → the same. Anything else may be part of a password: no error quotes it."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", text)
    if found is None or (found[2] and not 0 < int(found[2]) < 65536):
        raise ValueError(f"Invalid host in a NATS URL. Write {EXAMPLE}")
    return f"{found[1]}:{found[2] or DEFAULT_PORT}"


class NatsTransport:
    """Makes connections to the servers of a URL: `ConnectedHints(NatsTransport(url))`."""

    max_bytes = MAX_BYTES

    def __init__(self, url: str) -> None:
        """Nothing is opened yet. Raises ValueError if the URL is invalid, or what it needs is missing."""
        self._address = parse_nats_url(url)
        if self._address.credentials is not None and find_spec("nkeys") is None:
            raise ValueError("A file of credentials needs the package nkeys: pip install 'nats-py[nkeys]'")
        if self._address.credentials is not None and not os.access(self._address.credentials, os.R_OK):
            raise ValueError(f"The file of credentials in a NATS URL cannot be read: {self._address.credentials}")
        self._subject = f"{self._address.name}.hints"

    @property
    def name(self) -> str:
        """The servers, without credentials."""
        return f"NATS at {', '.join(self._address.servers)}"

    async def connect(self, receive: Receive, lost: Lost) -> NatsLink:
        """Connect to any of the servers and subscribe.

        Raises:
            LinkError: no server can be reached, or they refuse the credentials or the subscription.
        """
        link = NatsLink(self._subject, lost)
        try:
            await link.run(self._open(link))
            await link.run(link.subscribe(receive))
            await link.probe()  # a refused subscription is reported before the answer
        except BaseException:
            await link.close()
            raise
        return link

    async def _open(self, link: NatsLink) -> None:
        address, client = self._address, link.client

        def checked(secret: str | None) -> str | None:
            """The client calls this just before it sends a secret."""
            if address.needs_tls:
                check_tls(client)
            return secret

        await client.connect(
            servers=list(address.servers),
            name="parley",
            error_cb=link.note_error,
            closed_cb=link.note_closed,
            allow_reconnect=False,
            max_reconnect_attempts=1,  # of each server, and at once: the carrier does the waiting
            reconnect_time_wait=0,
            no_echo=True,
            user=None if address.user is None else lambda: checked(address.user) or "",
            password=None if address.password is None else lambda: checked(address.password) or "",
            token=None if address.token is None else lambda: checked(address.token) or "",
            user_credentials=address.credentials,
        )
        if address.needs_tls:
            check_tls(client)


def check_tls(client: Client) -> None:
    """Raise LinkError if the server has not asked for TLS: the client would go on without."""
    if not client._server_info.get("tls_required"):  # pyright: ignore[reportPrivateUsage] — there is no public name
        raise LinkError("the server does not use TLS; a tls:// URL needs it")


def reason_of(error: BaseException) -> str:
    """Why there is no connection, in words that name no credentials."""
    if isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
        return "it refuses the credentials"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).removeprefix("nats: ").strip("'.") or type(error).__name__


class NatsLink:
    """One connection to NATS. Every error that the client reports ends it, because a hint may have been lost.

    The client sometimes ignores that a task is cancelled, and waits for an answer on a connection that it has closed.
    So each of its calls runs in a task of its own, for which the carrier waits only while there is a connection.
    """

    def __init__(self, subject: str, lost: Lost) -> None:
        self.client = Client()
        self._subject = subject
        self._lost = lost
        self._failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_closed = False

    async def run(self, call: Coroutine[Any, Any, object]) -> None:
        """Wait for a call of the client, or until the connection has failed. Raises LinkError if either fails."""
        task = asyncio.create_task(call)
        task.add_done_callback(self._note_end)
        try:
            await asyncio.wait([task, self._failure], return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        if task.done() and (error := task.exception()) is not None:
            if isinstance(error, LinkError):
                raise error
            raise LinkError(self._failure.result() if self._failure.done() else reason_of(error)) from error
        if self._failure.done():
            raise LinkError(self._failure.result())

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        """Read the error of a call that ends when nothing waits for it any more, and undo what it has opened."""
        _ignore_error(task)
        if self._is_closed:
            abort(self.client)

    async def subscribe(self, receive: Receive) -> None:
        """Begin to hear what others publish."""

        async def forward(message: Msg) -> None:
            receive(message.data)

        await self.client.subscribe(  # pyright: ignore[reportUnknownMemberType] — an untyped future is a parameter
            self._subject, cb=forward, pending_bytes_limit=MAX_UNREAD_BYTES
        )

    async def note_error(self, error: Exception) -> None:
        """End the link, unless its client still tries to connect: then another server may be better."""
        if self.client.is_connected or self.client.is_closed:
            self._fail(reason_of(error))

    async def note_closed(self) -> None:
        """End the link."""
        self._fail("the connection was closed")

    def _fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_result(reason)
            self._lost(reason)

    async def send(self, messages: Sequence[bytes]) -> None:
        """Hand messages to the client, which writes them. It waits only if the server does not take them."""
        await self.run(self._publish(messages))

    async def _publish(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            await self.client.publish(self._subject, message)

    async def probe(self) -> None:
        """Return when the server has answered a ping, which it does after delivering what came before.

        The server does not send a client its own messages (`no_echo`), so the probe cannot be one.
        """
        await self.run(self.client.flush())

    async def close(self) -> None:
        """Close the connection; if the server does not take what is left to write, that is dropped."""
        self._is_closed = True
        task = asyncio.create_task(self.client.close())
        task.add_done_callback(_ignore_error)
        try:
            await asyncio.wait([task], timeout=CLOSE_SECONDS)
        finally:
            task.cancel()
            abort(self.client)


def abort(client: Client) -> None:
    """Close the socket of a client, and end its tasks, if they are still there. There are no public names for that."""
    writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
    for name in ("_reading_task", "_ping_interval_task", "_flusher_task"):
        task: asyncio.Task[Any] | None = getattr(client, name, None)
        if task is not None and not task.done():
            task.cancel()


def _ignore_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
