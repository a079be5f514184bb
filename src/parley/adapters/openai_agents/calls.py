"""The model and tool calls of a run of the OpenAI Agents SDK, recorded when they are finished.

No tool is called before the response that asks for it is in the log, and no model before what tools returned. A run
that begins again gets what is recorded instead (`copies`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

from agents import Agent, RunHooks, RunResultStreaming
from parley.adapters.adapter import Checkpoint, Piece
from parley.adapters.openai_agents.items import encode_output, encode_response, pieces_in
from parley.adapters.piece_queue import PieceQueue
from parley.protocol.jsonvalue import JsonObject, JsonValue

TEXT = ("response.output_text.delta", "response.refusal.delta")
"""The events with text that a caller reads."""

PASSED_ON = ("on_llm_start", "on_agent_start", "on_agent_end", "on_handoff", "on_tool_start", "on_tool_end")
"""The hooks that are the author's alone."""


class RecordedCalls(RunHooks[Any]):
    """What the states of a task say of its calls, and what the calls of its run add to that."""

    def __init__(self, states: tuple[JsonValue, ...], answers: JsonObject, hooks: RunHooks[Any]) -> None:
        """`hooks` are the author's; the SDK takes only one object with hooks, which is this one."""
        self.run_state: Any = None
        self.answers: JsonObject = {}
        self.responses: deque[Any] = deque()
        self.outputs: dict[str, JsonValue] = {}
        for state in states:
            match state:
                case {"run": run}:
                    self.run_state, self.answers = run, {}
                    self.responses.clear()
                    self.outputs.clear()
                case {"answers": dict(given)}:
                    self.answers = given
                case {"response": response}:
                    self.responses.append(response)
                case {"call": str(id), "output": output}:
                    self.outputs[id] = output
                case _:
                    pass
        self.answers = answers or self.answers
        self._replays = len(self.responses)
        self._queue = PieceQueue()
        self._is_response_recorded = asyncio.Event()
        self._result: RunResultStreaming | None = None
        self._hooks = hooks
        for name in PASSED_ON:
            setattr(self, name, getattr(hooks, name))

    async def pieces_of(
        self, result: RunResultStreaming, is_streamed: Callable[[Agent[Any]], bool]
    ) -> AsyncIterator[Piece]:
        """Tool calls, files, checkpoints and the text of agents that is streamed, without what is replayed."""
        self._result = result
        try:
            async with aclosing(self._queue.pieces_of(self._report(result, is_streamed))) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            if not result.is_complete:
                result.cancel()
            await asyncio.gather(*filter(None, [result.run_loop_task]), return_exceptions=True)

    async def _report(self, result: RunResultStreaming, is_streamed: Callable[[Agent[Any]], bool]) -> None:
        async for event in result.stream_events():
            if event.type != "raw_response_event":
                continue
            if event.data.type in TEXT and is_streamed(result.current_agent):
                self._queue.put(event.data.delta)
            elif event.data.type == "response.completed":
                if self._replays:
                    self._replays -= 1
                else:
                    said = event.data.response
                    await self._queue.put(*pieces_in(said), Checkpoint({"response": encode_response(said)})).wait()
                self._is_response_recorded.set()

    async def on_llm_end(self, *arguments: Any) -> None:
        """Wait until the response is in the log. The SDK calls this before it calls tools."""
        await self._hooks.on_llm_end(*arguments)
        # An input guardrail that trips ends the stream, maybe before the response. The SDK then waits for this method.
        while not self._is_response_recorded.is_set() and not (self._result and self._result.is_complete):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_response_recorded.wait(), 0.05)
        self._is_response_recorded.clear()

    async def record_output(self, call_id: str, output: object) -> None:
        """Wait until what a tool returned is in the log."""
        await self._queue.put(Checkpoint({"call": call_id, "output": encode_output(output)})).wait()
