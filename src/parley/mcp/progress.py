"""Progress of a call for the client that asked for it: what the agent says meanwhile, bounded and not too often.

The sender is a task of its own, so that a slow reader of MCP does not hold up the reading of A2A; what it has not sent
yet is one short text. The number counts the notifications, because how much work is left is not known.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from mcp.server.session import ServerSession

from parley.client.reply import Update
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import text_of
from parley.protocol.tasks import TaskState

PROGRESS_SECONDS = 0.1
"""Between two notifications: often enough for text that streams, and ten messages a second at most."""

MAX_PROGRESS_TEXT = 500
"""Characters of one notification. Of more new text, the end is shown; the result has it all."""


class ProgressReporter:
    """Sends progress within its block, and what is left at its end."""

    def __init__(self, session: ServerSession, *, is_wanted: bool) -> None:
        self._session = session
        self._is_wanted = is_wanted
        self._count = 0
        self._pending = ""
        self._has_pending = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._is_wanted:
            self._sender = asyncio.create_task(self._send_regularly())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sender is None:
            return
        self._sender.cancel()
        with suppress(asyncio.CancelledError):
            await self._sender
        if kind is None:
            await self._send_pending()

    def add(self, update: Update) -> None:
        """Report an event: the text that it adds, the agent's note about its progress, or its new state."""
        if not self._is_wanted:
            return
        if text := update.text:
            self._put(f"{self._pending}{text}")
        elif isinstance(update.event, StatusUpdate):
            message = update.event.status.message
            note = text_of(message.parts) if message is not None else ""
            if note or update.state is not TaskState.COMPLETED:
                self._put(note or update.state.value)

    def _put(self, text: str) -> None:
        self._pending = text if len(text) <= MAX_PROGRESS_TEXT else f"…{text[1 - MAX_PROGRESS_TEXT :]}"
        self._has_pending.set()

    async def _send_regularly(self) -> None:
        while True:
            await self._has_pending.wait()
            await self._send_pending()
            await asyncio.sleep(PROGRESS_SECONDS)

    async def _send_pending(self) -> None:
        if not self._has_pending.is_set():
            return
        text, self._pending = self._pending, ""
        self._has_pending.clear()
        self._count += 1
        await self._session.report_progress(self._count, None, text)
