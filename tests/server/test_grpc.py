"""The gRPC server: several agents on one port, metadata, reflection and health."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from parley.dialects import protobuf_v0_3, protobuf_v1_0
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_status import decode_status
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    InvalidParamsError,
    RateLimitedError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.messages import Message, Role, TextPart
from parley.server.app import App
from parley.server.bindings.cursor import CURSOR
from parley.server.bindings.grpc import GrpcServer, _address
from parley.server.limits import ServerLimits
from parley.server.security.throttle import RateLimits
from tests.deadlines import fail_after
from tests.server.serving import echo_agent

pytestmark = pytest.mark.anyio

V1_0, V0_3 = protobuf_v1_0.DIALECT, protobuf_v0_3.DIALECT


@asynccontextmanager
async def channel_to(app: App) -> AsyncGenerator[tuple[grpc.aio.Channel, GrpcServer]]:
    with fail_after(20):
        async with app.running():
            server = GrpcServer(app, http_url="http://127.0.0.1:8080")
            port = await server.start("127.0.0.1", 0)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield channel, server
            await server.stop()


async def call(
    channel: grpc.aio.Channel, dialect: ProtobufDialect, operation: Any, request: Any, **metadata: str
) -> Any:
    rpc = dialect.rpc(operation)
    named = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
    data = dialect.encode_request(operation, request).SerializeToString()
    try:
        reply = await channel.unary_unary(rpc.path)(data, metadata=named)
    except grpc.aio.AioRpcError as error:
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        raise decode_status(
            error.code().name, error.details() or "", details if isinstance(details, bytes) else None
        ) from error
    return dialect.decode_result(operation, rpc.response.FromString(reply))


def hello(text: str = "hello", *, tenant: str | None = None, id: str = "m-1") -> r.SendMessageRequest:
    return r.SendMessageRequest(Message(id, Role.USER, (TextPart(text),)), tenant=tenant)


async def test_several_agents_share_a_port_and_the_tenant_says_which() -> None:
    app = App(echo_agent("One"), echo_agent("Two"))
    async with channel_to(app) as (channel, _):
        task = await call(channel, V1_0, ops.SEND_MESSAGE, hello(tenant="two"))
        assert (await call(channel, V1_0, ops.GET_TASK, r.GetTaskRequest(task.id, tenant="two"))).id == task.id
        inner = await call(channel, V1_0, ops.SEND_MESSAGE, hello(tenant="two/acme"))
        assert inner.id != task.id
        for wrong in (None, "three"):
            with pytest.raises(InvalidParamsError, match="one, two"):
                await call(channel, V1_0, ops.SEND_MESSAGE, hello(tenant=wrong))
        with pytest.raises(UnsupportedOperationError):
            await call(channel, V0_3, ops.SEND_MESSAGE, hello())
        card = app.table.site("two").service.cards.card("http://127.0.0.1:8080/agents/two")
        (face,) = [face for face in card.interfaces if face.binding == "GRPC"]
        assert (face.version, face.tenant) == ("1.0", "two")


async def test_a_version_that_is_not_the_services_is_refused() -> None:
    async with channel_to(App(echo_agent())) as (channel, _):
        for dialect, stated in ((V1_0, "0.3"), (V0_3, "1.0"), (V1_0, "9.9")):
            with pytest.raises(VersionNotSupportedError):
                await call(channel, dialect, ops.GET_TASK, r.GetTaskRequest("x"), a2a_version=stated)
        assert (await call(channel, V1_0, ops.SEND_MESSAGE, hello(), a2a_version="1.0")).artifacts


async def test_a_stream_is_taken_up_from_a_cursor_in_the_metadata() -> None:
    async with channel_to(App(echo_agent())) as (channel, _):
        rpc = V1_0.rpc(ops.SEND_STREAMING_MESSAGE)
        data = V1_0.encode_request(ops.SEND_STREAMING_MESSAGE, hello("count 3")).SerializeToString()
        events = [V1_0.decode_event(rpc.response.FromString(m)) async for m in channel.unary_stream(rpc.path)(data)]
        rpc = V1_0.rpc(ops.SUBSCRIBE_TO_TASK)
        request = r.SubscribeToTaskRequest(events[0].id)  # type: ignore[union-attr]
        data = V1_0.encode_request(ops.SUBSCRIBE_TO_TASK, request).SerializeToString()
        follow = channel.unary_stream(rpc.path)(data, metadata=(("last-event-id", "4"),))
        rest = [V1_0.decode_event(rpc.response.FromString(m)) async for m in follow]
        assert rest == events[3:]


async def test_events_say_their_numbers_to_callers_who_want_them() -> None:
    async with channel_to(App(echo_agent())) as (channel, _):
        rpc = V1_0.rpc(ops.SEND_STREAMING_MESSAGE)
        data = V1_0.encode_request(ops.SEND_STREAMING_MESSAGE, hello("count 2")).SerializeToString()
        follow = channel.unary_stream(rpc.path)(data, metadata=(("a2a-extensions", CURSOR.uri),))
        events: list[Any] = [V1_0.decode_event(rpc.response.FromString(m)) async for m in follow]
        assert [event.metadata for event in events] == [{CURSOR.uri: number} for number in (2, 3, 4, 5, 6)]
        assert dict(await follow.initial_metadata())["a2a-extensions"] == CURSOR.uri


async def test_a_stream_that_is_cut_says_where_to_go_on() -> None:
    app = App(echo_agent(), drain_seconds=0)
    async with channel_to(app) as (channel, _):
        rpc = V1_0.rpc(ops.SEND_STREAMING_MESSAGE)
        data = V1_0.encode_request(ops.SEND_STREAMING_MESSAGE, hello("wait")).SerializeToString()
        stream = channel.unary_stream(rpc.path)(data)
        messages = aiter(stream)
        await anext(messages)
        await app.drain()
        with pytest.raises(grpc.aio.AioRpcError) as cut:
            [message async for message in messages]
        assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
        details: Any = dict(cut.value.trailing_metadata() or ())["grpc-status-details-bin"]
        error = decode_status("UNAVAILABLE", "", details)
        assert isinstance(error, UnavailableError)
        assert int(error.details["lastEventId"]) >= 3


async def test_an_idle_stream_is_told_to_come_back() -> None:
    app = App(echo_agent(), limits=ServerLimits(idle_stream_seconds=0.1), drain_seconds=0)
    async with channel_to(app) as (channel, _):
        rpc = V1_0.rpc(ops.SEND_STREAMING_MESSAGE)
        data = V1_0.encode_request(ops.SEND_STREAMING_MESSAGE, hello("wait")).SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError, match="The stream was idle"):
            [message async for message in channel.unary_stream(rpc.path)(data)]


async def test_limits_are_told_with_a_time_to_come_back() -> None:
    rates = RateLimits(requests_per_second=0.001, request_burst=1)
    async with channel_to(App(echo_agent(), limits=ServerLimits(rates=rates))) as (channel, _):
        await call(channel, V1_0, ops.SEND_MESSAGE, hello())
        with pytest.raises(RateLimitedError) as refusal:
            await call(channel, V1_0, ops.SEND_MESSAGE, hello(id="m-2"))
        cause: Any = refusal.value.__cause__
        assert int(dict(cause.trailing_metadata())["retry-after"]) >= 1


async def test_a_message_that_is_too_long_is_refused() -> None:
    async with channel_to(App(echo_agent(), limits=ServerLimits(body_bytes=10_000))) as (channel, _):
        with pytest.raises(RateLimitedError):  # RESOURCE_EXHAUSTED, from gRPC itself
            await call(channel, V1_0, ops.SEND_MESSAGE, hello("x" * 20_000))
        assert (await call(channel, V1_0, ops.SEND_MESSAGE, hello())).artifacts


async def test_tools_find_out_what_is_served() -> None:
    async with channel_to(App(echo_agent())) as (channel, server):
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "lf.a2a.v1.A2AService", "a2a.v1.A2AService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="lf.a2a.v1.A2AService"),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="a2a.v1.A2AService"),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="grpc.health.v1.Health"),
        ]
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        listed, *found = [answer async for answer in stub.ServerReflectionInfo(iter(asked))]
        assert {service.name for service in listed.list_services_response.service} == {
            "lf.a2a.v1.A2AService",
            "a2a.v1.A2AService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        assert all(answer.file_descriptor_response.file_descriptor_proto for answer in found)
        await server.stop()


async def test_a_port_that_is_taken_is_an_error() -> None:
    app = App(echo_agent())
    async with channel_to(app) as (_, server):
        port = int((app.table.site("echo").service.cards.card("http://h").interfaces[2].url).rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            await GrpcServer(app).start("127.0.0.1", port)
        del server


@pytest.mark.parametrize(
    ("peer", "address"),
    [("ipv4:127.0.0.1:5000", "127.0.0.1"), ("ipv6:%5B::1%5D:5000", "::1"), ("unix:/tmp/x", ""), ("", "")],
)
async def test_the_address_in_grpcs_name_of_a_peer(peer: str, address: str) -> None:
    assert _address(peer) == address
