"""Hints between processes of one machine, over Unix datagram sockets in a folder: no server is needed.

Each process binds a socket of its own and sends to all others that it finds there. A process that does not read fast
enough misses messages; it is told to look as soon as it takes one again. Only the user who runs
the processes may enter the folder.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from parley.cluster.carrier import LinkError, Lost, Receive
from parley.cluster.encoding import encode
from parley.cluster.hints import LookHint

MAX_BYTES = 2_000 if sys.platform == "darwin" else 32_000
"""macOS takes datagrams of up to 2,048 bytes by default. Linux queues ten, of any size, so long ones are better."""
MAX_PATH = 103
"""The path of a socket, in bytes: 104 with its final zero on macOS, 108 on Linux."""
SUFFIX = ".hints"
RECEIVED_AT_ONCE = 64
"""Then the event loop gets a turn."""
BUFFER_FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)
FULL_SECONDS = 0.01
PROBE = b"\xc0"
"""Not a message of hints, and shorter than any."""
LOOK = next(encode([LookHint()], max_bytes=MAX_BYTES))


class SocketTransport:
    """Binds sockets in a folder: `ConnectedHints(SocketTransport(folder))`."""

    max_bytes = MAX_BYTES

    def __init__(self, folder: Path) -> None:
        """Nothing is opened yet; the folder is created when it is needed.

        Raises:
            ValueError: the path is too long for a socket.
        """
        self._folder = folder.absolute()
        length = len(os.fsencode(self._folder / f"{token_hex(4)}{SUFFIX}"))
        if length > MAX_PATH:
            longest = MAX_PATH - length + len(os.fsencode(self._folder))
            raise ValueError(f"Invalid folder for sockets: {str(folder)!r}. Its path may have at most {longest} bytes.")

    @property
    def name(self) -> str:
        """The folder."""
        return f"the sockets in {self._folder}"

    async def connect(self, receive: Receive, lost: Lost) -> SocketLink:
        """Bind a socket.

        Raises:
            LinkError: the folder cannot be used.
        """
        endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            endpoint.setblocking(False)
            self._open_folder()
            path = self._folder / f"{token_hex(4)}{SUFFIX}"
            endpoint.bind(str(path))
        except OSError as error:
            endpoint.close()
            raise LinkError(error.strerror or type(error).__name__) from error
        except LinkError:
            endpoint.close()
            raise
        return SocketLink(endpoint, path, receive)

    def _open_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._folder.stat()
        if status.st_uid != os.geteuid():
            raise LinkError("the folder belongs to another user")
        if status.st_mode & 0o077:
            self._folder.chmod(0o700)


class SocketLink:
    """One bound socket."""

    def __init__(self, endpoint: socket.socket, path: Path, receive: Receive) -> None:
        self._socket = endpoint
        self._path = path
        self._receive = receive
        self._behind: set[str] = set()
        self._probe_arrived = asyncio.Event()
        asyncio.get_running_loop().add_reader(endpoint, self._read)

    def _read(self) -> None:
        for _ in range(RECEIVED_AT_ONCE):
            try:
                message = self._socket.recv(2 * MAX_BYTES)
            except OSError:  # nothing more is there
                return
            if message == PROBE:
                self._probe_arrived.set()
            else:
                self._receive(message)

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages to all other sockets of the folder."""
        self._send_to_others(messages)

    def _send_to_others(self, messages: Sequence[bytes]) -> None:
        try:
            with os.scandir(self._path.parent) as entries:
                paths = [entry.path for entry in entries if entry.name.endswith(SUFFIX)]
        except OSError as error:
            raise LinkError(error.strerror or type(error).__name__) from error
        own = str(self._path)
        self._behind.intersection_update(paths)
        for path in paths:
            if path != own:
                self._send_to(path, messages)

    def _send_to(self, path: str, messages: Sequence[bytes]) -> None:
        if path in self._behind:
            messages = [LOOK]
        try:
            for message in messages:
                self._socket.sendto(message, path)
            self._behind.discard(path)
        except OSError as error:
            if error.errno in BUFFER_FULL:
                self._behind.add(path)
            elif error.errno == errno.ECONNREFUSED:  # its process has ended without removing it
                with suppress(OSError):
                    os.unlink(path)

    async def probe(self) -> None:
        """Send to itself, and return when that has arrived. Processes that are behind are told to look."""
        self._send_to_others([])
        self._probe_arrived.clear()
        while True:
            try:
                self._socket.sendto(PROBE, str(self._path))
                break
            except OSError as error:
                if error.errno not in BUFFER_FULL:
                    raise LinkError(error.strerror or type(error).__name__) from error
                await asyncio.sleep(FULL_SECONDS)
        await self._probe_arrived.wait()

    async def close(self) -> None:
        """Close and remove the socket."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        with suppress(OSError):
            self._path.unlink()
