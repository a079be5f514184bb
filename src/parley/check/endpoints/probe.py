"""One endpoint of a server as cases see it: calls, and raw requests that no codec would write.

A probe records everything that it sends and receives. It limits the number of its requests and the time it waits, and
cancels the tasks that it has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

import msgspec

from parley.check.endpoints.connections import bound_credentials, recorded_channel
from parley.check.endpoints.endpoint import Endpoint
from parley.check.endpoints.samples import Samples
from parley.check.endpoints.time_budget import TimeBudget
from parley.check.findings import MAX_SHOWN, Broken, RecordedExchange, Undecided, cut
from parley.check.options import CheckOptions
from parley.check.report.grpc_as_json import event_as_json, refusal_as_text, request_as_json, result_as_json
from parley.check.report.recording import Recorder
from parley.check.report.redaction import Redaction
from parley.client.errors import UnreachableError
from parley.client.transports.connections import Connections
from parley.client.transports.transport import CallOptions
from parley.dialects.json_errors import decode_error, decode_rest_error
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import encode_rest_request
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, ParleyError, PeerProtocolError
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import SKILL_KEY, Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.wire import jsonrpc
from parley.wire.rest import build_path, encode_query

MAX_EVENTS = 2000
"""Events of a stream that are read: a check has no use for longer streams."""


def unknown_id() -> str:
    """The id of a task that does not exist."""
    return f"check-absent-{uuid4()}"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The answer to a raw request: a JSON value, or the error that it reports."""

    exchange: RecordedExchange
    value: JsonValue
    error: A2AError | None


def parsed(body: bytes) -> JsonValue:
    """The JSON value of a body. Raises Broken if it is not valid JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Broken(f"the answer is not valid JSON: {error}") from error


class Probe:
    """A caller of one endpoint."""

    def __init__(
        self, endpoint: Endpoint, *, url: str, options: CheckOptions, connections: Connections, redaction: Redaction
    ) -> None:
        """`url` is the one that the caller named. Raises ForbiddenTargetError if the card must not point there."""
        self.endpoint = endpoint
        self.card = endpoint.card
        self.interface = endpoint.interface
        self.version = endpoint.version
        self.binding = Binding(endpoint.interface.binding)
        self.options = options
        self.budget = TimeBudget(per_answer=options.timeout, total=options.seconds_per_endpoint)
        self.recorder = Recorder(max_requests=options.max_requests)
        self.channel = recorded_channel(connections, self.recorder)
        self.transport = connections.connect(endpoint.interface, endpoint.version, self.channel)
        self.samples = Samples(self)
        self.missing_credentials = ""
        """Why the caller is anonymous at this endpoint, if it is."""
        self.authenticator = bound_credentials(url, options.credentials, connections, endpoint.card)
        self._redaction = redaction
        self._credentials = CallOptions()
        self._started: dict[str, None] = {}

    async def authenticate(self) -> None:
        """Get the credentials of the caller, new tokens included. Without any, the caller is anonymous."""
        try:
            async with asyncio.timeout(self.options.timeout):
                self._credentials = await self.authenticator.apply(CallOptions(), self.interface)
            self._redaction.add(self._credentials)
            self.missing_credentials = ""
        except ParleyError as error:  # there are none, or the authorization server issues none
            self.missing_credentials = error.message
        except TimeoutError:
            self.missing_credentials = "the authorization server does not answer"

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller has no credentials for this endpoint."""
        return not self._credentials.headers and not self._credentials.query and not self.options.shows_certificate

    async def is_alive(self) -> bool:
        """Whether the server answers a simple request."""
        self.recorder.requests_left = max(self.recorder.requests_left, 1)
        try:
            await self.call(ops.GET_TASK, r.GetTaskRequest(unknown_id()))
        except (UnreachableError, Undecided):
            return False
        except ParleyError:
            pass
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self.transport.close()

    async def cancel_started(self) -> None:
        """Cancel the tasks that were started and have not ended, as far as the server allows; the sample is kept."""
        left = [task_id for task_id in self._started if task_id != self.samples.kept]
        self.recorder.requests_left = max(self.recorder.requests_left, len(left))
        for task_id in left:
            del self._started[task_id]
            try:
                await self.call(ops.CANCEL_TASK, r.CancelTaskRequest(task_id))
            except (UnreachableError, Undecided):
                return  # the server does not answer; the others would wait as long
            except ParleyError:
                continue  # it has ended, or cannot be cancelled

    # --- what is sent -------------------------------------------------------------------------------------------------

    @property
    def tenant(self) -> str | None:
        """The tenant of the interface."""
        return self.interface.tenant

    @property
    def has_no_error_format(self) -> bool:
        """Whether the specification defines no format for errors: 0.3 over HTTP+JSON and gRPC."""
        return self.version is Version.V0_3 and self.binding is not Binding.JSONRPC

    @property
    def required(self) -> tuple[str, ...]:
        """The extensions that the card marks as required."""
        return tuple(extension.uri for extension in self.card.capabilities.extensions if extension.required)

    @property
    def extension_header(self) -> str:
        """The header that lists extensions."""
        return "a2a-extensions" if self.version is Version.V1_0 else "x-a2a-extensions"

    def call_options(self, *, anonymous: bool = False, extensions: str | None = None, **more: str) -> CallOptions:
        """Headers and timeouts of a request; `extensions` replace the required ones, `more` are further headers."""
        headers: dict[str, str] = {"accept-encoding": "identity"} if self.binding is not Binding.GRPC else {}
        if self.version is not Version.V0_3:
            headers["a2a-version"] = self.version.value
        listed = ", ".join(self.required) if extensions is None else extensions
        if listed:
            headers[self.extension_header] = listed
        if not anonymous:
            headers.update(self._credentials.headers)
        headers.update({name.replace("_", "-"): value for name, value in more.items()})
        query = self._credentials.query if not anonymous else dict[str, str]()
        return CallOptions(headers, query, timeout=self.options.timeout, quiet=self.options.timeout)

    def message(self, text: str | None = None, **fields: Any) -> Message:
        """A message with a new id, for the skill that is checked, if any."""
        metadata: JsonObject = {SKILL_KEY: self.endpoint.skill} if self.endpoint.skill else {}
        parts = (TextPart(text or self.options.text),)
        return Message(f"check-{uuid4()}", Role.USER, parts, metadata=metadata, **fields)

    def request(self, message: Message | None = None, **configuration: Any) -> r.SendMessageRequest:
        """A request to send a message without waiting, where the version has that; in 0.1 the caller names the task."""
        message = message or self.message()
        names_task = self.version is Version.V0_1
        configuration.setdefault("return_immediately", not names_task)
        if names_task and message.task_id is None:
            message = msgspec.structs.replace(message, task_id=f"check-{uuid4()}")
        return r.SendMessageRequest(
            message, r.SendConfiguration(**configuration), tenant=self.tenant, caller_names_task=names_task
        )

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, request: r.Request, options: CallOptions | None = None) -> Any:
        """Call once. Raises what the transport raises, and Undecided when no answer comes in time."""
        request = msgspec.structs.replace(request, tenant=self.tenant)
        exchange = self._grpc_exchange(operation, request)
        try:
            result = await self.budget.wait(self.transport.call(operation, request, options or self.call_options()))
        except ParleyError as error:
            if exchange is not None:
                exchange.received = refusal_as_text(error, self.version)
            if isinstance(error, UnreachableError | Undecided):
                self._track_unanswered(request)
            raise
        if exchange is not None:
            exchange.received = cut(result_as_json(self.version, operation, result))
        if isinstance(result, Task) and operation is ops.SEND_MESSAGE:
            self.track(result)
        return result

    async def refusal(
        self, operation: Operation, request: r.Request, options: CallOptions | None = None
    ) -> A2AError | None:
        """The error with which the server answers, or None if it answers with a result."""
        try:
            if operation.streams:
                async with aclosing(self.events(operation, request, options)) as events:
                    async for event in events:
                        self.track(event)
                        break
            else:
                await self.call(operation, request, options)
        except A2AError as error:
            return error
        return None

    async def events(
        self, operation: Operation, request: r.Request, options: CallOptions | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """The events of a stream, until the server closes it."""
        request = msgspec.structs.replace(request, tenant=self.tenant)
        exchange = self._grpc_exchange(operation, request)
        number = 0
        async with aclosing(self.transport.stream(operation, request, options or self.call_options())) as received:
            while True:
                try:
                    event = (await self.budget.wait(anext(received))).event
                except StopAsyncIteration:
                    return
                if exchange is not None and len(exchange.received) < MAX_SHOWN:
                    exchange.received += cut(f"{event_as_json(self.version, event)}\n")
                number += 1
                if number > MAX_EVENTS:
                    raise Undecided(f"the stream has more than {MAX_EVENTS} events")
                yield event

    def _grpc_exchange(self, operation: Operation, request: r.Request) -> RecordedExchange | None:
        """Record gRPC as the JSON of its messages, because their bytes are not readable."""
        if self.binding is not Binding.GRPC:
            return None
        return self.recorder.begin(cut(request_as_json(self.version, operation, request)))

    def track(self, event: Any) -> None:
        """Note a task that must be cancelled in the end."""
        task_id = event.id if isinstance(event, Task) else getattr(event, "task_id", None)
        status = getattr(event, "status", None)
        if task_id and status is not None and is_terminal(status.state):
            self._started.pop(task_id, None)
        elif task_id and not isinstance(event, Message):
            self._started[task_id] = None

    def _track_unanswered(self, request: r.Request) -> None:
        """Note the task of an unanswered send, where the caller chose its id: it may run all the same."""
        if isinstance(request, r.SendMessageRequest) and request.caller_names_task and request.message.task_id:
            self._started[request.message.task_id] = None

    # --- raw requests -------------------------------------------------------------------------------------------------

    def members(self, operation: Operation, request: r.Request) -> JsonObject:
        """The JSON of a request: params of JSON-RPC, or the body of REST."""
        if self.binding is Binding.JSONRPC:
            return msgspec.json.decode(DIALECTS[self.version].encode_request(operation, request))
        return msgspec.json.decode(encode_rest_request(self.version, operation, request).body)

    async def raw(self, operation: Operation, members: JsonObject, options: CallOptions | None = None) -> RawAnswer:
        """Send JSON that the codecs would not write. Over REST, `id` goes into the path and the rest of a GET into the
        query."""
        if self.binding is Binding.JSONRPC:
            body = jsonrpc.encode_request(b'"raw-1"', operation.methods[self.version], msgspec.json.encode(members))
            return await self.post(body, options, operation=operation)
        parameters = {"id": str(members["id"])} if "{id}" in operation.routes[self.version].path else {}
        rest = {name: value for name, value in members.items() if name not in parameters}
        verb, path = build_path(operation, self.version, parameters=parameters, tenant=self.tenant)
        url = f"{self.interface.url.rstrip('/')}{path}"
        if verb == "GET":
            query = encode_query(cast(Any, rest))
            return await self._exchange(verb, f"{url}?{query}" if query else url, b"", options, operation)
        return await self._exchange(verb, url, msgspec.json.encode(rest), options, operation)

    async def post(
        self, body: bytes, options: CallOptions | None = None, *, operation: Operation | None = None
    ) -> RawAnswer:
        """Post bytes to a JSON-RPC endpoint."""
        return await self._exchange("POST", self.interface.url, body, options, operation)

    async def posted(self, body: bytes) -> RecordedExchange:
        """Post bytes to a JSON-RPC endpoint, and return the exchange without reading the answer."""
        return await self._send_raw("POST", self.interface.url, body, self.call_options())

    async def _exchange(
        self, verb: str, url: str, body: bytes, options: CallOptions | None, operation: Operation | None
    ) -> RawAnswer:
        answer = self._answer(await self._send_raw(verb, url, body, options or self.call_options()))
        if operation is ops.SEND_MESSAGE and answer.error is None:
            self._track_raw(answer.value)
        return answer

    async def _send_raw(self, verb: str, url: str, body: bytes, options: CallOptions) -> RecordedExchange:
        kind = {"content-type": "application/json"} if body else {}
        headers = {"accept": "application/json", **options.headers, **kind}
        await self.budget.wait(self.channel.exchange(verb, url, body, replace(options, headers=headers)))
        return self.recorder.exchanges[-1]

    def _answer(self, exchange: RecordedExchange) -> RawAnswer:
        if self.binding is Binding.HTTP_JSON:
            if exchange.status >= 400:
                return RawAnswer(exchange, None, decode_rest_error(exchange.status, exchange.body))
            return RawAnswer(exchange, parsed(exchange.body), None)
        try:
            response = jsonrpc.decode_response(exchange.body)
        except PeerProtocolError as error:
            if exchange.status >= 400:
                return RawAnswer(exchange, None, decode_rest_error(exchange.status, exchange.body))
            raise Broken(f"the answer is not valid JSON-RPC: {error}") from error
        if response.error is not None:
            return RawAnswer(exchange, None, decode_error(self.version, response.error))
        return RawAnswer(exchange, parsed(response.result or b"null"), None)

    def _track_raw(self, value: JsonValue) -> None:
        """Note a task that was created by a raw request, which should have been refused."""
        inner = value.get("task", value) if isinstance(value, dict) else None
        id = inner.get("id") if isinstance(inner, dict) else None
        if isinstance(id, str):
            self._started[id] = None
