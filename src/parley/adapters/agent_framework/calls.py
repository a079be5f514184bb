"""The model and tool calls of a run of Microsoft Agent Framework: recorded when they are finished, and replayed later.

It is middleware of the run, inside all other middleware. No tool is called before the response that asks for it is in
the log, and no model before what tools returned. A run that begins again gets what is recorded instead.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    ResponseStream,
)

from parley.adapters.adapter import Checkpoint, Piece, tool_call
from parley.adapters.piece_queue import PieceQueue
from parley.protocol.jsonvalue import JsonObject, JsonValue


class RunRecord:
    """What the states of a task say of its calls, and what the calls of its run add to that."""

    def __init__(self, states: tuple[JsonValue, ...], answers: JsonObject) -> None:
        self.pause: Any = None
        self.answers: JsonObject = {}
        self.responses: deque[Any] = deque()
        self.results: defaultdict[str, deque[Any]] = defaultdict(deque)  # some models use an id more than once
        for state in states:
            match state:
                case {"requests": _}:
                    self.pause, self.answers = state, {}
                    self.responses.clear()
                    self.results.clear()
                case {"answers": dict(given)}:
                    self.answers = given
                case {"response": response}:
                    self.responses.append(response)
                case {"call": str(id), "result": result}:
                    self.results[id].append(result)
                case _:
                    pass
        self.answers = answers or self.answers
        self.queue = PieceQueue()
        self.is_replaying = False
        self.model_calls = 0
        self._unrecorded: list[Piece] = []
        self._is_recorded = asyncio.Event()
        self._is_recorded.set()

    def note_response(self, response: ChatResponse[Any]) -> None:
        """Note what a model said. It is recorded when something follows it."""
        contents = [content for message in response.messages for content in message.contents]
        calls = [content for content in contents if content.type == "function_call"]
        shown = [tool_call(call.name or "tool", call.parse_arguments()) for call in calls]
        self._unrecorded = [*shown, Checkpoint({"response": response.to_dict()})]

    async def record_response(self) -> None:
        """Wait until the last response is in the log."""
        if self._unrecorded:
            pieces, self._unrecorded = self._unrecorded, []
            self._is_recorded = self.queue.put(*pieces)
        await self._is_recorded.wait()


class ReplayModels(ChatMiddleware):
    """Gives recorded responses first, and then records what the model says."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Answer one model call."""
        record = self._record
        await record.record_response()
        record.model_calls += 1
        record.is_replaying = bool(record.responses)
        if record.is_replaying:
            updates = ChatResponse.from_dict(record.responses.popleft()).to_updates()
            output_format = (context.options or {}).get("response_format")
            finish = partial(ChatResponse.from_updates, output_format_type=output_format)
            context.result = ResponseStream(_each(updates), finalizer=finish)
        else:
            await call_next()
            context.stream_result_hooks.append(record.note_response)


class ReplayTools(FunctionMiddleware):
    """Gives recorded results instead of calling a tool again, and records the others."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Answer one tool call."""
        record, id = self._record, str(context.metadata["call_id"])
        await record.record_response()
        if record.results[id]:
            known = record.results[id].popleft()
            context.result = known if isinstance(known, str) else [Content.from_dict(item) for item in known]
            return
        await call_next()
        result: Any = context.result
        is_contents = isinstance(result, list) and all(isinstance(item, Content) for item in result)
        saved = [item.to_dict() for item in result] if is_contents else str(result)
        await record.queue.put(Checkpoint({"call": id, "result": saved})).wait()


async def _each(updates: list[ChatResponseUpdate]) -> AsyncIterator[ChatResponseUpdate]:
    for update in updates:
        yield update
