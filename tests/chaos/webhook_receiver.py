"""A receiver of webhooks that notes each call in a history, in the order in which it accepts them.

Now and then it refuses a call with status 503, by a seed, so that deliveries have to be repeated.
"""

from __future__ import annotations

import asyncio
import json
from random import Random

from tests.chaos.history import Delivered, History, now
from tests.chaos.raw_client import frame_of

REFUSED = 0.05
"""The share of calls that is refused."""


class WebhookReceiver:
    """An HTTP server for webhooks; the token of a webhook says whose it is."""

    def __init__(self, history: History, random: Random) -> None:
        self._history = history
        self._random = random
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen at a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1_000)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = [line.partition(":") for line in head.split("\r\n")[1:]]
                headers = {name.strip().lower(): value.strip() for name, _, value in lines}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                writer.write(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % self._answer(headers, body))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _answer(self, headers: dict[str, str], body: bytes) -> int:
        if self._random.random() < REFUSED:
            return 503
        task, _, seq = headers["parley-event-id"].rpartition(":")
        token = headers["x-a2a-notification-token"]
        self._history.note(Delivered(now(), token, task, frame_of(int(seq), json.loads(body))))
        return 200
