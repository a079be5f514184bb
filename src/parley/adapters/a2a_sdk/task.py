"""A task that an executor of a2a-sdk works on. Its events are A2A already, so they go into the log as they are.

An executor cannot go on in the middle: after a crash `execute` is called again, and after an answer with the answer.
Each call is a step of the turn, so a call that has ended is not repeated. An executor that begins again makes new
random ids for its artifacts; they are told apart by their order and get ids that stay the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import count

from a2a.server.agent_execution import AgentExecutor

from parley.adapters.a2a_sdk.call_record import CallRecord
from parley.adapters.a2a_sdk.context import request_context, sdk
from parley.adapters.a2a_sdk.executed_events import ExecutedEvents
from parley.adapters.a2a_sdk.execution import Execution
from parley.adapters.a2a_sdk.known_task import ExecutorEvent
from parley.agents.replies import message_of
from parley.agents.turn import Turn, run_of
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.messages import Message, TextPart
from parley.protocol.tasks import Task, TaskState, TaskStatus

REPLY_SECONDS = 0.5
"""How long an executor may take for a reply without a task; then the task is stored. Until it is, no caller can see or
cancel it, and a crash forgets it."""


class ExecutedTask:
    """One task."""

    def __init__(self, executor: AgentExecutor, turn: Turn) -> None:
        self._executor, self._turn, self._run = executor, turn, run_of(turn)
        self._log = ExecutedEvents(turn)

    async def work(self) -> None:
        """Call `execute` for the message, and again for every answer."""
        message = self._turn.message
        for number in count(1):
            self._log.add_message(message)
            try:
                last = await self._call(number, message)
            except Exception as error:
                if (refusal := sdk.refusal(error)) is None:
                    raise
                await self._turn.reject(refusal)
            match last:
                case None:
                    return
                case Message():
                    await self._turn.reply(last)
                case StatusUpdate(status=TaskStatus(state, asked)) if is_interrupted(state):
                    question = asked.parts if asked else (TextPart("Please answer."),)
                    own = message_of(self._run, (asked,)) if asked else None
                    message = await self._run.ask(state, question, last.metadata, message=own)
                    self._log.add_question(last)
                case StatusUpdate(status=TaskStatus(state, said)):
                    self._turn.annotate(last.metadata)
                    await self._turn.end(state, *([said] if said else []))

    # --- one call -----------------------------------------------------------------------------------------------------

    async def _call(self, number: int, message: Message) -> Message | StatusUpdate | None:
        """Emit what a call of `execute` says, and return the message, question or final state with which it ends."""
        step = self._run.steps.begin(f"execute {number}", "stream")
        if step.recorded is not None:
            record = CallRecord.read(step.recorded[0])
            step.forget()
            await self._log.repeat(record)
            return record.last
        record = CallRecord()
        events = self._events(message, self._log.task() if number > 1 else None)
        try:
            first = await self._first_of(events) if self._run.is_undecided else None
            if isinstance(first, Message) and self._run.is_undecided:
                return first
            await step.prepare()
            self._run.emissions.expects_differences = True
            if first is not None:
                await self._log.emit(first, record)
            async for event in events:
                await self._log.emit(event, record)
            self._run.emissions.drop_left_overs()
            await step.record(record.as_json())
        finally:
            step.close()
            await events.aclose()
        return record.last

    async def _events(self, message: Message, known: Task | None) -> AsyncGenerator[ExecutorEvent]:
        """What one call of `execute` says. If the task is cancelled, `cancel` is called and may say something, too."""
        run = self._run
        execution = Execution(self._executor, known)
        queue = sdk.Queue(execution.accept)
        execution.begin(await request_context(self._turn, run.configuration, message, known), queue)
        try:
            async for event in execution.events():
                yield event
        finally:
            if self._turn.cancelled:
                context = await request_context(self._turn, run.configuration, message, self._log.task())
                last_words = await execution.cancel(context, queue)
                if last_words is not None and run.is_cancelled:
                    await self._turn.end(TaskState.CANCELED, last_words)
            elif execution.goes_on:
                run.engine.in_background(execution.let_go_on(run.engine.limits.run_seconds))
            else:
                await execution.stop()

    async def _first_of(self, events: AsyncGenerator[ExecutorEvent]) -> ExecutorEvent | None:
        """The first event, which may be a reply without a task. If it takes long, the task is stored meanwhile."""
        run = self._run
        if run.program.replies_directly:
            return await anext(events, None)
        timer = run.loop.call_later(REPLY_SECONDS, run.need_task)
        try:
            return await anext(events, None)
        finally:
            timer.cancel()
