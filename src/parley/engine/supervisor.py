"""The supervisor of runs: begins them, bounds how many there are, cancels them for real, and lets none end in the air.

A run's coroutine is its own asyncio task: a caller that goes away takes nothing with it. However a program ends (done,
paused, raising, cancelled, too late, or with a store that refuses), its task ends in a state that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from parley.engine.clock import Clock, NewId
from parley.engine.limits import Limits
from parley.engine.run import LimitExceededError, Run, Stopped
from parley.protocol.errors import ParleyError, RateLimitedError, UnavailableError
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey

logger = logging.getLogger(__name__)


class Supervisor:
    """All runs of one engine. `on_end` is called with each run when it is over."""

    def __init__(
        self, *, limits: Limits, clock: Clock, new_id: NewId, on_end: Callable[[Run], Awaitable[None]]
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._new_id = new_id
        self._on_end = on_end
        self._runs: dict[TaskKey, Run] = {}
        self._working: dict[TaskKey, asyncio.Task[None]] = {}
        self._queue: deque[Run] = deque()
        self._is_stopping = False

    def find(self, key: TaskKey) -> Run | None:
        """The run of a task, working or waiting for its turn."""
        return self._runs.get(key)

    @property
    def working(self) -> int:
        """How many runs are at work."""
        return len(self._working)

    @property
    def waiting(self) -> int:
        """How many runs wait for their turn."""
        return len(self._queue)

    def check_capacity(self) -> None:
        """Refuse new work before anything is made of it.

        Raises:
            RateLimitedError: too many runs wait already.
            UnavailableError: the engine is stopping.
        """
        if self._is_stopping:
            raise UnavailableError("The agent is restarting; try again in a moment")
        if len(self._queue) >= self._limits.sends_waiting:
            raise RateLimitedError(f"{len(self._queue)} messages wait already; try again later")

    def hold(self, run: Run) -> None:
        """Make a run known before it begins, so that nobody begins another one for its task."""
        self._runs[run.key] = run

    def start(self, run: Run) -> None:
        """Begin a run now, or when one of the others has ended."""
        if run.is_closed:  # cancelled while it was held
            return
        self.hold(run)
        if len(self._working) < self._limits.runs_at_once:
            self._begin(run)
        else:
            self._queue.append(run)

    def _begin(self, run: Run) -> None:
        work = asyncio.get_running_loop().create_task(self._execute(run), name=f"run {run.key.task_id}")
        self._working[run.key] = work

    async def _execute(self, run: Run) -> None:
        try:
            await self._work(run)
        finally:
            self._working.pop(run.key, None)
            if self._runs.get(run.key) is run:
                del self._runs[run.key]
            while self._queue and not self._is_stopping and len(self._working) < self._limits.runs_at_once:
                self._begin(self._queue.popleft())
            await self._on_end(run)
            run.ended.set_result(None)

    async def _work(self, run: Run) -> None:
        """Run the program and end its task, whatever happens. The one place where any exception ends a run."""
        limit: asyncio.Timeout | None = None
        try:
            run.start_working()
            async with self._clock.timeout(self._limits.run_seconds) as limit:
                await run.program.run(run)
            await run.end(TaskState.COMPLETED)
        except Stopped:
            pass
        except BaseExceptionGroup as group:
            # A handler that asks from inside a task group is stopped there, and the group says so.
            if group.split(Stopped)[1] is not None:
                await self._fail_for(run, group)
        except asyncio.CancelledError:
            if run.is_cancelled:
                await self._finish(run.end(TaskState.CANCELED))
            # Otherwise the engine stops, and the task is taken up again when it comes back.
        except TimeoutError as error:
            if limit is not None and limit.expired():
                await self._finish(run.fail(f"The agent took longer than {self._limits.run_seconds:g} seconds."))
            else:  # a timeout of the handler's own
                await self._fail_for(run, error)
        except LimitExceededError as error:
            logger.error("Task %s: %s", run.key.task_id, error)
            await self._finish(run.fail(f"{error.message}."))
        except Exception as error:
            if error is not run.failure:  # otherwise the store refused, and the run knows
                await self._fail_for(run, error)

    async def _fail_for(self, run: Run, error: BaseException) -> None:
        """Fail a task because its program raised: the traceback goes into the log, a reference to the caller."""
        reference = self._new_id()
        logger.error("Task %s: the agent failed (reference %s)", run.key.task_id, reference, exc_info=error)
        await self._finish(run.fail(f"The agent failed. Reference: {reference}"))

    async def _finish(self, ending: Awaitable[None]) -> None:
        """Write a last state even if the store refuses; the task is then settled when it is back."""
        with contextlib.suppress(ParleyError):
            await ending

    async def cancel(self, run: Run) -> None:
        """Cancel a run, wherever it is, and return when its task is canceled.

        A handler that does not end within the time for cleaning up is left behind: nothing it still says counts.
        """
        run.is_cancelled = True
        work = self._working.get(run.key)
        if work is None:
            if run in self._queue:
                self._queue.remove(run)
            self._runs.pop(run.key, None)
            await run.end(TaskState.CANCELED)
            await self._on_end(run)
            run.ended.set_result(None)
            return
        work.cancel()
        await asyncio.wait({work}, timeout=self._limits.cancel_seconds)
        if not work.done():
            logger.warning("Task %s: the agent ignores its cancellation and is left behind", run.key.task_id)
            await run.end(TaskState.CANCELED)

    async def stop(self, *, grace: float) -> None:
        """Let runs finish for a while, then cut the rest off; their tasks are taken up again by the next engine."""
        self._is_stopping = True
        self._queue.clear()
        if self._working and grace > 0:
            await asyncio.wait(set(self._working.values()), timeout=grace)
        remaining = set(self._working.values())
        for work in remaining:
            work.cancel()
        if remaining:
            await asyncio.wait(remaining, timeout=self._limits.cancel_seconds)
