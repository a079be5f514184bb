"""A small agent of 1.0 over JSON-RPC without cursors and idempotent sends, as most agents are.

Its work goes on while nobody listens. How it behaves when somebody subscribes again is its `Manner`; all of them are
seen in the wild.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from parley.protocol.cards import AgentCapabilities, AgentCard, AgentInterface, Binding
from parley.protocol.versions import Version

CHUNKS = 12
MEANWHILE = 3
"""Chunks that are produced between a break and the next subscription."""


class Manner(Enum):
    """What a subscription gives."""

    REPEATS = auto()
    """The task, and then also chunks that are in it already, as a2a-sdk does."""
    SKIPS = auto()
    """No task, and only what happens from then on, as 0.3 has it."""
    CLOSES = auto()
    """The task, and the end of the stream."""
    HANGS = auto()
    """The task, and nothing more until its reader goes, as a2a-sdk before 1.0 does to who comes as the task ends."""
    REFUSES = auto()
    """An error: nobody may subscribe."""
    FORGETS = auto()
    """An error, and the task is gone."""


@dataclass(slots=True)
class _Work:
    id: str
    produced: int = 0

    @property
    def is_done(self) -> bool:
        return self.produced >= CHUNKS


@dataclass(slots=True)
class ForgetfulAgent:
    """An ASGI app. `sends` counts the messages by their text."""

    manner: Manner
    sends: Counter[str] = field(default_factory=Counter[str])
    _works: dict[str, _Work] = field(default_factory=dict[str, _Work])

    card = AgentCard(
        "Forgetful",
        "Remembers little",
        "1",
        (AgentInterface("http://unused/", Binding.JSONRPC, Version.V1_0),),
        AgentCapabilities(streaming=True),
    )

    @property
    def text(self) -> str:
        """What a finished task has said."""
        return "".join(_chunk(number) for number in range(CHUNKS))

    def begin(self, text: str, *, produced: int = 0) -> str:
        """Begin a task, and give its id."""
        self.sends[text] += 1
        work = _Work(f"task-{len(self._works)}", produced)
        self._works[work.id] = work
        return work.id

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        request = json.loads(body)
        params = request["params"]
        match request["method"]:
            case "SendMessage":
                work = self._works[self.begin(params["message"]["parts"][0]["text"])]
                work.produced = CHUNKS
                await _reply(send, request["id"], result={"task": self._task(work)})
            case "SendStreamingMessage":
                work = self._works[self.begin(params["message"]["parts"][0]["text"])]
                await self._stream(receive, send, request["id"], work, [{"task": self._task(work)}])
            case "GetTask" if params["id"] in self._works and self.manner is not Manner.FORGETS:
                work = self._works[params["id"]]
                await _reply(send, request["id"], result=self._task(work))
                work.produced = min(work.produced + 1, CHUNKS)
            case "SubscribeToTask" if self.manner not in (Manner.REFUSES, Manner.FORGETS):
                await self._subscribe(receive, send, request["id"], self._works[params["id"]])
            case "GetTask":
                await _reply(send, request["id"], error={"code": -32001, "message": "Task not found"})
            case _:
                await _reply(send, request["id"], error={"code": -32004, "message": "Unsupported"})

    async def _subscribe(self, receive: Any, send: Any, id: Any, work: _Work) -> None:
        work.produced = min(work.produced + MEANWHILE, CHUNKS)
        if work.is_done:
            await _reply(send, id, error={"code": -32004, "message": "The task has ended"})
            return
        opening: list[Any] = [{"task": self._task(work)}]
        match self.manner:
            case Manner.REPEATS:
                opening += [_update(work, number) for number in range(max(work.produced - 2, 0), work.produced)]
            case Manner.SKIPS:
                opening = []
            case _:
                await _open(send)
                await _frame(send, id, opening[0])
                if self.manner is Manner.HANGS:
                    await receive()
                await send({"type": "http.response.body", "body": b""})
                return
        await self._stream(receive, send, id, work, opening)

    async def _stream(self, receive: Any, send: Any, id: Any, work: _Work, opening: list[Any]) -> None:
        """Say what is there, and work until it is done or nobody listens."""
        await _open(send)
        gone = asyncio.ensure_future(receive())
        try:
            for event in opening:
                await _frame(send, id, event)
            while not work.is_done and not gone.done():
                work.produced += 1
                await _frame(send, id, _update(work, work.produced - 1))
                await asyncio.sleep(0)
            if work.is_done:
                status = {"taskId": work.id, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
                await _frame(send, id, {"statusUpdate": status})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()

    def _task(self, work: _Work) -> Any:
        state = "TASK_STATE_COMPLETED" if work.is_done else "TASK_STATE_WORKING"
        parts = [{"text": _chunk(number)} for number in range(work.produced)]
        artifacts = [{"artifactId": "a", "parts": parts}] if parts else []
        return {"id": work.id, "contextId": "c", "status": {"state": state}, "artifacts": artifacts}


def _chunk(number: int) -> str:
    """Every third chunk is the same, so that an old one cannot be told from a new one by its text."""
    return "na " if number % 3 == 2 else f"{number} "


def _update(work: _Work, number: int) -> Any:
    artifact = {"artifactId": "a", "parts": [{"text": _chunk(number)}]}
    return {"artifactUpdate": {"taskId": work.id, "contextId": "c", "artifact": artifact, "append": number > 0}}


async def _reply(send: Any, id: Any, **members: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": id, **members}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _open(send: Any) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _frame(send: Any, id: Any, event: Any) -> None:
    frame = b"data: " + json.dumps({"jsonrpc": "2.0", "id": id, "result": event}).encode() + b"\n\n"
    await send({"type": "http.response.body", "body": frame, "more_body": True})
