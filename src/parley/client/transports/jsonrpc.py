"""The JSON-RPC binding for clients, in all four dialects."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import count
from urllib.parse import urljoin

from parley.client.transports.http import (
    EVENT_STREAM,
    JSON,
    HttpChannel,
    HttpReply,
    http_error,
    is_about_all,
    is_stream,
    not_an_answer,
    not_an_event,
    seconds_to_begin,
    summary_of,
    with_headers,
    with_retry_after,
)
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.dialects.json_errors import decode_error, decode_rest_error
from parley.dialects.registry import DIALECTS
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard, AgentInterface
from parley.protocol.errors import A2AError, PeerProtocolError, UnknownRemoteError, UnsupportedOperationError
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version
from parley.wire import jsonrpc
from parley.wire.sse import Frame


class JsonRpcTransport:
    """Calls an agent over JSON-RPC."""

    def __init__(self, interface: AgentInterface, version: Version, channel: HttpChannel) -> None:
        self.interface = interface
        self.version = version
        self._channel = channel
        self._dialect = DIALECTS[version]
        self._ids = count(1)

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """See `Transport`."""
        if operation is ops.GET_EXTENDED_CARD and self.version is Version.V0_2:
            return await self._extended_card(options)
        id, body = self._encode(operation, request)
        reply = await self._channel.exchange("POST", self.interface.url, body, with_headers(options, JSON))
        result = self._result(id, reply)
        if options.on_document is not None:
            options.on_document(result)
        try:
            return self._dialect.decode_result(operation, result)
        except PeerProtocolError as error:
            if result == jsonrpc.NULL:
                raise not_an_answer(reply) from None
            raise not_an_answer(reply, error) if is_about_all(error) else error from None

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """See `Transport`."""
        id, body = self._encode(operation, request)
        options = with_headers(options, EVENT_STREAM)
        within = seconds_to_begin(operation, options)
        async with self._channel.opened("POST", self.interface.url, body, options, within=within) as response:
            if not is_stream(response):
                reply = await self._channel.reply_of(response, within=options.quiet)
                self._result(id, reply)
                raise PeerProtocolError(f"The agent answers a streaming call without a stream: {summary_of(reply)}")
            async for frame in self._channel.frames(response, quiet=options.quiet):
                yield self._received(id, frame)

    async def close(self) -> None:
        """Close the connections."""
        await self._channel.close()

    async def _extended_card(self, options: CallOptions) -> AgentCard:
        """The card for authenticated callers: 0.2 has no method for it, but a URL."""
        url = urljoin(f"{self.interface.url.rstrip('/')}/", "../agent/authenticatedExtendedCard")
        reply = await self._channel.exchange("GET", url, b"", with_headers(options, JSON))
        if reply.status >= 400:
            raise http_error(reply)
        if options.on_document is not None:
            options.on_document(reply.body)
        return self._dialect.decode_card(reply.body)

    def _encode(self, operation: Operation, request: Request) -> tuple[bytes, bytes]:
        method = operation.methods.get(self.version)
        if method is None:
            raise UnsupportedOperationError(f"A2A {self.version} has no {operation.name} over JSON-RPC")
        id = b"%d" % next(self._ids)
        return id, jsonrpc.encode_request(id, method, self._dialect.encode_request(operation, request))

    def _result(self, id: bytes, reply: HttpReply) -> bytes:
        """The result in a reply. Raises the error that it reports."""
        try:
            response = jsonrpc.decode_response(reply.body)
        except PeerProtocolError as error:
            raise http_error(reply) if reply.status >= 400 else not_an_answer(reply, error) from None
        if reply.status >= 400 and response.result == jsonrpc.NULL:
            raise http_error(reply)  # an object, but not JSON-RPC: an error of FastAPI or a gateway
        if response.error is not None:
            error = self._error(response.error)
            if isinstance(error, UnknownRemoteError) and reply.status in (401, 403):
                # A gateway that speaks JSON-RPC but has its own codes: the HTTP status says what it means.
                error = decode_rest_error(reply.status, reply.body)
            raise with_retry_after(error, reply.headers)
        _check_id(id, response)
        return response.result or jsonrpc.NULL

    def _received(self, id: bytes, frame: Frame) -> ReceivedEvent:
        try:
            response = jsonrpc.decode_response(frame.data)
        except PeerProtocolError as error:
            raise not_an_event(frame, error) from None
        if response.error is not None:
            raise self._error(response.error)
        if response.result == jsonrpc.NULL:
            raise not_an_event(frame)
        _check_id(id, response)
        return ReceivedEvent(
            self._dialect.decode_event(response.result or jsonrpc.NULL), frame.id or None, len(frame.data)
        )

    def _error(self, raw: bytes) -> A2AError:
        return decode_error(self.version, raw)


def _check_id(id: bytes, response: jsonrpc.Response) -> None:
    if response.id not in (id, jsonrpc.NULL):
        raise PeerProtocolError(f"The reply belongs to another request: {response.id[:50].decode(errors='replace')}")
