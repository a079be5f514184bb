"""Replicas in processes of their own, to be killed, stopped, woken and started again.

Each is reached through proxies, and reaches Postgres and NATS through proxies, so that its network can be broken alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.chaos.network import FaultProxy
from tests.chaos.replica_process import ReplicaSettings

START_SECONDS = 60.0
DRAIN_SECONDS = 60.0
"""Runs have two seconds to end; the rest is for a store that is away and a machine that is busy."""
ROOT = Path(__file__).parent.parent.parent


class Replica:
    """One replica: its process, its settings, and its proxies by name."""

    def __init__(
        self, settings: ReplicaSettings, proxies: Mapping[str, FaultProxy], *, source: Path | None, log: Path
    ) -> None:
        """`source` is a folder with another `parley` package than the installed one."""
        self.name = settings.name
        self.proxies = proxies
        self._settings = settings
        self._source = source
        self._log = log
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    async def start(self, *, skew: float = 0.0) -> None:
        """Start it, with a clock that is wrong by some seconds. Returns when it can be called."""
        settings = msgspec.structs.replace(self._settings, skew=skew)
        path = [str(self._source or ""), str(ROOT), os.environ.get("PYTHONPATH", "")]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-m", "tests.chaos.replica_process", msgspec.json.encode(settings).decode()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",  # so that only PYTHONPATH says which sources are used
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # the signals of a terminal are for the harness
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Replica {self.name} did not start: see {self._log}")

    async def kill(self) -> None:
        """End it at once."""
        await self._end(signal.SIGKILL)

    async def drain(self) -> bool:
        """Let it drain and end in good order; False if it did not end in time and was killed."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            await self.kill()
            return False
        return True

    def freeze(self) -> None:
        """Stop it where it is, as a long pause of its machine would."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    async def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._signal(number)
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
