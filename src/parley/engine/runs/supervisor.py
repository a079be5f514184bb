"""The supervisor of runs: starts and cancels them, limits their number, and ends every task in a state that says why.

Each run has an asyncio task of its own, so it continues when its caller disconnects. However a program ends (done,
paused, with an exception, cancelled, overdue, or because the store failed), its task gets a state that says so, and
`_close` is called once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context

from msgspec import Struct

from parley.engine.clock import Clock, NewId
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.runs.emissions import LimitExceededError
from parley.engine.runs.run import QuestionForbiddenError, Run, Stopped
from parley.engine.runs.watchdog import RUN_NAME
from parley.protocol.errors import ParleyError, RateLimitedError, UnavailableError
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey

logger = logging.getLogger(__name__)

RESTARTING = "The agent is restarting; try again in a moment"


class _AgentRuns(Struct):
    """One agent's runs: how many work, and those that wait, each with the context variables of its sender."""

    working: int = 0
    queue: dict[Run, Context] = {}


class Supervisor:
    """All runs of one engine. `on_end` is called with each run when it is over."""

    def __init__(
        self,
        *,
        limits: Limits,
        clock: Clock,
        new_id: NewId,
        on_end: Callable[[Run], None],
        observer: Observer | None = None,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._new_id = new_id
        self._on_end = on_end
        self._observer = observer
        self._runs: dict[TaskKey, Run] = {}
        self._working: dict[Run, asyncio.Task[None]] = {}
        self._of_agent: dict[str, _AgentRuns] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Future[None] | None = None
        self._timekeeper: asyncio.Task[None] | None = None
        self._is_stopping = False

    def find(self, key: TaskKey) -> Run | None:
        """The run of a task, working or waiting for its turn."""
        return self._runs.get(key)

    @property
    def all(self) -> tuple[Run, ...]:
        """All runs, working or waiting for their turn."""
        return tuple(self._runs.values())

    def run_of(self, task: asyncio.Task[object]) -> Run | None:
        """The run whose program works in an asyncio task. Any thread may call this."""
        return next((run for run, working in list(self._working.items()) if working is task), None)

    @property
    def working(self) -> int:
        """How many runs are at work."""
        return len(self._working)

    @property
    def is_stopping(self) -> bool:
        """Whether the engine stops, and accepts no more work."""
        return self._is_stopping

    @property
    def waiting(self) -> int:
        """How many runs wait for their turn."""
        return sum(waiting for _, waiting in self.by_agent().values())

    def by_agent(self) -> dict[str, tuple[int, int]]:
        """How many runs work and how many wait, for each agent that has any."""
        return {agent: (runs.working, len(runs.queue)) for agent, runs in self._of_agent.items()}

    @property
    def full_agents(self) -> frozenset[str]:
        """The agents that have so many runs that another one would not begin at once."""
        most = self._limits.runs_at_once
        return frozenset([agent for agent, runs in self._of_agent.items() if runs.working >= most])

    def check_capacity(self, agent: str) -> None:
        """Check that an agent may get more work.

        Raises:
            RateLimitedError: too many runs of the agent wait already.
            UnavailableError: the engine is stopping.
        """
        if self._is_stopping:
            raise UnavailableError(RESTARTING)
        runs = self._of_agent.get(agent)
        if runs is not None and len(runs.queue) >= self._limits.sends_waiting:
            raise RateLimitedError(f"{len(runs.queue)} messages wait already; try again later")

    def room(self, agent: str) -> int:
        """How many more runs of an agent would begin at once."""
        runs = self._of_agent.get(agent)
        return 0 if self._is_stopping else self._limits.runs_at_once - (0 if runs is None else runs.working)

    def start(self, run: Run) -> None:
        """Begin a run now, or when one of the others has ended."""
        self._runs[run.key] = run
        of_agent = self._runs_of(run.program.id)
        if self._is_stopping:
            self._cut_off(run)
        elif of_agent.working < self._limits.runs_at_once:
            self._begin(run, of_agent)
        else:
            run.is_queued = True
            of_agent.queue[run] = copy_context()

    def _runs_of(self, agent: str) -> _AgentRuns:
        runs = self._of_agent.get(agent)
        if runs is None:
            runs = self._of_agent[agent] = _AgentRuns()
        return runs

    def _begin(self, run: Run, of_agent: _AgentRuns) -> None:
        run.is_queued = run.program.waits_for_turn and not run.starts_at_once
        of_agent.working += 1
        self._working[run] = run.loop.create_task(self._work(run), name=f"{RUN_NAME}{run.key.task_id}")
        self._set_deadline(run)

    def _set_deadline(self, run: Run) -> None:
        if self._limits.run_seconds is not None:
            run.deadline = self._clock.monotonic() + self._limits.run_seconds
            if self._timekeeper is None:
                self._timekeeper = run.loop.create_task(self._keep_time())

    def left_queue(self, run: Run) -> None:
        """Count the time of a run from now on, because it has waited until now."""
        if run in self._working:
            self._working[run] = self._working.pop(run)  # so that deadlines stay in order
            self._set_deadline(run)

    async def _keep_time(self) -> None:
        """Cancel runs that take too long. One timer is enough, because the deadlines of those at work are in order."""
        while run := next((run for run in self._working if not (run.is_overdue or run.is_queued)), None):
            left = run.deadline - self._clock.monotonic()
            if left > 0:
                del run  # it may end, and be freed, long before
                await self._clock.sleep(left)
            else:
                run.is_overdue = True
                if not run.is_cancelled:  # otherwise it is ending already
                    self._in_background(self._end_overdue(run, self._working[run]))
        self._timekeeper = None

    async def _end_overdue(self, run: Run, work: asyncio.Task[None]) -> None:
        """Cancel a run that takes too long, and fail its task whether its program ends or not."""
        if not await self._cancel_work(run, work):
            await self._finish(run.fail(self._overdue))
            self._close(run)

    @property
    def _overdue(self) -> str:
        return f"The agent took longer than {self._limits.run_seconds:g} seconds."

    async def _cancel_work(self, run: Run, work: asyncio.Task[None], seconds: float | None = None) -> bool:
        """Cancel a run's program. Return True if it ended its task within the time for cleaning up."""
        work.cancel()
        await asyncio.wait({work}, timeout=self._limits.cancel_seconds if seconds is None else seconds)
        if not work.done():
            logger.warning(
                "Task %s: the agent ignores its cancellation; its task ends without it",
                run.key.task_id,
                extra=run.log_fields,
            )
        return work.done() and run.is_closed

    # --- how runs end -------------------------------------------------------------------------------------------------

    async def _work(self, run: Run) -> None:
        """Run the program and end its task, whatever the program raises."""
        try:
            if not run.starts_at_once:
                await run.wait_until_stored()
            if not run.program.waits_for_turn:
                run.start_working()
            run.has_begun = True
            if self._observer is None:
                await run.program.run(run)
            else:
                with self._observer.run(run):
                    await run.program.run(run)
            run.finish(TaskState.COMPLETED)
        except KeyboardInterrupt:
            raise
        except Stopped:
            pass
        except asyncio.CancelledError as error:
            if run.is_cancelled or run.is_cut_off or run.failure is not None:
                pass
            elif run.is_overdue:
                await self._finish(run.fail(self._overdue))
            else:  # a cancellation of the handler's own
                await self._fail_for(run, error)
        except (LimitExceededError, QuestionForbiddenError) as error:
            logger.error("Task %s: %s", run.key.task_id, error, extra=run.log_fields)
            await self._finish(run.fail(f"{error.message}."))
        except BaseExceptionGroup as group:
            # A handler that asks from inside a task group is stopped there, and the group says so.
            if group.split(Stopped)[1] is not None:
                await self._fail_for(run, group)
        except BaseException as error:  # also what libraries raise that is not an Exception
            if error is not run.failure:
                await self._fail_for(run, error)
        finally:
            self._work_ended(run)

    async def _fail_for(self, run: Run, error: BaseException) -> None:
        """Fail a task because its program raised: the traceback goes into the log, a reference to the caller.

        If the run is being stopped, the exception is only logged.
        """
        if run.is_abandoned:
            return
        reference = self._new_id()
        logger.error(
            "Task %s: the agent failed (reference %s)",
            run.key.task_id,
            reference,
            exc_info=error,
            extra={**run.log_fields, "reference": reference},
        )
        if not (run.is_cancelled or run.is_cut_off):
            await self._finish(run.fail(f"The agent failed. Reference: {reference}"))

    async def _finish(self, ending: Awaitable[None]) -> None:
        """Write the final state. If the store refuses, the task is failed when it takes writes again."""
        with contextlib.suppress(ParleyError):
            await ending

    def _work_ended(self, run: Run) -> None:
        if run.is_cut_off:
            self._cut_off(run)
        elif run.is_closed or not run.is_cancelled:  # otherwise `_cancel` ends it
            run.when_settled(self._close)

    def _close(self, run: Run) -> None:
        """Remove a run, wake everything that waits for its end, and start the next one."""
        if run.is_over:
            return
        run.close()
        of_agent = self._runs_of(run.program.id)  # none, if it was canceled while it was the only one to wait
        if self._working.pop(run, None) is not None:
            of_agent.working -= 1
        of_agent.queue.pop(run, None)
        if self._runs.get(run.key) is run:
            del self._runs[run.key]
        self._on_end(run)
        run.notify_end()
        while of_agent.queue and not self._is_stopping and of_agent.working < self._limits.runs_at_once:
            first = next(iter(of_agent.queue))
            of_agent.queue.pop(first).run(self._begin, first, of_agent)
        if not (of_agent.working or of_agent.queue):
            del self._of_agent[run.program.id]
        if self._idle is not None and not self._working and not self._idle.done():
            self._idle.set_result(None)

    # --- ending runs from outside -------------------------------------------------------------------------------------

    async def cancel(self, run: Run, *, seconds: float | None = None) -> None:
        """Cancel a run, wherever it is, and return when its task is canceled.

        If the handler does not end within `seconds`, by default `cancel_seconds` of the limits, the task ends without
        it, and what it emits is ignored.

        Raises:
            UnavailableError: the store refused; the task is failed when it takes writes again.
        """
        if not (run.is_cancelled or run.is_overdue):
            run.is_cancelled = True
            self._runs_of(run.program.id).queue.pop(run, None)  # now: its turn may come while the end is being written
            self._in_background(self._cancel(run, seconds))
        await run.wait_for_end()
        if run.failure is not None:
            raise run.failure

    async def _cancel(self, run: Run, seconds: float | None) -> None:
        work = self._working.get(run)
        if work is None or not await self._cancel_work(run, work, seconds):
            has_worked = run.has_begun and not run.is_queued
            await self._finish(run.end(TaskState.CANCELED))
            self._close(run)
            if not has_worked and run.journal.is_replayed and run.failure is None:
                # What earlier runs have begun elsewhere is known to the program alone, which this run did not reach.
                run.engine.in_background(run.program.release(run.engine, run.key))

    def give_up(self, run: Run) -> None:
        """Stop a run of which nothing more can be stored. Its program is cancelled, and nothing waits for it."""
        work = self._working.get(run)
        if work is not None:
            work.cancel()
            self._endings.add(work)
            work.add_done_callback(self._endings.discard)
        self._close(run)

    def stop_accepting(self) -> None:
        """Accept no more work."""
        self._is_stopping = True

    async def stop(self, *, grace: float, hands_on: bool = False) -> None:
        """Give runs some seconds to finish, then cut the rest off; return when all that they wrote is settled.

        The next engine continues their tasks. With `hands_on`, others are there already: they get at once what has
        not begun.
        """
        self.stop_accepting()
        for run in [run for runs in self._of_agent.values() for run in runs.queue]:
            self._cut_off(run)
            if hands_on:
                self._in_background(run.hand_on())
        if hands_on:
            await self._cut_off_all([run for run in self._working if run.is_queued])
        if self._working and grace > 0:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._idle}, timeout=grace)
        if self._timekeeper is not None:
            self._timekeeper.cancel()
        await self._cut_off_all(list(self._working))
        if self._endings:
            await asyncio.wait(set(self._endings), timeout=self._limits.cancel_seconds)

    async def _cut_off_all(self, runs: list[Run]) -> None:
        """Cut off runs whose programs are at work, and hand their tasks on."""
        works = {self._working[run] for run in runs}
        for run in runs:
            run.is_cut_off = True
            self._working[run].cancel()
        if works:
            await asyncio.wait(works, timeout=self._limits.cancel_seconds)
        for run in runs:
            self._cut_off(run)
            self._in_background(run.hand_on())

    def _cut_off(self, run: Run) -> None:
        """End a run without ending its task. The next engine continues it, and waiting callers are told to retry."""
        run.is_cut_off = True
        if not (run.is_closed and run.is_settled):  # also one whose end is still being written: it may not be kept
            run.abort(self.restart_error(run.key.task_id if run.is_stored else None))
        self._close(run)

    def restart_error(self, task_id: str | None) -> UnavailableError:
        """The error for callers that wait while the engine stops. It names the task if the task is stored."""
        if task_id is None:
            return UnavailableError(RESTARTING)
        details = {"taskId": task_id}
        if not self._limits.idempotency_seconds:
            return UnavailableError("The agent is restarting and goes on with the task then", details=details)
        return UnavailableError(
            "The agent is restarting and goes on with the task then; the same message sent again gets the same task",
            details=details,
        )

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
