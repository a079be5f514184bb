"""A replica: `parley serve` in a process of its own, at a port that it keeps when it is started again."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

AGENT = Path(__file__).with_name("counting_agent.py")
SECONDS = 120.0
"""A process imports for a second; a machine under load takes many times that."""


class Replica:
    """One of several on a store. What it logs is in `log`, what its agents begin in `begun`."""

    def __init__(self, port: int, *options: str, log: Path, begun: Path) -> None:
        self.port = port
        self.log = log
        self._variables = {
            "COUNTING_AGENT_BEGUN": str(begun),
            "PYTHONUNBUFFERED": "1",
            # With bytecode, as installed packages have it, a restart takes a fraction of the processor time.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(log.parent / "bytecode"),
        }
        self._command = ["-m", "parley.cli.main", "serve", f"{AGENT}:agent", "--port", str(port), *options]
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it. Returns when it serves."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._command,
                cwd=self.log.parent,
                env={**os.environ, **self._variables},
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            while line := await self._process.stdout.readline():
                if b"Press Ctrl+C to stop" in line:
                    return
        raise AssertionError(f"It does not serve: {self.log.read_text()}")

    async def stop(self) -> None:
        """Stop it with SIGTERM, as a deployment does, and wait until it has ended well."""
        assert self._process is not None
        self._process.terminate()
        async with asyncio.timeout(SECONDS):
            # Its output is read to the end, so that it is never held up by what it prints.
            await self._process.communicate()
        assert self._process.returncode == 0, self.log.read_text()

    async def kill(self) -> None:
        """End it, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()
