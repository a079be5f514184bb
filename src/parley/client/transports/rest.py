"""The HTTP+JSON binding for clients, in 0.3 and 1.0. 0.3 answers are read in both shapes that are in use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TypeVar

from parley.client.transports.http import (
    EVENT_STREAM,
    JSON,
    HttpChannel,
    http_error,
    is_about_all,
    is_stream,
    not_an_answer,
    not_an_event,
    seconds_to_begin,
    summary_of,
    with_headers,
)
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.dialects import v0_3, v0_3_protojson, v1_0
from parley.dialects.dialect import JsonDialect
from parley.dialects.json_errors import decode_rest_error
from parley.dialects.rest import encode_rest_request
from parley.protocol.cards import AgentInterface
from parley.protocol.errors import PeerProtocolError, UnsupportedOperationError
from parley.protocol.events import StreamEvent
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version
from parley.wire.rest import build_path, encode_query
from parley.wire.sse import Frame

R = TypeVar("R")


class RestTransport:
    """Calls an agent over HTTP+JSON."""

    def __init__(self, interface: AgentInterface, version: Version, channel: HttpChannel) -> None:
        self.interface = interface
        self.version = version
        self._channel = channel
        # Some servers of 1.0 do not know its preferred media type.
        self._accept = f"application/a2a+json, {JSON}" if version is Version.V1_0 else JSON
        self._dialect: JsonDialect = v1_0.REST_DIALECT if version is Version.V1_0 else v0_3_protojson.REST_DIALECT

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """See `Transport`."""
        verb, url, body = self._encode(operation, request)
        reply = await self._channel.exchange(verb, url, body, with_headers(options, self._accept))
        if reply.status >= 400:
            raise http_error(reply)
        content = reply.body or b"{}"  # some agents answer a deletion with an empty body
        if options.on_document is not None:
            options.on_document(content)
        try:
            return self._read(lambda dialect: dialect.decode_result(operation, content))
        except PeerProtocolError as error:
            if reply.body.strip() in (b"", b"null"):
                raise not_an_answer(reply) from None
            raise not_an_answer(reply, error) if is_about_all(error) else error from None

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """See `Transport`."""
        verb, url, body = self._encode(operation, request)
        options = with_headers(options, EVENT_STREAM)
        within = seconds_to_begin(operation, options)
        async with self._channel.opened(verb, url, body, options, within=within) as response:
            if not is_stream(response) or response.status >= 400:
                reply = await self._channel.reply_of(response, within=options.quiet)
                if reply.status >= 400:
                    raise http_error(reply)
                raise PeerProtocolError(f"The agent answers a streaming call without a stream: {summary_of(reply)}")
            async for frame in self._channel.frames(response, quiet=options.quiet):
                if frame.event == "error":
                    raise decode_rest_error(200, frame.data)
                yield ReceivedEvent(self._event(frame), frame.id or None, len(frame.data))

    async def close(self) -> None:
        """Close the connections."""
        await self._channel.close()

    def _event(self, frame: Frame) -> StreamEvent:
        try:
            return self._read(lambda dialect: dialect.decode_event(frame.data))
        except PeerProtocolError as error:
            raise not_an_event(frame, error) if is_about_all(error) else error from None

    def _read(self, decode: Callable[[JsonDialect], R]) -> R:
        """What the agent says: in the shape that SDKs use, or else in that of the 0.3 specification."""
        try:
            return decode(self._dialect)
        except PeerProtocolError:
            if self.version is not Version.V1_0:
                with suppress(PeerProtocolError):  # the first error is reported
                    return decode(v0_3.REST_DIALECT)
            raise

    def _encode(self, operation: Operation, request: Request) -> tuple[str, str, bytes]:
        if self.version not in operation.routes:
            raise UnsupportedOperationError(f"A2A {self.version} has no {operation.name} over HTTP+JSON")
        asked = encode_rest_request(self.version, operation, request)
        verb, path = build_path(operation, self.version, parameters=asked.parameters, tenant=asked.tenant)
        query = encode_query(asked.query)
        return verb, f"{self.interface.url.rstrip('/')}{path}{'?' if query else ''}{query}", asked.body
