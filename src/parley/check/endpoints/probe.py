"""One place of a server as cases see it: calls, and raw requests that no codec would write.

Everything that is sent and received is recorded. A probe is polite: it counts its requests and stops at a bound, waits
no longer than told, and in the end cancels what it has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import msgspec

from parley.check.endpoints.connections import CheckConnections
from parley.check.endpoints.endpoint import Place
from parley.check.endpoints.samples import Samples
from parley.check.endpoints.time_budget import Patience
from parley.check.expectations import Answer, parsed
from parley.check.findings import MAX_SHOWN, Broken, Exchange, Undecided, cut
from parley.check.options import Options
from parley.check.report.grpc_as_json import event_as_json, refused, request_as_json, result_as_json
from parley.check.report.recording import Recorder
from parley.check.report.redaction import Concealment
from parley.client.errors import UnreachableError
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
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.wire import jsonrpc
from parley.wire.rest import build_path, encode_query

SKILL_KEY = "skillId"
"""The member of a message's metadata by which agents of this project know the skill that is meant."""
MAX_EVENTS = 2000
"""Events of a stream that are read: an agent that says more is not what a check wants to hear to its end."""


def absent() -> str:
    """The id of a task that nobody has."""
    return f"check-absent-{uuid4()}"


class Probe:
    """A caller at one place."""

    def __init__(
        self, place: Place, *, options: Options, connections: CheckConnections, concealment: Concealment
    ) -> None:
        """Raises ForbiddenTargetError if the card must not point there."""
        self.place = place
        self.card = place.card
        self.interface = place.interface
        self.version = place.version
        self.binding = Binding(place.interface.binding)
        self.options = options
        self.patience = Patience(answer=options.timeout, place=options.seconds_per_place)
        self.recorder = Recorder(max_requests=options.max_requests)
        self.channel = connections.channel(self.recorder)
        self.transport = connections.connect(place.interface, place.version, self.channel)
        self.samples = Samples(self)
        self.lacking = ""
        """Why the caller is a stranger here, if it is."""
        self.authenticator = connections.authenticator(place.card)
        self._concealment = concealment
        self._proof = CallOptions()
        self._started: dict[str, None] = {}

    async def identify(self) -> None:
        """Get what proves who the caller is, new tokens included. Without it, the caller is a stranger."""
        try:
            async with asyncio.timeout(self.options.timeout):
                self._proof = await self.authenticator.apply(CallOptions(), self.interface)
            self._concealment.add(self._proof)
            self.lacking = ""
        except ParleyError as error:  # there are none, or the authorization server gives none
            self.lacking = error.message
        except TimeoutError:
            self.lacking = "the authorization server does not answer"

    @property
    def is_stranger(self) -> bool:
        """Whether nothing proves who the caller is."""
        return not self._proof.headers and not self._proof.query and not self.options.shows_certificate

    async def is_alive(self) -> bool:
        """Whether anybody answers a plain question."""
        self.recorder.left = max(self.recorder.left, 1)
        try:
            await self.call(ops.GET_TASK, r.GetTaskRequest(absent(), tenant=self.tenant))
        except (UnreachableError, Undecided):
            return False
        except ParleyError:
            pass
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self.transport.close()

    async def tidy_up(self) -> None:
        """Cancel what was started and has not ended, as far as the server lets us; the sample stays."""
        left = [task_id for task_id in self._started if task_id != self.samples.kept]
        self.recorder.left = max(self.recorder.left, len(left))
        for task_id in left:
            del self._started[task_id]
            try:
                await self.call(ops.CANCEL_TASK, r.CancelTaskRequest(task_id, tenant=self.tenant))
            except (UnreachableError, Undecided):
                return  # nobody hears it; the rest would wait as long
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

    def sent(self, *, anonymous: bool = False, extensions: str | None = None, **more: str) -> CallOptions:
        """What goes along with a request; `extensions` are listed instead of the required ones, `more` are headers."""
        headers: dict[str, str] = {"accept-encoding": "identity"} if self.binding is not Binding.GRPC else {}
        if self.version is not Version.V0_3:
            headers["a2a-version"] = self.version.value
        listed = ", ".join(self.required) if extensions is None else extensions
        if listed:
            headers[self.extension_header] = listed
        if not anonymous:
            headers.update(self._proof.headers)
        headers.update({name.replace("_", "-"): value for name, value in more.items()})
        query = self._proof.query if not anonymous else dict[str, str]()
        return CallOptions(headers, query, timeout=self.options.timeout, quiet=self.options.timeout)

    def message(self, text: str | None = None, **fields: Any) -> Message:
        """A message with a fresh id, for the skill that is checked, if one is."""
        metadata: JsonObject = {SKILL_KEY: self.place.skill} if self.place.skill else {}
        parts = (TextPart(text or self.options.text),)
        return Message(f"check-{uuid4()}", Role.USER, parts, metadata=metadata, **fields)

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

    async def call(self, operation: Operation, request: r.Request, sent: CallOptions | None = None) -> Any:
        """Ask once. Raises what the transport raises, and Undecided when nothing comes in time."""
        exchange = self._grpc_exchange(operation, request)
        try:
            result = await self.patience.wait(self.transport.call(operation, request, sent or self.sent()))
        except ParleyError as error:
            if exchange is not None:
                exchange.received = refused(error, self.version)
            if isinstance(error, UnreachableError | Undecided):
                self._remember_unanswered(request)
            raise
        if exchange is not None:
            exchange.received = cut(result_as_json(self.version, operation, result))
        if isinstance(result, Task) and operation is ops.SEND_MESSAGE:
            self.remember(result)
        return result

    async def refusal(
        self, operation: Operation, request: r.Request, sent: CallOptions | None = None
    ) -> A2AError | None:
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
        self, operation: Operation, request: r.Request, sent: CallOptions | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """The events of a stream, until the server closes it."""
        exchange = self._grpc_exchange(operation, request)
        number = 0
        async with aclosing(self.transport.stream(operation, request, sent or self.sent())) as received:
            while True:
                try:
                    event = (await self.patience.wait(anext(received))).event
                except StopAsyncIteration:
                    return
                if exchange is not None and len(exchange.received) < MAX_SHOWN:
                    exchange.received += cut(f"{event_as_json(self.version, event)}\n")
                number += 1
                if number > MAX_EVENTS:
                    raise Undecided(f"the stream has more than {MAX_EVENTS} events")
                yield event

    def _grpc_exchange(self, operation: Operation, request: r.Request) -> Exchange | None:
        """gRPC is recorded as the JSON of its messages: their bytes tell nobody anything."""
        if self.binding is not Binding.GRPC:
            return None
        return self.recorder.begin(cut(request_as_json(self.version, operation, request)))

    def remember(self, event: Any) -> None:
        """Keep in mind what has to be cancelled in the end."""
        task_id = event.id if isinstance(event, Task) else getattr(event, "task_id", None)
        status = getattr(event, "status", None)
        if task_id and status is not None and is_terminal(status.state):
            self._started.pop(task_id, None)
        elif task_id and not isinstance(event, Message):
            self._started[task_id] = None

    def _remember_unanswered(self, request: r.Request) -> None:
        """Where the caller names the task, it knows what may be at work all the same."""
        if isinstance(request, r.SendMessageRequest) and request.caller_names_task and request.message.task_id:
            self._started[request.message.task_id] = None

    # --- raw requests -------------------------------------------------------------------------------------------------

    def members(self, operation: Operation, request: r.Request) -> JsonObject:
        """The JSON of a request: params of JSON-RPC, or the body of REST."""
        if self.binding is Binding.JSONRPC:
            return msgspec.json.decode(DIALECTS[self.version].encode_request(operation, request))
        return msgspec.json.decode(encode_rest_request(self.version, operation, request).body)

    async def raw(self, operation: Operation, members: JsonObject, sent: CallOptions | None = None) -> Answer:
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

    async def post(self, body: bytes, sent: CallOptions | None = None, *, operation: Operation | None = None) -> Answer:
        """Post bytes to a JSON-RPC endpoint."""
        return await self._exchange("POST", self.interface.url, body, sent, operation)

    async def posted(self, body: bytes) -> Exchange:
        """Post bytes to a JSON-RPC endpoint, whatever the answer may mean."""
        return await self._said("POST", self.interface.url, body, self.sent())

    async def _exchange(
        self, verb: str, url: str, body: bytes, sent: CallOptions | None, operation: Operation | None
    ) -> Answer:
        answer = self._answer(await self._said(verb, url, body, sent or self.sent()))
        if operation is ops.SEND_MESSAGE and answer.error is None:
            self._remember_raw(answer.value)
        return answer

    async def _said(self, verb: str, url: str, body: bytes, sent: CallOptions) -> Exchange:
        kind = {"content-type": "application/json"} if body else {}
        headers = {"accept": "application/json", **sent.headers, **kind}
        await self.patience.wait(self.channel.exchange(verb, url, body, replace(sent, headers=headers)))
        return self.recorder.exchanges[-1]

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
