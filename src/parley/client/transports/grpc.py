"""The gRPC binding for clients, in 0.3 and 1.0. It needs the extra `grpc`.

After a call breaks or times out, the next call opens a new channel, and the old one closes with its last call: gRPC
itself would keep using a dead connection. gRPC streams have no visible heartbeats, and servers close connections that
ping often. So when a stream is silent, the server gets a health check over the same connection; any answer to it is a
sign of life.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from msgspec import structs

from parley.client.errors import TimedOutError, UnreachableError
from parley.client.options import Bounds
from parley.client.transports.grpc_route import ChannelOptions, GrpcRoute, target_of
from parley.client.transports.http import with_retry_after
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import parse_reply
from parley.dialects.protobuf_status import decode_status
from parley.dialects.protobuf_v0_3 import DIALECT as V0_3
from parley.dialects.protobuf_v1_0 import DIALECT as V1_0
from parley.protocol.cards import AgentInterface
from parley.protocol.errors import ParleyError, PeerProtocolError
from parley.protocol.events import StreamEvent
from parley.protocol.extensions import CURSOR
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version

_TOO_LARGE = "message larger than max"
"""gRPC's text for a reply beyond the bound; its status is the one that agents use for too many requests."""

HEALTH = "/grpc.health.v1.Health/Check"
"""The call that checks a silent server. An error that the method is unknown is an answer too."""

HEALTH_SECONDS = 20.0
"""How long the check may take."""

_NO_ANSWER = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

DIALECTS: dict[Version, ProtobufDialect] = {Version.V0_3: V0_3, Version.V1_0: V1_0}


class GrpcTransport:
    """Calls an agent over gRPC. `credentials` are those of TLS; without them the channel is not encrypted."""

    def __init__(
        self,
        interface: AgentInterface,
        version: Version,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        bounds: Bounds | None = None,
        route: GrpcRoute | None = None,
    ) -> None:
        """Without a `route`, gRPC itself resolves the interface's host."""
        self.interface = interface
        self.version = version
        self._dialect = DIALECTS[version]
        self._credentials = credentials
        self._bounds = bounds or Bounds()
        self._route = route
        self._opening = asyncio.Lock()
        self._channel: _CountedChannel | None = None

    async def _open(self) -> grpc.aio.Channel:
        target, found = await self._route.find() if self._route is not None else (target_of(self.interface.url), [])
        options: ChannelOptions = [
            ("grpc.max_receive_message_length", self._bounds.reply_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_http_proxy", 0),  # the caller decides; gRPC reads the environment in its own way
            ("grpc.enable_retries", 0),  # `calls` knows what is safe to repeat
            ("grpc.use_local_subchannel_pool", 1),  # otherwise a new channel shares the old connection
            *found,
        ]
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=options)
        return grpc.aio.secure_channel(target, self._credentials, options=options)

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """See `Transport`."""
        rpc = self._dialect.rpc(operation)
        data = self._dialect.encode_request(operation, request).SerializeToString()
        async with self._in_use() as channel:
            call = channel.method("unary_unary", rpc.path)
            reply = await call(data, metadata=_metadata(options), timeout=options.timeout)
        return self._dialect.decode_result(operation, parse_reply(rpc.response, reply))

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """See `Transport`."""
        rpc = self._dialect.rpc(operation)
        data = self._dialect.encode_request(operation, request).SerializeToString()
        async with self._in_use() as channel:
            events = _MonitoredStream(
                channel, channel.method("unary_stream", rpc.path)(data, metadata=_metadata(options)), options
            )
            size = 0
            try:
                while (message := await events.read()) is not grpc.aio.EOF:
                    size += len(message)
                    if size > self._bounds.stream_bytes:
                        raise PeerProtocolError(f"The stream has more than {self._bounds.stream_bytes} bytes")
                    yield _received(self._dialect.decode_event(parse_reply(rpc.response, message)), len(message))
            finally:
                await events.close()

    @asynccontextmanager
    async def _in_use(self) -> AsyncGenerator[_CountedChannel]:
        """The channel for one call. Errors of the call are translated; after a broken one, the channel is replaced."""
        async with self._opening:
            channel = self._channel = self._channel or _CountedChannel(await self._open())
            channel.calls += 1
        try:
            yield channel
        except grpc.aio.AioRpcError as error:
            known = _translated(error)
            if isinstance(known, UnreachableError):
                self._abandon(channel)
                if self._route is not None and not known.was_sent:
                    self._route.failures += 1
            raise known from error
        except TimedOutError:
            self._abandon(channel)
            raise
        finally:
            channel.calls -= 1
            if channel.is_abandoned and channel.calls == 0:
                await channel.grpc_channel.close()

    def _abandon(self, channel: _CountedChannel) -> None:
        channel.is_abandoned = True
        if self._channel is channel:
            self._channel = None

    async def close(self) -> None:
        """Close the connections."""
        if self._channel is not None:
            await self._channel.grpc_channel.close()


class _CountedChannel:
    """A channel and the number of its calls."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.grpc_channel = channel
        self.calls = 0
        self.is_abandoned = False

    def method(self, kind: str, path: str) -> Any:
        """A method of the channel; here every message is bytes."""
        return getattr(self.grpc_channel, kind)(path)

    async def is_alive(self) -> bool:
        """Whether the server answers over this connection, even with an error."""
        try:
            await self.method("unary_unary", HEALTH)(b"", timeout=HEALTH_SECONDS)
        except grpc.aio.AioRpcError as error:
            return error.code() not in _NO_ANSWER
        return True


class _MonitoredStream:
    """The messages of a stream, which ends when the server no longer answers."""

    def __init__(self, channel: _CountedChannel, call: Any, options: CallOptions) -> None:
        self._channel = channel
        self._call = call
        self._options = options
        self._now = asyncio.get_running_loop().time
        self._received_at = self._now()
        self._is_dead = False
        self._monitor = asyncio.create_task(self._check_silence())

    async def read(self) -> Any:
        """The next message, or gRPC's EOF. Raises TimedOutError after a failed check, or too long a silence."""
        try:
            message = await self._call.read()
        except asyncio.CancelledError:
            if not self._is_dead:
                raise
            raise TimedOutError("The stream was silent for too long") from None
        self._received_at = self._now()
        return message

    async def close(self) -> None:
        """Cancel the call."""
        self._call.cancel()
        self._monitor.cancel()
        await asyncio.wait([self._monitor])

    async def _check_silence(self) -> None:
        while (silence := self._now() - self._received_at) < self._options.timeout:
            if silence >= self._options.quiet and not await self._channel.is_alive():
                break
            await asyncio.sleep(min(self._options.quiet, self._options.timeout - silence))
        self._is_dead = True
        self._call.cancel()


def _received(event: StreamEvent, size: int) -> ReceivedEvent:
    """The event, with its number taken out of the metadata."""
    number = event.metadata.get(CURSOR)
    if type(number) is not int and not (isinstance(number, float) and number.is_integer()):
        return ReceivedEvent(event, size=size)
    metadata = {name: value for name, value in event.metadata.items() if name != CURSOR}
    return ReceivedEvent(structs.replace(event, metadata=metadata), str(int(number)), size)


def _metadata(options: CallOptions) -> tuple[tuple[str, str], ...]:
    after = () if options.after is None else (("last-event-id", options.after),)
    return (*((name.lower(), value) for name, value in options.headers.items()), *after)


def _translated(error: grpc.aio.AioRpcError) -> ParleyError:
    """The error of a failed call: of the connection, or reported by the agent."""
    trailers = dict(tuple(error.trailing_metadata() or ()))  # its keys() are pairs in older versions
    details = trailers.get("grpc-status-details-bin")
    text = error.details() or ""
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOutError("The agent did not answer in time")
        case grpc.StatusCode.UNAVAILABLE if details is None and not text.startswith("UnavailableError: "):
            # Without details (0.3: a name), the status comes from gRPC and not from the agent.
            return UnreachableError(f"No connection: {text}", was_sent="failed to connect" not in text)
        case grpc.StatusCode.RESOURCE_EXHAUSTED if details is None and _TOO_LARGE in text:
            return PeerProtocolError(f"The reply is too large: {text}")
        case _:
            known = decode_status(error.code().name, text, details if isinstance(details, bytes) else None)
            return with_retry_after(known, {name: str(value) for name, value in trailers.items()})
