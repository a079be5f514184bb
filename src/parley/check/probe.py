"""One place of a server (an interface in a version) as cases see it: calls, raw requests, and samples of its answers.

Everything that is sent and received is recorded, without the caller's credentials. A probe is polite: it counts its
requests and stops at a bound, waits no longer than told, and in the end cancels what it has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from uuid import uuid4

import msgspec

from parley.check.reach import Reach
from parley.check.recording import Recorder
from parley.check.verdict import Broken, Exchange, Undecided, cut
from parley.client.errors import ClientError, TimedOutError
from parley.client.transport import Sent
from parley.dialects.json_errors import decode_error, decode_rest_error
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import encode_rest_request
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import (
    A2AError,
    ParleyError,
    PeerProtocolError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import ends_stream, is_interrupted, is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.wire import jsonrpc
from parley.wire.rest import build_path, encode_query

T = TypeVar("T")

MAX_EVENTS = 2000
"""Events of a stream that are read: an agent that says more is not what a check wants to hear to its end."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two looks at a task at work: an echo is quick, and a model is not to be pestered."""

SAYS_NOTHING = (UnauthenticatedError, PermissionDeniedError, RateLimitedError, UnavailableError)
"""Refusals that say nothing about the rule at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the check behaves."""

    timeout: float = 30.0
    """Seconds to wait for any answer. Agents that are slower leave their rules undecided."""
    max_requests: int = 150
    """Requests per place; a whole run needs about sixty."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The caller's own, credentials mostly."""
    text: str = "Hello"
    """What the agent is told."""
    webhook: str = "https://example.com/parley-check"
    """A webhook to register at finished tasks. It is never called by a server that keeps the rules."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a raw request: a JSON value, or the error that it reports."""

    exchange: Exchange
    value: JsonValue
    error: A2AError | None


class Probe:
    """A stranger at one place."""

    def __init__(
        self, card: AgentCard, interface: AgentInterface, version: Version, *, options: Options, reach: Reach
    ) -> None:
        """Raises ForbiddenTargetError if the card must not point there."""
        self.card = card
        self.interface = interface
        self.version = version
        self.binding = Binding(interface.binding)
        self.options = options
        self.recorder = Recorder(max_requests=options.max_requests, secret=options.headers)
        self.channel = reach.channel(self.recorder)
        self.transport = reach.connect(interface, version, self.channel)
        self._samples: dict[str, tuple[Any, list[Exchange]]] = {}
        self._started: dict[str, None] = {}
        self._kept: str | None = None

    @property
    def place(self) -> str:
        """Its name in reports."""
        return f"{self.version} {self.binding} {self.interface.url}"

    async def close(self) -> None:
        """Cancel what has not ended, and close the connections."""
        self._kept = None
        await self.tidy_up()
        await self.transport.close()
        await self.channel.close()

    async def tidy_up(self) -> None:
        """Cancel what was started and has not ended, as far as the server lets us; the sample is kept."""
        left = [task_id for task_id in self._started if task_id != self._kept]
        self.recorder.left = max(self.recorder.left, len(left))
        for task_id in left:
            del self._started[task_id]
            try:
                await self.call(ops.CANCEL_TASK, r.CancelTaskRequest(task_id, tenant=self.tenant))
            except ParleyError:
                continue  # it has ended, or cannot be cancelled: there is nothing more to do about it

    # --- what is sent -------------------------------------------------------------------------------------------------

    @property
    def tenant(self) -> str | None:
        """The tenant that the interface demands."""
        return self.interface.tenant

    @property
    def is_formless(self) -> bool:
        """Whether the specification fixes no form of errors here: 0.3 over HTTP+JSON and gRPC."""
        return self.version is Version.V0_3 and self.binding is not Binding.JSONRPC

    @property
    def required(self) -> tuple[str, ...]:
        """The extensions without which the agent does not answer."""
        return tuple(extension.uri for extension in self.card.capabilities.extensions if extension.required)

    @property
    def extension_header(self) -> str:
        """The header that lists extensions."""
        return "a2a-extensions" if self.version is Version.V1_0 else "x-a2a-extensions"

    def sent(self, *, anonymous: bool = False, extensions: str | None = None, **more: str) -> Sent:
        """What goes along with a request; `extensions` are listed instead of the required ones, `more` are headers."""
        headers: dict[str, str] = {"accept-encoding": "identity"} if self.binding is not Binding.GRPC else {}
        if self.version is not Version.V0_3:
            headers["a2a-version"] = self.version.value
        listed = ", ".join(self.required) if extensions is None else extensions
        if listed:
            headers[self.extension_header] = listed
        if not anonymous:
            headers.update({name.lower(): value for name, value in self.options.headers.items()})
        headers.update({name.replace("_", "-"): value for name, value in more.items()})
        return Sent(headers, timeout=self.options.timeout, quiet=self.options.timeout)

    def message(self, text: str | None = None, **fields: Any) -> Message:
        """A message with a fresh id."""
        return Message(f"check-{uuid4()}", Role.USER, (TextPart(text or self.options.text),), **fields)

    def request(self, message: Message | None = None, **configuration: Any) -> r.SendMessageRequest:
        """A send of a message that does not wait, where that can be said; in 0.1 the caller names the task."""
        message = message or self.message()
        names_task = self.version is Version.V0_1
        configuration.setdefault("return_immediately", not names_task)
        if names_task and message.task_id is None:
            message = msgspec.structs.replace(message, task_id=f"check-{uuid4()}")
        return r.SendMessageRequest(
            message, r.SendConfiguration(**configuration), tenant=self.tenant, caller_names_task=names_task
        )

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, request: r.Request, sent: Sent | None = None) -> Any:
        """Ask once. Raises what the transport raises, and Undecided when nothing comes in time."""
        exchange = self._grpc_exchange(operation, request)
        try:
            result = await self._in_time(self.transport.call(operation, request, sent or self.sent()))
        except ParleyError as error:
            if exchange is not None:
                exchange.received = f"{type(error).__name__}: {error}"
            raise
        if exchange is not None:
            exchange.received = cut(msgspec.json.encode(result).decode())
        if isinstance(result, Task) and operation is ops.SEND_MESSAGE:
            self.remember(result)
        return result

    async def refusal(self, operation: Operation, request: r.Request, sent: Sent | None = None) -> A2AError | None:
        """The error with which the server answers, or None if it answers with a result."""
        try:
            if operation.streams:
                async with aclosing(self.events(operation, request, sent)) as events:
                    async for event in events:
                        self.remember(event)
                        break
            else:
                await self.call(operation, request, sent)
        except A2AError as error:
            return error
        return None

    async def events(
        self, operation: Operation, request: r.Request, sent: Sent | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """The events of a stream, until the server closes it."""
        exchange = self._grpc_exchange(operation, request)
        number = 0
        async with aclosing(self.transport.stream(operation, request, sent or self.sent())) as received:
            while True:
                try:
                    event = (await self._in_time(anext(received))).event
                except StopAsyncIteration:
                    return
                if exchange is not None:
                    exchange.received = cut(f"{exchange.received}{msgspec.json.encode(event).decode()}\n")
                number += 1
                if number > MAX_EVENTS:
                    raise Undecided(f"the stream has more than {MAX_EVENTS} events")
                yield event

    async def stream(self) -> list[StreamEvent]:
        """Say something and read all that comes of it."""
        seen: list[StreamEvent] = []
        async with aclosing(self.events(ops.SEND_STREAMING_MESSAGE, self.request(return_immediately=False))) as events:
            async for event in events:
                self.remember(event)
                seen.append(event)
        return seen

    def _grpc_exchange(self, operation: Operation, request: r.Request) -> Exchange | None:
        """gRPC is recorded as what was meant: its bytes tell nobody anything."""
        if self.binding is not Binding.GRPC:
            return None
        return self.recorder.begin(f"gRPC {operation.name}\n\n{cut(msgspec.json.encode(request).decode())}")

    async def _in_time(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.options.timeout):
                return await answer
        except (TimeoutError, TimedOutError) as error:
            raise Undecided(f"nothing came within {self.options.timeout:g} seconds") from error

    def remember(self, event: Any) -> None:
        """Keep in mind what has to be cancelled in the end."""
        task_id = event.id if isinstance(event, Task) else getattr(event, "task_id", None)
        status = getattr(event, "status", None)
        if task_id and status is not None and is_terminal(status.state):
            self._started.pop(task_id, None)
        elif task_id and isinstance(event, Task):
            self._started[task_id] = None

    # --- raw requests -------------------------------------------------------------------------------------------------

    def members(self, operation: Operation, request: r.Request) -> JsonObject:
        """The JSON of a request: params of JSON-RPC, or the body of REST."""
        if self.binding is Binding.JSONRPC:
            return msgspec.json.decode(DIALECTS[self.version].encode_request(operation, request))
        return msgspec.json.decode(encode_rest_request(self.version, operation, request).body)

    async def raw(self, operation: Operation, members: JsonObject, sent: Sent | None = None) -> Answer:
        """Ask with JSON that the codecs would not write. Over REST, `id` goes into the path and the rest of a GET into
        the query."""
        if self.binding is Binding.JSONRPC:
            body = jsonrpc.encode_request(b'"raw-1"', operation.methods[self.version], msgspec.json.encode(members))
            return await self.post(body, sent, operation=operation)
        parameters = {"id": str(members["id"])} if "{id}" in operation.routes[self.version].path else {}
        rest = {name: value for name, value in members.items() if name not in parameters}
        verb, path = build_path(operation, self.version, parameters=parameters, tenant=self.tenant)
        url = f"{self.interface.url.rstrip('/')}{path}"
        if verb == "GET":
            query = encode_query(cast(Any, rest))
            return await self._exchange(verb, f"{url}?{query}" if query else url, b"", sent, operation)
        return await self._exchange(verb, url, msgspec.json.encode(rest), sent, operation)

    async def post(self, body: bytes, sent: Sent | None = None, *, operation: Operation | None = None) -> Answer:
        """Post bytes to a JSON-RPC endpoint."""
        return await self._exchange("POST", self.interface.url, body, sent, operation)

    async def _exchange(
        self, verb: str, url: str, body: bytes, sent: Sent | None, operation: Operation | None
    ) -> Answer:
        sent = sent or self.sent()
        headers = {
            "accept": "application/json",
            **sent.headers,
            **({"content-type": "application/json"} if body else {}),
        }
        await self._in_time(self.channel.exchange(verb, url, body, Sent(headers, timeout=sent.timeout)))
        answer = self._answer(self.recorder.exchanges[-1])
        if operation is ops.SEND_MESSAGE and answer.error is None:
            self._remember_raw(answer.value)
        return answer

    def _answer(self, exchange: Exchange) -> Answer:
        if self.binding is Binding.HTTP_JSON:
            if exchange.status >= 400:
                return Answer(exchange, None, decode_rest_error(exchange.status, exchange.body))
            return Answer(exchange, parsed(exchange.body), None)
        try:
            response = jsonrpc.decode_response(exchange.body)
        except PeerProtocolError as error:
            if exchange.status >= 400:
                return Answer(exchange, None, decode_rest_error(exchange.status, exchange.body))
            raise Broken(f"the answer is no JSON-RPC: {error}") from error
        if response.error is not None:
            return Answer(exchange, None, decode_error(self.version, response.error))
        return Answer(exchange, parsed(response.result or b"null"), None)

    def _remember_raw(self, value: JsonValue) -> None:
        """A task that came of a request which should have been refused is to be cancelled all the same."""
        inner = value.get("task", value) if isinstance(value, dict) else None
        id = inner.get("id") if isinstance(inner, dict) else None
        if isinstance(id, str):
            self._started[id] = None

    # --- samples ------------------------------------------------------------------------------------------------------

    async def _sampled(self, name: str, take: Callable[[], Awaitable[T]]) -> T:
        """A sample that is taken once; each case that uses it shows how it was got."""
        if name in self._samples:
            outcome, exchanges = cast(tuple[T | Undecided, list[Exchange]], self._samples[name])
            self.recorder.exchanges.extend(exchanges)
        else:
            begun = len(self.recorder.exchanges)
            try:
                outcome = await take()
            except Undecided as error:
                outcome = error
            except (A2AError, PeerProtocolError, ClientError) as error:
                outcome = Undecided(f"a plain message is answered with {type(error).__name__}: {error}")
                outcome.__cause__ = error
            self._samples[name] = (outcome, self.recorder.exchanges[begun:])
        if isinstance(outcome, Undecided):
            raise Undecided(outcome.message)
        return outcome

    async def sample(self) -> Task | Message:
        """What comes back for a plain message. Raises Undecided if that is no answer."""
        return await self._sampled("sample", self._take)

    async def _take(self) -> Task | Message:
        """Send, and look at the task from time to time until it ends, asks back, or takes too long."""
        sample: Task | Message = await self.call(ops.SEND_MESSAGE, self.request())
        begun = len(self.recorder.exchanges)
        try:
            async with asyncio.timeout(self.options.timeout):
                pause = FIRST_PAUSE
                while isinstance(sample, Task) and not ends_stream(sample.status.state):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    sample = await self.call(ops.GET_TASK, r.GetTaskRequest(sample.id, tenant=self.tenant))
                    del self.recorder.exchanges[begun:-1]  # the last look is enough
        except TimeoutError:
            pass  # it is a task at work, and that is what it is reported as
        self.remember(sample)
        self._kept = sample.id if isinstance(sample, Task) else None
        return sample

    @property
    def is_unreadable(self) -> bool:
        """Whether the answer to a plain message came, and is no A2A."""
        outcome, _ = self._samples.get("sample", (None, []))
        return isinstance(outcome, Undecided) and isinstance(outcome.__cause__, PeerProtocolError)

    async def streamed(self) -> list[StreamEvent]:
        """The events that come of a plain message. Raises Undecided if there are none."""
        return await self._sampled("stream", self.stream)

    async def task(self) -> Task:
        """A task. Raises Undecided if the agent answers with messages."""
        sample = await self.sample()
        if isinstance(sample, Message):
            raise Undecided("the agent answers with a message and makes no task")
        return sample

    async def finished(self) -> Task:
        """A task in a terminal state, by itself or because it was cancelled."""
        task = await self.task()
        if is_terminal(task.status.state):
            return task
        return await self._sampled("finished", self._finish)

    async def _finish(self) -> Task:
        started: Task = await self.call(ops.SEND_MESSAGE, self.request())
        ended: Task = await self.call(ops.CANCEL_TASK, r.CancelTaskRequest(started.id, tenant=self.tenant))
        if not is_terminal(ended.status.state):
            raise Undecided(f"no task has ended: one that was cancelled is {ended.status.state}")
        self.remember(ended)
        return ended

    async def interrupted(self) -> Task:
        """A task that waits for its caller."""
        task = await self.task()
        if not is_interrupted(task.status.state):
            raise Undecided(f"the agent did not ask back (the task is {task.status.state})")
        return task

    async def running(self) -> Task:
        """A new task that is still at work."""
        await self.task()
        if self.version is Version.V0_1:
            raise Undecided("0.1 has no way to start a task and not wait for it")
        try:
            task = await self.call(ops.SEND_MESSAGE, self.request())
        except A2AError as error:
            raise Undecided(f"a message that does not wait is answered with {type(error).__name__}: {error}") from error
        if not isinstance(task, Task) or is_terminal(task.status.state) or is_interrupted(task.status.state):
            raise Undecided("the agent is so quick that its task was not seen at work")
        return task


def parsed(body: bytes) -> JsonValue:
    """The JSON value of a body. Raises Broken if it is none."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Broken(f"the answer is no JSON: {error}") from error


def expect(
    probe: Probe,
    error: A2AError | None,
    *expected: type[A2AError],
    what: str,
    must: bool = True,
    any_error: bool = False,
) -> str:
    """Say what was seen if a refusal is one of the expected. Raises Broken or Undecided otherwise.

    Where the specification fixes no form of errors (0.3 over HTTP+JSON and gRPC), any refusal of the caller will do.
    """
    names = " or ".join(kind.__name__.removesuffix("Error") for kind in expected)
    if error is None:
        raise Broken(f"{what} is accepted; expected {names or 'an error'}", must=must)
    if isinstance(error, expected):
        return f"{what} is refused: {type(error).__name__}"
    if isinstance(error, SAYS_NOTHING):
        raise Undecided(f"{what} is answered with {type(error).__name__}: {error}")
    if any_error or (probe.is_formless and error.row.http_0_3 not in (500, 502)):
        return f"{what} is refused: {type(error).__name__}"
    raise Broken(f"{what} is answered with {type(error).__name__} ({error}); expected {names}", must=must)
