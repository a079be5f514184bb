"""A server as a process: started, talked to over its standard input and output in bounded memory, and stopped.

The SDK's own transport reads a line of any length into memory and lets the process write to the host's standard error;
this one does neither. It gives the same pair of streams. The process is the leader of a group of its own, so that what
it has started ends with it. This module imports the SDK.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from parley.host.mcp.line_buffer import ENDS_KEPT, EndlessLineError, LineBuffer, SkippedLine, answered_id
from parley.host.mcp.link import McpLink
from parley.host.mcp.server_config import McpProcess, McpServerConfig
from parley.host.mcp.value_count import MAX_MESSAGE_VALUES, has_many_message_values
from parley.safe_text import printable_line

logger = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
"""What is read at a time, and what waits in a pipe."""

MAX_OTHER_LINES = 100
"""Lines of standard output that are not MCP. Some servers greet; one that goes on writes its log there."""

WAITING_MESSAGES = 64
"""Messages to a server that does not read. Callers wait for their answers anyway, and not to be written."""

STOP_SECONDS = 2.0
"""How long a process has to end after its input is closed, and again after it is told to terminate."""

POLL_SECONDS = 0.01
"""How often is looked whether a process has ended."""

STATUS_SECONDS = 0.5
"""How long the status of a process is waited for after its output has ended."""

ENDED = "the server has closed its output"

ERROR_LINES = 5
"""Lines of standard error that are logged when a process ends by itself."""

Inbound: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def stdio_streams(
    config: McpServerConfig, process: McpProcess, link: McpLink
) -> AsyncGenerator[TransportStreams]:
    """The streams of a new process, which is stopped when the block ends. Raises OSError if it cannot be started."""
    child = await asyncio.create_subprocess_exec(
        process.command,
        *process.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=get_default_environment() | dict(process.env),
        cwd=process.cwd,
        limit=CHUNK_BYTES,
        start_new_session=True,
    )
    inbound, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbound, to_write = anyio.create_memory_object_stream[SessionMessage](WAITING_MESSAGES)
    pipes = _Pipes(config, child, link)
    pumps = [
        asyncio.create_task(pipes.read(inbound)),
        asyncio.create_task(pipes.write(to_write)),
        asyncio.create_task(pipes.read_errors()),
    ]
    is_orderly = False
    try:
        yield received, outbound
        is_orderly = not link.reason
    finally:
        link.end("")  # whatever the process does now is our doing
        try:
            await _stop(child, is_orderly=is_orderly)
        finally:
            for pump in pumps:
                pump.cancel()
            for stream in (inbound, received, outbound, to_write):
                stream.close()
            await asyncio.gather(*pumps, return_exceptions=True)


class _Pipes:
    """What goes through the pipes of one process."""

    def __init__(self, config: McpServerConfig, child: asyncio.subprocess.Process, link: McpLink) -> None:
        self._config = config
        self._child = child
        self._link = link
        self._lines = LineBuffer(config.max_result_bytes)
        self._other_lines = 0
        self._errors: deque[str] = deque(maxlen=ERROR_LINES)

    async def read(self, inbound: Inbound) -> None:
        """Pass on what the process writes, until it ends."""
        assert self._child.stdout is not None
        reason = ENDED
        try:
            while chunk := await self._child.stdout.read(CHUNK_BYTES):
                for line in self._lines.feed(chunk):
                    if (item := self._message(line)) is not None:
                        await inbound.send(item)
                await asyncio.sleep(0)  # a pipe that is never empty must not keep the loop to itself
        except EndlessLineError:
            reason = "the server writes a line without an end"
        except _NotMcpError as error:
            reason = str(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the session is over
        if not self._link.over.is_set():
            await self._report_end(reason)
        inbound.close()  # now the calls in progress fail, for a reason that is known

    async def _report_end(self, reason: str) -> None:
        if reason is ENDED:
            with suppress(TimeoutError):
                async with asyncio.timeout(STATUS_SECONDS):
                    reason = f"the server has ended with status {await self._child.wait()}"
        self._link.end(reason)
        if self._errors:
            logger.warning(
                "The MCP server %s: %s. It wrote last: %s", self._config.name, reason, "; ".join(self._errors)
            )

    def _message(self, line: bytes | SkippedLine) -> SessionMessage | None:
        """The message on a line; None if there is none. Raises _NotMcpError."""
        if isinstance(line, SkippedLine):
            return _too_large(answered_id(line.head, line.tail), f"{self._config.max_result_bytes} bytes")
        if not line.strip():
            return None
        if has_many_message_values(line):
            return _too_large(answered_id(line[:ENDS_KEPT], line[-ENDS_KEPT:]), f"{MAX_MESSAGE_VALUES} values")
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError:
            if (request_id := answered_id(line[:ENDS_KEPT], line[-ENDS_KEPT:])) is not None:
                return _error(request_id, "The answer is not a message of JSON-RPC")
            self._other_lines += 1
            if self._other_lines > MAX_OTHER_LINES:
                raise _NotMcpError("the server writes lines to its output that are not MCP") from None
            return None

    async def write(self, to_write: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write messages to the process."""
        assert self._child.stdin is not None
        try:
            async for item in to_write:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._child.stdin.write(data.encode() + b"\n")
                await self._child.stdin.drain()
        except (ConnectionError, RuntimeError):
            self._link.end("the server has closed its input")

    async def read_errors(self) -> None:
        """Read standard error, so that the process is not held up; the last lines are for the log."""
        assert self._child.stderr is not None
        lines = LineBuffer(1_000)
        with suppress(EndlessLineError):
            while chunk := await self._child.stderr.read(CHUNK_BYTES):
                for line in lines.feed(chunk):
                    text = line.head if isinstance(line, SkippedLine) else line
                    shown = printable_line(self._config.redact(text.decode(errors="replace")))[:300]
                    self._errors.append(shown)
                    logger.debug("The MCP server %s: %s", self._config.name, shown)
                await asyncio.sleep(0)


def _too_large(request_id: int | None, most: str) -> SessionMessage:
    """An answer that is too large, as the error of its request. Raises _NotMcpError if it answers none."""
    if request_id is None:
        raise _NotMcpError(f"the server sent a message of more than {most}")
    return _error(request_id, f"The answer has more than the {most} that are allowed")


def _error(request_id: int, text: str) -> SessionMessage:
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=text)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


class _NotMcpError(Exception):
    """What a process writes is not MCP."""


async def _stop(child: asyncio.subprocess.Process, *, is_orderly: bool) -> None:
    """End a process and what it has started. Also if this is cancelled, nothing of it is left.

    After an orderly session, a process may end by itself, as the specification recommends.
    """
    assert child.stdin is not None
    child.stdin.close()
    try:
        if is_orderly and await _has_ended(child):
            return
        _signal(child, signal.SIGTERM)
        await _has_ended(child)
    finally:
        _signal(child, signal.SIGKILL)
        # A descendant in a group of its own may hold a pipe open; nothing public closes our end of it.
        transport = getattr(child, "_transport", None)
        if transport is not None:
            transport.close()


async def _has_ended(child: asyncio.subprocess.Process) -> bool:
    """Whether a process ends in time. `wait` would also wait for its pipes, which its descendants may hold open."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STOP_SECONDS
    while child.returncode is None and loop.time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
    return child.returncode is not None


def _signal(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
