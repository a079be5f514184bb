"""The three transports, one exchange at a time: what goes over the wire, and what replies and errors mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import grpc.aio
import pytest

from parley.client.errors import TimedOutError, UnreachableError
from parley.client.transports import grpc as grpc_binding
from parley.client.transports.grpc import GrpcTransport
from parley.client.transports.http import retry_after_of
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.dialects.protobuf_status import encode_status
from parley.dialects.protobuf_v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.errors import (
    A2AError,
    InternalError,
    PeerProtocolError,
    RateLimitedError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.extensions import CURSOR
from parley.protocol.requests import GetTaskRequest, ListTasksRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from tests.client.faulty_proxy import Fault, Kind, faulty_proxy
from tests.client.grpc_agent import grpc_agent
from tests.client.open_channel import open_channel
from tests.client.raw_server import STREAM, frame, raw_server, reply, rpc, says
from tests.client.scripted_agent import TASK, status
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

GET = GetTaskRequest(TASK)
SUBSCRIBE = SubscribeToTaskRequest(TASK)
HTTP_BINDINGS = (Binding.JSONRPC, Binding.HTTP_JSON)
DONE = Task(TASK, "c", TaskStatus(TaskState.COMPLETED))
DONE_0_3 = {"kind": "task", "id": TASK, "contextId": "c", "status": {"state": "completed"}}


def failed(code: int, body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Failed\r\n%bcontent-length: %d\r\n\r\n%b" % (code, headers, len(body), body)


@pytest.mark.parametrize("binding", HTTP_BINDINGS)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (401, UnauthenticatedError),
        (429, RateLimitedError),
        (503, UnavailableError),
        (500, InternalError),
        (404, TaskNotFoundError),
    ],
)
async def test_an_http_status_with_a_page_for_people_is_the_error_that_it_stands_for(
    binding: Binding, code: int, error: type[A2AError]
) -> None:
    page = failed(code, b"<html>Sorry</html>", b"content-type: text/html\r\nretry-after: 7\r\n")
    async with raw_server(says(page)) as agent, agent.calls(binding) as calls:
        with pytest.raises(error) as caught:
            await calls.transport.call(ops.GET_TASK, GET, CallOptions())
        assert retry_after_of(caught.value) == 7
        with pytest.raises(error) as caught:
            async for _ in calls.transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions()):
                pass
        assert retry_after_of(caught.value) == 7


async def test_an_error_in_json_rpc_says_when_to_come_back_in_its_header() -> None:
    body = rpc(error={"code": RateLimitedError.row.code, "message": "Slowly"})
    async with raw_server(says(failed(429, body, b"retry-after: 3\r\n"))) as agent, agent.calls() as calls:
        with pytest.raises(RateLimitedError, match="Slowly") as caught:
            await calls.transport.call(ops.GET_TASK, GET, CallOptions())
    assert retry_after_of(caught.value) == 3


@pytest.mark.parametrize(
    ("binding", "failing"),
    [
        (Binding.JSONRPC, frame(rpc(error={"code": -32603, "message": "Broken"}))),
        (Binding.HTTP_JSON, b"event: error\n" + frame(b'{"error": {"code": 500, "message": "Broken"}}')),
    ],
)
async def test_an_error_within_a_stream_is_raised_after_what_came_before(binding: Binding, failing: bytes) -> None:
    event = {"statusUpdate": {"taskId": TASK, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    body = rpc(result=event) if binding is Binding.JSONRPC else json.dumps(event).encode()
    seen: list[ReceivedEvent] = []
    async with raw_server(says(STREAM + b"id: 5\n" + frame(body) + failing)) as agent, agent.calls(binding) as calls:
        events = calls.transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions())
        seen.append(await anext(events))
        with pytest.raises(InternalError, match="Broken"):
            await anext(events)
    assert [(each.event, each.cursor) for each in seen] == [(status(TaskState.WORKING), "5")]
    assert all(each.size > 50 for each in seen)


@pytest.mark.parametrize("binding", HTTP_BINDINGS)
async def test_headers_query_and_cursor_go_along(binding: Binding) -> None:
    sent = CallOptions({"x-mine": "1"}, {"key": "secret"}, after="12")
    async with raw_server(says(STREAM)) as agent, agent.calls(binding) as calls:
        assert [received async for received in calls.transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, sent)] == []
    head = agent.heads[0].lower()
    assert b"key=secret " in head.partition(b"\r\n")[0]
    for line in (b"x-mine: 1", b"last-event-id: 12", b"accept: text/event-stream"):
        assert line in head.split(b"\r\n")


@pytest.mark.parametrize(
    "body", [DONE_0_3, {"id": TASK, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}]
)
async def test_rest_of_0_3_is_read_in_both_shapes_that_are_in_use(body: dict[str, Any]) -> None:
    async with (
        raw_server(says(reply(json.dumps(body).encode()))) as agent,
        agent.calls(Binding.HTTP_JSON, Version.V0_3) as calls,
    ):
        assert await calls.transport.call(ops.GET_TASK, GET, CallOptions()) == DONE


@pytest.mark.parametrize(
    "event",
    [
        {"statusUpdate": {"kind": "status-update", "taskId": TASK, "contextId": "c", "status": {"state": "working"}}},
        {"statusUpdate": {"taskId": TASK, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}},
    ],
)
async def test_streams_of_rest_in_0_3_are_read_in_both_shapes_that_are_in_use(event: dict[str, Any]) -> None:
    stream = STREAM + frame(json.dumps(event).encode())
    async with raw_server(says(stream)) as agent, agent.calls(Binding.HTTP_JSON, Version.V0_3) as calls:
        events = [
            received.event async for received in calls.transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions())
        ]
    assert events == [status(TaskState.WORKING)]


@pytest.mark.parametrize("version", [Version.V0_3, Version.V1_0])
async def test_rest_that_fits_no_shape_is_an_error(version: Version) -> None:
    async with raw_server(says(reply(b'{"id": 7}'))) as agent, agent.calls(Binding.HTTP_JSON, version) as calls:
        with pytest.raises(PeerProtocolError):
            await calls.transport.call(ops.GET_TASK, GET, CallOptions())
    async with raw_server(says(reply(b"{}"))) as agent, agent.calls(Binding.HTTP_JSON, version) as calls:
        with pytest.raises(PeerProtocolError, match="without a stream"):
            async for _ in calls.transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions()):
                pass
    async with raw_server(says(STREAM + frame(b"{}"))) as agent, agent.calls(Binding.HTTP_JSON, version) as calls:
        with pytest.raises(PeerProtocolError):
            async for _ in calls.transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions()):
                pass


@pytest.mark.parametrize(("binding", "version"), [(Binding.JSONRPC, Version.V0_2), (Binding.HTTP_JSON, Version.V0_3)])
async def test_what_a_dialect_has_no_word_for_is_not_sent(binding: Binding, version: Version) -> None:
    async with raw_server(says(b"")) as agent, agent.calls(binding, version) as calls:
        with pytest.raises(UnsupportedOperationError):
            await calls.transport.call(ops.LIST_TASKS, ListTasksRequest(), CallOptions())
    assert agent.heads == []


async def test_where_nobody_listens_nothing_was_sent() -> None:
    channel = open_channel()
    with fail_after(5), pytest.raises(UnreachableError) as caught:
        await channel.exchange("POST", "http://127.0.0.1:1/?key=secret", b"", CallOptions(timeout=2))
    await channel.close()
    assert not caught.value.was_sent
    assert "secret" not in str(caught.value)


# --- gRPC -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text", "details", "error", "seconds"),
    [
        (grpc.StatusCode.UNAVAILABLE, "gone", None, UnreachableError, 0),
        (grpc.StatusCode.UNAVAILABLE, "UnavailableError: draining", None, UnavailableError, 4),
        (grpc.StatusCode.UNAVAILABLE, "draining", UnavailableError("draining"), UnavailableError, 4),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "slowly", None, RateLimitedError, 4),
        (grpc.StatusCode.NOT_FOUND, "none", TaskNotFoundError(), TaskNotFoundError, 4),
    ],
)
async def test_a_grpc_status_is_the_agents_word_or_the_connections_fault(
    code: grpc.StatusCode, text: str, details: A2AError | None, error: type[Exception], seconds: int
) -> None:
    async def refuse(request: bytes, context: Any) -> bytes:
        trailers: list[tuple[str, Any]] = [("retry-after", "4")]
        if details is not None:
            trailers.append(("grpc-status-details-bin", encode_status(details).SerializeToString()))
        await context.abort(code, text, trailing_metadata=tuple(trailers))
        return b""

    async with grpc_agent(refuse) as transport:
        with pytest.raises(error) as caught:
            await transport.call(ops.GET_TASK, GET, CallOptions(timeout=3))
    assert retry_after_of(caught.value) == seconds


async def test_the_number_of_an_event_over_grpc_is_its_cursor_and_not_a_part_of_it() -> None:
    seen: list[Any] = []
    working = TaskStatus(TaskState.WORKING)
    events = [
        StatusUpdate(TASK, "c", working, {CURSOR: 5, "own": "kept"}),
        StatusUpdate(TASK, "c", working, {CURSOR: "five"}),
    ]

    async def follow(request: bytes, context: Any) -> AsyncGenerator[bytes]:
        seen.extend(context.invocation_metadata())
        for event in events:
            yield DIALECT.encode_event(event).SerializeToString()

    async with grpc_agent(None, follow) as transport:
        sent = CallOptions({"A2A-Version": "1.0"}, after="4", timeout=3)
        received = [each async for each in transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, sent)]
    assert [(each.event, each.cursor) for each in received] == [
        (StatusUpdate(TASK, "c", working, {"own": "kept"}), "5"),
        (events[1], None),
    ]
    assert [each.size for each in received] == [
        len(DIALECT.encode_event(event).SerializeToString()) for event in events
    ]
    assert {("a2a-version", "1.0"), ("last-event-id", "4")} <= {(name, value) for name, value in seen}


async def test_a_grpc_server_that_came_back_is_reached_at_once() -> None:
    """gRPC itself would wait a while before it dials again."""
    outcomes = [grpc.StatusCode.UNAVAILABLE, None]

    async def answer(request: bytes, context: Any) -> bytes:
        if code := outcomes.pop(0):
            await context.abort(code, "gone")
        return DIALECT.encode_result(ops.GET_TASK, DONE).SerializeToString()

    async with grpc_agent(answer) as transport:
        with pytest.raises(UnreachableError):
            await transport.call(ops.GET_TASK, GET, CallOptions(timeout=3))
        assert await transport.call(ops.GET_TASK, GET, CallOptions(timeout=3)) == DONE


async def test_a_silent_grpc_stream_lives_as_long_as_its_server_answers_anything() -> None:
    """This server knows nothing of health checks, and says so."""
    may_speak = asyncio.Event()

    async def follow(request: bytes, context: Any) -> AsyncGenerator[bytes]:
        yield DIALECT.encode_event(DONE).SerializeToString()
        await may_speak.wait()
        yield DIALECT.encode_event(DONE).SerializeToString()

    async with grpc_agent(None, follow) as transport:
        events = transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions(timeout=4, quiet=0.02))
        await anext(events)
        asyncio.get_running_loop().call_later(0.2, may_speak.set)
        assert [received.event async for received in events] == [DONE]


async def test_a_grpc_stream_from_which_nothing_can_come_any_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stays open, and nothing passes: nobody is told."""
    monkeypatch.setattr(grpc_binding, "HEALTH_SECONDS", 0.1)

    async def follow(request: bytes, context: Any) -> AsyncGenerator[bytes]:
        yield DIALECT.encode_event(DONE).SerializeToString()
        await asyncio.Event().wait()

    async with grpc_agent(None, follow) as direct, faulty_proxy(int(direct.interface.url.partition(":")[2])) as proxy:
        face = AgentInterface(f"127.0.0.1:{proxy.port}", Binding.GRPC, Version.V1_0)
        sent = CallOptions(timeout=600, quiet=0.1)
        transport = GrpcTransport(face, Version.V1_0)
        whole = transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, CallOptions(timeout=600, quiet=60))
        await anext(whole)
        until_first_event = len(proxy.replies[0])
        await whole.aclose()
        await transport.close()
        proxy.plan(Fault(Kind.STALL, until_first_event - 5))
        transport, before = GrpcTransport(face, Version.V1_0), asyncio.all_tasks()
        with pytest.raises(TimedOutError, match="silent"):
            async for _ in transport.stream(ops.SUBSCRIBE_TO_TASK, SUBSCRIBE, sent):
                pass
        assert not [task for task in asyncio.all_tasks() - before if "_watch_silence" in str(task)]
        await transport.close()
