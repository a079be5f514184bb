"""The gRPC binding for clients, in 0.3 and 1.0. It needs the extra `grpc`.

A channel whose calls break or time out is left to the calls that it still has, and the next call gets a new one: gRPC
itself would go on to use a connection on which nothing comes any more. Its streams have no heartbeats that anybody can
see, and servers hang up on who pings them often. So a server whose stream is silent is asked something else over the
same connection: whatever it answers is a sign of life.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from msgspec import structs

from parley.client.errors import TimedOutError, UnreachableError
from parley.client.options import Bounds
from parley.client.transports.http import with_retry_after
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import parse_reply
from parley.dialects.protobuf_status import decode_status
from parley.dialects.protobuf_v0_3 import DIALECT as V0_3
from parley.dialects.protobuf_v1_0 import DIALECT as V1_0
from parley.network.proxies import Proxy
from parley.network.urls import host_and_port
from parley.protocol.cards import AgentInterface
from parley.protocol.errors import ParleyError, PeerProtocolError
from parley.protocol.events import StreamEvent
from parley.protocol.extensions import CURSOR
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version

_TOO_LARGE = "message larger than max"
"""gRPC's own words for a reply beyond the bound, under the status that agents use for too many requests."""

HEALTH = "/grpc.health.v1.Health/Check"
"""What a silent server is asked. Those that do not know it say so."""

HEALTH_SECONDS = 20.0
"""How long that may take."""

_NOBODY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

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
        address: str | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """`address` is a gRPC target to dial instead of the interface's URL, which stays the name in TLS.

        With a `proxy`, `address` is the host and port that the proxy connects to.
        """
        self.interface = interface
        self.version = version
        self._dialect = DIALECTS[version]
        self._bounds = bounds = bounds or Bounds()
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", bounds.reply_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_http_proxy", 0),  # the caller decides; gRPC reads the environment in its own way
            ("grpc.enable_retries", 0),  # what is safe to repeat is known above, and not to gRPC
            ("grpc.use_local_subchannel_pool", 1),  # or a new channel would share the old one's connection
        ]
        target = target_of(interface.url)
        if address is not None:
            options.append(("grpc.default_authority", target))
            target = address
        if proxy is not None:
            headers = "\n".join(f"{name}:{value}" for name, value in proxy.headers.items())
            options += [("grpc.http_connect_server", target), ("grpc.http_connect_headers", headers)]
            target = f"dns:///{host_and_port(proxy.host, proxy.port)}"
        self._open = lambda: (
            grpc.aio.insecure_channel(target, options=options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=options)
        )
        self._line: _Line | None = None

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """Ask once and give the answer; see `Transport`."""
        rpc = self._dialect.rpc(operation)
        data = self._dialect.encode_request(operation, request).SerializeToString()
        async with self._in_use() as line:
            call = line.method("unary_unary", rpc.path)
            reply = await call(data, metadata=_metadata(options), timeout=options.timeout)
        return self._dialect.decode_result(operation, parse_reply(rpc.response, reply))

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """Ask once and give the events; see `Transport`."""
        rpc = self._dialect.rpc(operation)
        data = self._dialect.encode_request(operation, request).SerializeToString()
        async with self._in_use() as line:
            events = _Watched(line, line.method("unary_stream", rpc.path)(data, metadata=_metadata(options)), options)
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
    async def _in_use(self) -> AsyncGenerator[_Line]:
        """The channel for one call, whose failure is translated, and after which it may be left."""
        line = self._line = self._line or _Line(self._open)
        line.calls += 1
        try:
            yield line
        except grpc.aio.AioRpcError as error:
            known = _translated(error)
            if isinstance(known, UnreachableError):
                self._leave(line)
            raise known from error
        except TimedOutError:
            self._leave(line)
            raise
        finally:
            line.calls -= 1
            if line.is_left and line.calls == 0:
                await line.channel.close()

    def _leave(self, line: _Line) -> None:
        line.is_left = True
        if self._line is line:
            self._line = None

    async def close(self) -> None:
        """Close the connections."""
        if self._line is not None:
            await self._line.channel.close()


class _Line:
    """A channel, and how many calls are on it."""

    def __init__(self, open: Callable[[], grpc.aio.Channel]) -> None:
        self.channel = open()
        self.calls = 0
        self.is_left = False

    def method(self, kind: str, path: str) -> Any:
        """A method of the channel; its stubs are generic over messages, and here every message is bytes."""
        return getattr(self.channel, kind)(path)

    async def lives(self) -> bool:
        """Whether anybody answers over this connection, be it with an error."""
        try:
            await self.method("unary_unary", HEALTH)(b"", timeout=HEALTH_SECONDS)
        except grpc.aio.AioRpcError as error:
            return error.code() not in _NOBODY
        return True


class _Watched:
    """The messages of a stream, and somebody who notices when no more can come."""

    def __init__(self, line: _Line, call: Any, options: CallOptions) -> None:
        self._line = line
        self._call = call
        self._sent = options
        self._now = asyncio.get_running_loop().time
        self._heard_at = self._now()
        self._is_dead = False
        self._watch = asyncio.create_task(self._watch_silence())

    async def read(self) -> Any:
        """The next message, or gRPC's EOF. Raises TimedOutError if nobody is there, or for too long only silence."""
        try:
            message = await self._call.read()
        except asyncio.CancelledError:
            if not self._is_dead:
                raise
            raise TimedOutError("The stream was silent for too long") from None
        self._heard_at = self._now()
        return message

    async def close(self) -> None:
        """Hang up."""
        self._call.cancel()
        self._watch.cancel()
        await asyncio.wait([self._watch])

    async def _watch_silence(self) -> None:
        while (silence := self._now() - self._heard_at) < self._sent.timeout:
            if silence >= self._sent.quiet and not await self._line.lives():
                break
            await asyncio.sleep(min(self._sent.quiet, self._sent.timeout - silence))
        self._is_dead = True
        self._call.cancel()


def target_of(url: str) -> str:
    """What gRPC calls a URL: `grpcs://host:443` is `host:443`; anything without a scheme is a target already."""
    _, separator, rest = url.partition("://")
    return (rest if separator else url).rstrip("/")


def _received(event: StreamEvent, size: int) -> ReceivedEvent:
    """The event without its number, which is the stream's matter and not the task's."""
    number = event.metadata.get(CURSOR)
    if type(number) is not int and not (isinstance(number, float) and number.is_integer()):
        return ReceivedEvent(event, size=size)
    metadata = {name: value for name, value in event.metadata.items() if name != CURSOR}
    return ReceivedEvent(structs.replace(event, metadata=metadata), str(int(number)), size)


def _metadata(options: CallOptions) -> tuple[tuple[str, str], ...]:
    after = () if options.after is None else (("last-event-id", options.after),)
    return (*((name.lower(), value) for name, value in options.headers.items()), *after)


def _translated(error: grpc.aio.AioRpcError) -> ParleyError:
    """What a failed call means: the connection's fault, or what the agent reports."""
    trailers = dict(tuple(error.trailing_metadata() or ()))  # its keys() are pairs in older versions
    details = trailers.get("grpc-status-details-bin")
    text = error.details() or ""
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOutError("The agent did not answer in time")
        case grpc.StatusCode.UNAVAILABLE if details is None and not text.startswith("UnavailableError: "):
            # Without details, or the name that 0.3 has instead, it is gRPC's own word and not the agent's.
            return UnreachableError(f"No connection: {text}", was_sent="failed to connect" not in text)
        case grpc.StatusCode.RESOURCE_EXHAUSTED if details is None and _TOO_LARGE in text:
            return PeerProtocolError(f"The reply is too large: {text}")
        case _:
            known = decode_status(error.code().name, text, details if isinstance(details, bytes) else None)
            return with_retry_after(known, {name: str(value) for name, value in trailers.items()})
