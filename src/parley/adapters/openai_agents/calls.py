"""The model and tool calls of a run of the OpenAI Agents SDK, recorded when they are finished.

No tool is called before the response that asks for it is in the log, and no model before what tools returned. A run
that begins again gets what is recorded instead (`copies`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from agents import Agent, RunHooks, RunResultStreaming
from parley.adapters.adapter import Checkpoint, Piece
from parley.adapters.openai_agents.items import encode_output, encode_response, pieces_in
from parley.adapters.piece_queue import PieceQueue
from parley.protocol.jsonvalue import JsonObject, JsonValue

TEXT = ("response.output_text.delta", "response.refusal.delta")
"""The events with text that a caller reads."""


class RecordedCalls(RunHooks[Any]):
    """What the states of a task say of its calls, and what the calls of its run add to that."""

    def __init__(self, states: tuple[JsonValue, ...], answers: JsonObject) -> None:
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

    async def pieces_of(self, result: RunResultStreaming) -> AsyncIterator[Piece]:
        """Text, tool calls, files and checkpoints of a run, without what is replayed."""
        try:
            async with aclosing(self._queue.pieces_of(self._report(result))) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            if not result.is_complete:
                result.cancel()
            await asyncio.gather(*filter(None, [result.run_loop_task]), return_exceptions=True)

    async def _report(self, result: RunResultStreaming) -> None:
        speaker: Agent[Any] | None = None
        async for event in result.stream_events():
            if event.type == "agent_updated_stream_event":
                speaker = event.new_agent
            elif event.type == "raw_response_event" and event.data.type in TEXT:
                if speaker is None or speaker.output_type in (None, str):  # else it is JSON
                    self._queue.put(event.data.delta)
            elif event.type == "raw_response_event" and event.data.type == "response.completed":
                if self._replays:
                    self._replays -= 1
                else:
                    said = event.data.response
                    await self._queue.put(*pieces_in(said), Checkpoint({"response": encode_response(said)})).wait()
                self._is_response_recorded.set()

    async def on_llm_end(self, *arguments: Any) -> None:
        """Wait until the response is in the log. The SDK calls this before it calls tools."""
        await self._is_response_recorded.wait()
        self._is_response_recorded.clear()

    async def record_output(self, call_id: str, output: object) -> None:
        """Wait until what a tool returned is in the log."""
        await self._queue.put(Checkpoint({"call": call_id, "output": encode_output(output)})).wait()
