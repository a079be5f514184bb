"""`--workers N`: several processes with the same agents on one port and one store.

The parent binds the HTTP port and starts N children of the same command, which inherit the listening sockets; gRPC
listens on one port in each child, because the system lets them share it. The first worker starts alone, so that it
creates what is missing in the store. A worker that dies is started again, after a longer pause each time; one that dies
before all were ready ends the whole command, because it would die again. Signals are passed on: the first SIGTERM or
SIGINT lets all workers drain, the second kills them. Workers are in sessions of their own, so that Ctrl+C reaches them
once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from parley.cli.options.handover import Handover, WorkerReport

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds before a worker that died is started again; the pause doubles each time."""

HEALTHY_SECONDS = 60.0
"""A worker that has run for so long begins with the first pause again when it dies."""

MAX_REPORT_BYTES = 1_000_000

REPORT_SECONDS = 1.0
"""How long what a worker reported before its end is read. What it has forked may hold its pipe open for ever."""

Command = Callable[[Handover], Sequence[str]]
"""The command line of a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What the workers of one command share."""

    count: int
    command: Command
    sockets: Sequence[socket.socket]
    grpc_port: int | None
    replica: str
    hints_folder: str


class Workers:
    """The worker processes of one command."""

    def __init__(
        self, plan: WorkerPlan, *, log: Callable[[str], None], on_ready: Callable[[WorkerReport], None]
    ) -> None:
        """`log` gets a sentence for operators; `on_ready` what the first worker reported, when all are ready."""
        self._plan = plan
        self._log = log
        self._on_ready = on_ready
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._ready: dict[int, WorkerReport] = {}
        self._drained: set[int] = set()
        """Workers that were asked in the store to drain."""
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._were_all_ready = False
        self._exit_code = 0
        self._parent_end, self._kept_end = os.pipe()  # the second one stays open while this process lives

    async def run(self) -> int:
        """Run all workers until they have ended; the exit code of the command."""
        keeping = [asyncio.create_task(self._keep(1))]
        try:
            await self._until_ready(1)
            keeping += [asyncio.create_task(self._keep(number)) for number in range(2, self._plan.count + 1)]
            await self._until_ready(self._plan.count)
            if not self._stop.is_set():
                self._were_all_ready = True
                self._on_ready(self._ready[1])
            await asyncio.gather(*keeping)
        finally:
            for task in keeping:
                task.cancel()
            self.kill()
        return self._exit_code

    async def _until_ready(self, count: int) -> None:
        while len(self._ready) < count and not self._stop.is_set():
            self._changed.clear()
            await self._changed.wait()

    # --- signals ------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let all workers drain."""
        self._stop.set()
        self._changed.set()
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all workers at once."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Pass a signal on to all workers."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    # --- one worker ---------------------------------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Start a worker, and start it again when it dies."""
        loop = asyncio.get_running_loop()
        deaths = 0
        while not self._stop.is_set():
            started = loop.time()
            code, is_drained = await self._run_once(number, is_restart=deaths > 0)
            if self._stop.is_set() or is_drained:
                if code != -signal.SIGTERM:  # a worker that was still starting
                    self._exit_code = self._exit_code or _shell_code(code)
                return
            if not self._were_all_ready:
                self._log(f"Worker {number} ended at its start, {_ending(code)}. All workers are stopped.")
                self._exit_code = _shell_code(code) or 1
                self.stop()
                return
            deaths = 1 if loop.time() - started >= HEALTHY_SECONDS else deaths + 1
            pause = min(FIRST_PAUSE * 2 ** (deaths - 1), LONGEST_PAUSE)
            self._log(f"Worker {number} ended, {_ending(code)}. It is started again in {pause:g} s.")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    async def _run_once(self, number: int, *, is_restart: bool) -> tuple[int, bool]:
        """Run a worker to its end; its exit code, and whether it was asked in the store to drain."""
        reader, writer = os.pipe()
        try:
            process = await self._start(number, writer, is_restart=is_restart)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._processes[number] = process
        if self._stop.is_set():  # a signal came while it was being started
            process.terminate()
        following = asyncio.create_task(self._follow_reports(number, reader))
        try:
            code = await process.wait()
            await asyncio.wait({following}, timeout=REPORT_SECONDS)
        finally:
            following.cancel()
            del self._processes[number]
            self._ready.pop(number, None)
        if number in self._drained:
            self._log(f"Worker {number} has drained, as it was asked to, and is not started again.")
        return code, number in self._drained

    async def _start(self, number: int, reports: int, *, is_restart: bool) -> asyncio.subprocess.Process:
        plan = self._plan
        listening = tuple(each.fileno() for each in plan.sockets)
        handover = Handover(
            number=number,
            is_restart=is_restart,
            listening=listening,
            grpc_port=plan.grpc_port,
            parent=self._parent_end,
            reports=reports,
            replica=f"{plan.replica}/{number}",
            hints_folder=plan.hints_folder,
        )
        return await asyncio.create_subprocess_exec(
            *plan.command(handover), pass_fds=(*listening, self._parent_end, reports), start_new_session=True
        )

    async def _follow_reports(self, number: int, descriptor: int) -> None:
        """Read what a worker reports until it ends."""
        lines = asyncio.StreamReader(limit=MAX_REPORT_BYTES)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            partial(asyncio.StreamReaderProtocol, lines), os.fdopen(descriptor, "rb")
        )
        try:
            while line := await lines.readline():
                report = msgspec.json.decode(line, type=WorkerReport)
                if report.is_draining:
                    self._drained.add(number)
                if report.url:
                    self._ready[number] = report
                    self._changed.set()
        finally:
            transport.close()


def _ending(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"with exit code {code}"


def _shell_code(code: int) -> int:
    """The exit code for a process that ended with this code, or was killed by the signal that it names."""
    return 128 - code if code < 0 else code


# --- the command ------------------------------------------------------------------------------------------------------


def worker_command(handover: Handover) -> list[str]:
    """The command line of a worker: that of this process, with what it is handed over."""
    return [sys.executable, "-m", "parley.cli.main", *sys.argv[1:], "--worker", handover.encode()]


def reserve_port(host: str, port: int) -> tuple[socket.socket, int]:
    """A socket that keeps a port for processes that share it, and the port; 0 picks a free one.

    Raises:
        OSError: the port cannot be used.
    """
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    reserving = socket.socket(family, kind, protocol)
    try:
        reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserving.bind(address)
    except OSError:
        reserving.close()
        raise
    return reserving, reserving.getsockname()[1]


async def run_workers(plan: WorkerPlan, *, log: Callable[[str], None], on_ready: Callable[[WorkerReport], None]) -> int:
    """Run worker processes until SIGTERM or SIGINT; the exit code of the command."""
    from parley.server.run import has_terminal

    workers = Workers(plan, log=log, on_ready=on_ready)
    loop = asyncio.get_running_loop()
    needs_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and has_terminal()

    def end(number: signal.Signals) -> None:
        workers.stop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            loop.add_signal_handler(each, end_now, each)

    def end_now(number: signal.Signals) -> None:
        workers.kill()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def hang_up() -> None:
        if needs_terminal and not has_terminal():
            workers.stop()
        else:
            workers.send_signal(signal.SIGHUP)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    return await workers.run()
