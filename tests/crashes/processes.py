"""The processes of a test: one that forks servers, and a2a-sdk's reader, both spoken to in lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.peer_environments import ROOT


class LineProcess:
    """A process that reads and writes lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._news = asyncio.Condition()
        self.said: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()

    async def tell(self, **values: Any) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(values).encode() + b"\n")
        await self._process.stdin.drain()

    async def until(self, name: str, *, after: int = 0) -> Any:
        """The first line with this member, after some lines."""
        async with self._news:
            while True:
                for line in self.said[after:]:
                    if name in line:
                        return line
                await self._news.wait()

    async def until_line(self, *wanted: dict[str, Any]) -> dict[str, Any]:
        """The first line with all values of one of these."""
        async with self._news:
            while True:
                for line in self.said:
                    if any(values.items() <= {**line, "artifacts": ""}.items() for values in wanted):
                        return line
                await self._news.wait()

    async def end(self) -> None:
        self._reading.cancel()
        os.killpg(self._process.pid, signal.SIGKILL)  # with all that it forked
        await self._process.wait()


@asynccontextmanager
async def line_process(command: Sequence[str | Path]) -> AsyncGenerator[LineProcess]:
    """A process for as long as the block lasts."""
    started = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    process = LineProcess(started)
    try:
        yield process
    finally:
        await process.end()


class ServerProcess:
    """An agent at one URL, in one process life after another."""

    def __init__(self, forking: LineProcess, role: str, folder: Path, **options: Any) -> None:
        self._forking = forking
        self._life = {"role": role, "folder": str(folder), "port": free_port(), "grpc_port": free_port(), **options}
        self.url = f"http://127.0.0.1:{self._life['port']}"
        self._pid: int | None = None

    async def start(self, *, kill_after: int | None = None) -> None:
        """Begin a life, and return when it serves; it may have been killed by then."""
        heard = len(self._forking.said)
        await self._forking.tell(**self._life, kill_after=kill_after)
        self._pid = (await self._forking.until("started", after=heard))["started"]
        line = await self._forking.until_line({"ready": self._pid}, {"ended": self._pid})
        assert "ready" in line, "The server did not start"

    async def until_ended(self) -> None:
        """Wait for the end of the current life."""
        await self._forking.until_line({"ended": self._pid})

    async def kill(self) -> None:
        """End the current life, if it has not ended."""
        if self._pid is not None and {"ended": self._pid} not in self._forking.said:
            os.kill(self._pid, signal.SIGKILL)
            await self.until_ended()
        self._pid = None


@asynccontextmanager
async def forking_server() -> AsyncGenerator[LineProcess]:
    """The process that forks servers."""
    async with line_process([sys.executable, "-m", "tests.crashes.forking_server"]) as process:
        yield process


def free_port() -> int:
    """A port that no process uses, and that no outgoing connection gets while a server is down."""
    while True:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", random.randint(15_000, 30_000)))
            return found.getsockname()[1]
