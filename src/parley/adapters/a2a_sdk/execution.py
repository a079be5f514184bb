"""One call of an executor's `execute`, and the events that come of it.

A message, a question and a final state count when `execute` has ended. If something follows a message or a question, it
was only a report of progress; what follows a final state is dropped. As in the SDK, a message or a final state stands
whatever `execute` does after it: an error is logged, and an `execute` that does not return goes on without the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue

from parley.adapters.a2a_sdk.known_task import ExecutorEvent
from parley.adapters.a2a_sdk.last_events import is_final, may_be_last, progress, stands
from parley.adapters.a2a_sdk.pending_events import PendingEvents
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState

HELD_SECONDS = 1.0
"""How long `execute` may run after a message or a final state before the task ends without it. A request for
authorization is shown after this time if `execute` still runs: it may continue by itself once that is given."""

CLEANUP_SECONDS = 2.0
"""`cancel` may take this long, and then `execute` may; the engine allows five seconds for both."""

_EXITS = (SystemExit, KeyboardInterrupt)
"""asyncio raises these out of its event loop, which would end the server."""

logger = logging.getLogger(__name__)


class Execution:
    """One call of `execute`. `known` is the task as the executor is given it."""

    def __init__(self, executor: AgentExecutor, known: Task | None) -> None:
        self._executor = executor
        self._pending = PendingEvents(known)
        self.accept = self._pending.put
        self._has_spoken = False

    def begin(self, context: RequestContext, queue: EventQueue) -> None:
        """Call `execute`, in an asyncio task of its own."""
        self._task_id = context.task_id
        self._work = asyncio.ensure_future(self._execute(context, queue))
        self._work.add_done_callback(self._note_end)

    async def _execute(self, context: RequestContext, queue: EventQueue) -> None:
        try:
            await self._executor.execute(context, queue)
        except _EXITS as error:
            raise LocalProtocolError(f"The executor's execute() raised {error!r}") from error

    def _note_end(self, work: asyncio.Future[None]) -> None:
        self._pending.complete()
        if not work.cancelled():
            work.exception()  # asyncio logs those that nothing has asked for

    async def events(self) -> AsyncIterator[ExecutorEvent]:
        """What the executor says; what counts at the end comes last. Raises what `execute` raises."""
        held: StatusUpdate | Message | None = None
        is_shown = False
        while not is_final(held):
            try:
                event = await self._pending.next(None if is_shown else _seconds_to_hold(held))
            except TimeoutError:
                if held is None or stands(held):
                    break
                is_shown = True
                yield progress(held)
                continue
            if event is None:
                if not stands(held):
                    await self._work
                break
            if held is not None and not is_shown:
                yield progress(held)
            held, is_shown = (event if may_be_last(event) else None), False
            if held is None:
                yield event
        if stands(held):
            self._has_spoken = True
            self._pending.close()
            self._work.add_done_callback(self._log_error)
            await asyncio.wait({self._work}, timeout=HELD_SECONDS if is_final(held) else 0)
        if held is not None:
            yield held

    @property
    def goes_on(self) -> bool:
        """Whether `execute` still runs, although the executor has said the last that counts."""
        return self._has_spoken and not self._work.done()

    async def let_go_on(self, seconds: float | None) -> None:
        """Return when `execute` has ended; after some seconds, cancel it."""
        try:
            await asyncio.wait({self._work}, timeout=seconds)
        finally:
            await self.stop()

    async def cancel(self, context: RequestContext, queue: EventQueue) -> Message | None:
        """Call the executor's `cancel`, then stop `execute`. Returns the message with which `cancel` ends the task."""
        self._pending.close(slows_down=False)
        try:
            if not self._work.done():
                async with asyncio.timeout(CLEANUP_SECONDS):
                    await self._executor.cancel(context, queue)
        except (Exception, *_EXITS) as error:
            logger.warning("Task %s: the executor's cancel() failed: %r", self._task_id, error)
        finally:
            await self.stop()
        return self._pending.said_at_end

    async def stop(self) -> None:
        """Cancel `execute` if it still runs."""
        self._pending.close()
        if self._work.done():
            return
        if not self._has_spoken:  # otherwise it is logged already
            self._work.add_done_callback(self._log_error)
        self._work.cancel()
        await asyncio.wait({self._work}, timeout=CLEANUP_SECONDS)
        if not self._work.done():
            logger.warning("Task %s: execute() ignores its cancellation; its events are dropped", self._task_id)

    def _log_error(self, work: asyncio.Future[None]) -> None:
        if not work.cancelled() and (error := work.exception()) is not None:
            logger.warning(
                "Task %s: execute() raised after its task had ended or was stopped", self._task_id, exc_info=error
            )


def _seconds_to_hold(held: StatusUpdate | Message | None) -> float | None:
    """How long something is held while `execute` runs. A question for input is held until it returns."""
    is_shown_later = isinstance(held, Message) or (held and held.status.state is TaskState.AUTH_REQUIRED)
    return HELD_SECONDS if is_shown_later else None
