"""A server on a real port that speaks OpenAI's chat completions, streamed, and answers as a test tells it.

    async with OpenAiServer() as server:                     # or a plain `with`, in tests without an event loop
        server.script(Failure(429, retry_after=2), Reply("Hel", "lo"))
        … call `server.base_url` …
        assert server.requests[1].prompt == "Hi"

`script` queues answers; when none is left, the function of `answer_with` chooses one. A `Reply` consists of pieces of
text, of gates that hold it until the test opens them, and of `CUT`, which breaks the connection. The server runs in a
thread of its own, so that it answers while the test's loop, or the test itself, waits for something else.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

SECONDS = 60
"""How long anything is waited for: only a test that fails waits this long."""


class Cut:
    """Where a reply breaks off: the connection is closed in the middle of the stream."""


CUT = Cut()


class Gate:
    """Holds a reply until it is opened, from any thread."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        """Let the reply go on."""
        if not self._opened.done():
            self._opened.set_result(None)

    async def passed(self) -> None:
        """Wait until it is open."""
        await asyncio.shield(asyncio.wrap_future(self._opened))


class Reply:
    """A streamed answer: text piece by piece, gates and cuts. `cached` tokens are part of `input_tokens`."""

    def __init__(
        self, *steps: str | Gate | Cut, input_tokens: int = 11, output_tokens: int = 7, cached: int = 0
    ) -> None:
        self.steps = steps
        self.usage = {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


@dataclass(frozen=True)
class Failure:
    """An error response in OpenAI's shape."""

    status: int
    message: str = "It failed."
    code: str | None = None
    retry_after: int | None = None


@dataclass(frozen=True)
class RawReply:
    """Any body, for what `Reply` cannot say, and for providers with a protocol of their own."""

    body: str
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_cut: bool = False
    """Whether the connection is closed before the end of the response."""


Answer: TypeAlias = Reply | Failure | RawReply


@dataclass
class ReceivedRequest:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    """By names in lower case."""
    body: Any
    left: Future[None] = field(default_factory=Future[None])
    """Done when the client closed the connection before the end of the reply."""

    @property
    def model(self) -> str:
        return self.body["model"]

    @property
    def system(self) -> str:
        """The system prompt; empty if there is none."""
        return next((message["content"] for message in self.body["messages"] if message["role"] == "system"), "")

    @property
    def prompt(self) -> str:
        """The last message."""
        return self.body["messages"][-1]["content"]

    async def client_left(self) -> None:
        """Wait until the client has closed the connection."""
        await asyncio.wait_for(asyncio.wrap_future(self.left), SECONDS)


class OpenAiServer:
    """`requests` holds what was received, oldest first. `base_url` ends with `/v1`."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.base_url = ""
        self._answers: deque[Answer] = deque()
        self._choose: Callable[[ReceivedRequest], Answer] | None = None
        self._waiting: list[tuple[int, Future[None]]] = []
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    # --- what a test tells it -----------------------------------------------------------------------------------------

    def script(self, *answers: Answer) -> None:
        """Queue answers, one per request."""
        with self._lock:
            self._answers.extend(answers)

    def answer_with(self, choose: Callable[[ReceivedRequest], Answer]) -> None:
        """Answer by a function of the request when no scripted answer is left."""
        self._choose = choose

    async def received(self, count: int) -> ReceivedRequest:
        """Wait for the request with this number, counted from 1."""
        await asyncio.wait_for(asyncio.wrap_future(self._arrival(count)), SECONDS)
        return self.requests[count - 1]

    def wait_received(self, count: int) -> ReceivedRequest:
        """The same, in a test without an event loop."""
        self._arrival(count).result(SECONDS)
        return self.requests[count - 1]

    def _arrival(self, count: int) -> Future[None]:
        arrival: Future[None] = Future()
        with self._lock:
            if len(self.requests) >= count:
                arrival.set_result(None)
            else:
                self._waiting.append((count, arrival))
        return arrival

    # --- its life -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.base_url = f"http://{host}:{port}/v1"

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer):
                    pass
            writer.close()  # what is written is still sent
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._connections.discard(task)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its reply; whether the connection stays open."""
        line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value for name, _, value in (header.partition(": ") for header in rest)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = ReceivedRequest(line.split(" ")[1], headers, json.loads(body) if body else None)
        match self._answer(request):
            case Reply() as reply:
                return await self._stream(reply, request, reader, writer)
            case Failure() as failure:
                error = {"message": failure.message, "type": "error", "param": None, "code": failure.code}
                extra = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
                _write_head(writer, failure.status, "application/json", extra)
                _write_chunk(writer, json.dumps({"error": error}))
            case RawReply() as raw:
                _write_head(writer, 200, raw.content_type, raw.headers)
                _write_chunk(writer, raw.body)
                if raw.is_cut:
                    return False
        _write_chunk(writer, "")
        await writer.drain()
        return True

    def _answer(self, request: ReceivedRequest) -> Answer:
        with self._lock:
            self.requests.append(request)
            count = len(self.requests)
            due = [arrival for number, arrival in self._waiting if number <= count]
            self._waiting = [(number, arrival) for number, arrival in self._waiting if number > count]
            scripted = self._answers.popleft() if self._answers else None
        for arrival in due:
            arrival.set_result(None)
        if scripted is not None:
            return scripted
        return self._choose(request) if self._choose else Failure(500, f"The test has no answer to request {count}.")

    async def _stream(
        self, reply: Reply, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        _write_head(writer, 200, "text/event-stream", {"Connection": "close"})
        _write_event(writer, request, {"role": "assistant", "content": ""})
        leaving = asyncio.ensure_future(reader.read(1))  # a client sends nothing more: it ends when the client leaves
        try:
            for step in reply.steps:
                match step:
                    case str():
                        _write_event(writer, request, {"content": step})
                    case Gate():
                        if await _opened_before(step, leaving):
                            continue
                        request.left.set_result(None)
                        return False
                    case Cut():
                        await writer.drain()
                        writer.transport.abort()
                        return False
            _write_event(writer, request, {}, finish="stop")
            _write_event(writer, request, None, usage=reply.usage)
            _write_chunk(writer, "data: [DONE]\n\n")
            _write_chunk(writer, "")
            await writer.drain()
        finally:
            leaving.cancel()
        return False


async def _opened_before(gate: Gate, leaving: asyncio.Future[bytes]) -> bool:
    """Whether a gate opens before the client leaves."""
    opening = asyncio.ensure_future(gate.passed())
    try:
        await asyncio.wait({opening, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return opening.done()
    finally:
        opening.cancel()


def _write_head(
    writer: asyncio.StreamWriter, status: int, content_type: str, extra: Mapping[str, str] | None = None
) -> None:
    headers = {"Content-Type": content_type, "Transfer-Encoding": "chunked", **(extra or {})}
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode())


def _write_chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _write_event(
    writer: asyncio.StreamWriter,
    request: ReceivedRequest,
    delta: dict[str, str] | None,
    *,
    finish: str | None = None,
    usage: Mapping[str, Any] | None = None,
) -> None:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": request.model,
        "choices": choices,
        "usage": usage,
    }
    _write_chunk(writer, f"data: {json.dumps(chunk)}\n\n")
