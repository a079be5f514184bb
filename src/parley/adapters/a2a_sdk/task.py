"""A task that an executor of a2a-sdk works on. Its events are A2A already, so they go into the log as they are.

An executor cannot go on in the middle: after a crash `execute` is called again, and after an answer with the answer.
Each call is a stream of the turn, so a call that has ended is not repeated. An executor that begins again makes new
random ids for its artifacts; they are told apart by their order and get ids that stay the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from itertools import count

from a2a.server.agent_execution import AgentExecutor
from msgspec import structs

from parley.adapters.a2a_sdk.artifact_ids import StableIds
from parley.adapters.a2a_sdk.context import request_context, sdk
from parley.adapters.a2a_sdk.execution import Execution, ExecutorEvent
from parley.agents.replies import message_of
from parley.agents.turn import Turn, run_of
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.lifecycle import ends_stream, fold, is_interrupted
from parley.protocol.messages import Message, TextPart
from parley.protocol.tasks import Task, TaskState, TaskStatus


class ExecutedTask:
    """One task. `_log` is what has happened in it, for `current_task`."""

    def __init__(self, executor: AgentExecutor, turn: Turn) -> None:
        self._executor, self._turn, self._run = executor, turn, run_of(turn)
        self._ids = turn.task_id, self._run.context_id
        self._log: list[TaskEvent] = [TaskCreated(*self._ids, TaskStatus(TaskState.SUBMITTED))]
        self._artifact_ids = StableIds(*self._ids)

    async def work(self) -> None:
        """Call `execute` for the message, and again for every answer."""
        message = self._turn.message
        for number in count(1):
            self._log.append(MessageAdded(*self._ids, message))
            events = self._events(message, fold(None, self._log) if number > 1 else None)
            try:
                last = await self._emit_all(f"execute {number}", events)
            except Exception as error:
                if (refusal := sdk.refusal(error)) is None:
                    raise
                await self._turn.reject(refusal)
            finally:
                await events.aclose()
            match last:
                case None:
                    return
                case Message():
                    await self._turn.reply(last)
                case StatusUpdate(status=TaskStatus(state, asked)) if is_interrupted(state):
                    question = asked.parts if asked else (TextPart("Please answer."),)
                    own = message_of(self._run, (asked,)) if asked else None
                    message = await self._run.ask(state, question, last.metadata, message=own)
                    self._log.append(StatusUpdate(*self._ids, last.status, last.metadata))
                case StatusUpdate(status=TaskStatus(state, said)):
                    self._turn.annotate(last.metadata)
                    await self._turn.end(state, *([said] if said else []))

    async def _events(self, message: Message, known: Task | None) -> AsyncGenerator[ExecutorEvent]:
        """What one call of `execute` says. If the task is cancelled, `cancel` is called and may say something, too."""
        configuration = self._run.configuration
        execution = Execution(self._executor, known)
        queue = sdk.Queue(execution.accept)
        execution.begin(await request_context(self._turn, configuration, message, known), queue)
        try:
            async for event in execution.events():
                yield event
        finally:
            if self._turn.cancelled:
                context = await request_context(self._turn, configuration, message, fold(None, self._log))
                last_words = await execution.cancel(context, queue)
                if last_words is not None and self._run.is_cancelled:
                    await self._turn.end(TaskState.CANCELED, last_words)
            else:
                await execution.stop()

    async def _emit_all(self, name: str, events: AsyncGenerator[ExecutorEvent]) -> Message | StatusUpdate | None:
        """Emit what comes, and return the message, question or final state with which the call ends."""
        first = await anext(events, None) if self._run.is_undecided else None
        if isinstance(first, Message):
            await self._turn.reply(first)

        async def call() -> AsyncIterator[ExecutorEvent]:
            if first is not None:
                yield first
            async for event in events:
                yield event

        last: Message | StatusUpdate | None = None
        async for event in self._turn.stream(name, call):
            match event:
                case ArtifactUpdate():
                    artifact = structs.replace(event.artifact, artifact_id=self._artifact_ids.of(event.artifact))
                    append = None if event.append else False  # None is False for the first chunk
                    await self._run.emissions.emit_chunk(artifact, append=append, last=event.last_chunk)
                    self._log.append(ArtifactUpdate(*self._ids, artifact, event.append, event.last_chunk))
                case StatusUpdate(status=status) if not ends_stream(status.state):
                    await self._report(status.message, event)
                case _:
                    last = event
        return last

    async def _report(self, said: Message | None, event: StatusUpdate) -> None:
        """Report progress. Metadata that comes without a message is the task's."""
        if said is None:
            self._turn.annotate(event.metadata)
            return
        await self._run.emissions.emit_status(said.parts, event.metadata, message_of(self._run, (said,)))
        status = TaskStatus(TaskState.WORKING, said, event.status.timestamp)
        self._log.append(StatusUpdate(*self._ids, status, event.metadata))
