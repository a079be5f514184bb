"""Servers that mean harm: whatever they send or do not send, a call ends in time and in bounded memory, with an error.

They are written in raw bytes, because no framework would send what they send.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from parley.client.client import Client
from parley.client.errors import ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.guard import Guard
from parley.client.options import Timeouts
from parley.client.streams.resuming import ResumableStream
from parley.client.transports.transport import CallOptions
from parley.dialects.protobuf_v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.errors import PeerProtocolError
from parley.protocol.requests import GetTaskRequest, SubscribeToTaskRequest
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from tests.client.grpc_agent import grpc_agent
from tests.client.open_channel import open_channel
from tests.client.raw_server import BOUNDS, JSON, OK, STREAM, TIMEOUTS, Behaviour, frame, raw_server, reply, rpc, says
from tests.client.scripted_agent import SEND, TASK, card_of, status
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

GET = GetTaskRequest(TASK)

WORKING = {"statusUpdate": {"taskId": TASK, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
FINE = {"id": TASK, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}

HARMFUL_REPLIES: dict[str, tuple[Behaviour, type[Exception], str]] = {
    "headers that never end": (says(OK, then=b"x-more: of the same\r\n" * 500), UnreachableError, "broke"),
    "one header that never ends": (says(OK + b"x: ", then=b"y" * 20_000), UnreachableError, "broke"),
    "headers, a byte at a time": (says(OK, then=b"x", every=0.05), TimedOutError, "did not answer in time"),
    "nothing at all": (says(b"", waits=True), TimedOutError, "did not answer in time"),
    "no HTTP": (says(b"220 mail.example ESMTP\r\n\r\n"), UnreachableError, "broke"),
    "the end at once": (says(b""), UnreachableError, "broke"),
    "a body that never ends": (says(JSON + b"\r\n", then=b" " * 20_000), PeerProtocolError, "more than 100000 bytes"),
    "a body that is larger than allowed": (says(reply(b" " * 200_000)), PeerProtocolError, "more than 100000 bytes"),
    "a body, a byte at a time": (says(JSON + b"\r\n", then=b" ", every=0.05), TimedOutError, "did not answer in time"),
    "a body shorter than it says": (says(JSON + b"content-length: 99\r\n\r\n{}"), UnreachableError, "broke"),
    "a compressed bomb": (
        says(reply(gzip.compress(b" " * 10_000_000), b"content-encoding: gzip\r\n")),
        PeerProtocolError,
        "compresses",
    ),
    "brackets without end": (says(reply(b"[" * 90_000)), PeerProtocolError, "nested too deeply"),
    "a result of brackets": (
        says(reply(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 40_000 + b"]" * 40_000 + b"}")),
        PeerProtocolError,
        "nested too deeply",
    ),
    "no JSON": (says(reply(b"\xff\xfe<html>")), PeerProtocolError, ".+"),
    "half a reply": (says(reply(rpc(result=FINE)[:-9])), PeerProtocolError, ".+"),
    "the reply to another request": (says(reply(rpc(id=77, result=FINE))), PeerProtocolError, "another request: 77"),
    "another task": (says(reply(rpc(result={**FINE, "id": "other"}))), PeerProtocolError, "another task: other"),
    "no task": (says(reply(rpc(result=17))), PeerProtocolError, ".+"),
    "neither result nor error": (says(reply(rpc())), PeerProtocolError, ".+"),
    "an error that is none": (says(reply(rpc(error=[1]))), PeerProtocolError, "error must be an object"),
}


@pytest.mark.parametrize("name", HARMFUL_REPLIES)
async def test_a_harmful_reply_is_an_error_in_time(name: str) -> None:
    behaviour, error, words = HARMFUL_REPLIES[name]
    async with raw_server(behaviour) as agent, agent.calls() as calls:
        with pytest.raises(error, match=words):
            await calls.call(ops.GET_TASK, GET)


HARMFUL_STREAMS: dict[str, tuple[Behaviour, type[Exception], str]] = {
    "headers, a byte at a time": (says(OK, then=b"x", every=0.05), TimedOutError, "did not answer in time"),
    "nothing at all": (says(b"", waits=True), TimedOutError, "did not answer in time"),
    "nothing but headers": (says(STREAM, waits=True), TimedOutError, "did not answer in time"),
    "an endless frame": (says(STREAM + b"data: ", then=b"x" * 20_000), PeerProtocolError, "longer than 20000 bytes"),
    "endless lines": (says(STREAM, then=b"data: x\n" * 2000), PeerProtocolError, "longer than 20000 bytes"),
    "endless comments": (says(STREAM, then=b": hello\n\n" * 2000), PeerProtocolError, "more than 200000 bytes"),
    "a frame, a byte at a time": (says(STREAM + b"data: ", then=b"x", every=0.05), TimedOutError, "frame.*too long"),
    "brackets without end": (says(STREAM + frame(b"[" * 10_000)), PeerProtocolError, "nested too deeply"),
    "no stream": (says(reply(rpc(result=FINE))), PeerProtocolError, "without a stream"),
    "no stream, a byte at a time": (
        says(JSON + b"\r\n", then=b" ", every=0.05),
        TimedOutError,
        "did not answer in time",
    ),
    "events for another request": (
        says(STREAM + frame(rpc(id=7, result=WORKING))),
        PeerProtocolError,
        "another request",
    ),
    "an event that is none": (says(STREAM + frame(rpc(result={"nonsense": 1}))), PeerProtocolError, ".+"),
    "nothing in a frame": (says(STREAM + frame(b"")), PeerProtocolError, ".+"),
    "half a frame": (says(STREAM + frame(rpc(result=WORKING))[:-1]), UnreachableError, "middle of a frame"),
    "no event": (says(STREAM), UnreachableError, "before its first event"),
    "a compressed stream": (says(OK + b"content-encoding: gzip\r\n\r\n"), PeerProtocolError, "compresses"),
}


@pytest.mark.parametrize("name", HARMFUL_STREAMS)
async def test_a_harmful_stream_is_an_error_in_time(name: str) -> None:
    behaviour, error, words = HARMFUL_STREAMS[name]
    async with raw_server(behaviour) as agent, agent.calls() as calls:
        with pytest.raises(error, match=words):
            async for _ in ResumableStream(calls).events(SEND):
                pass


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
async def test_a_stream_of_events_without_end_is_cut_at_its_bound(binding: Binding) -> None:
    event = frame(rpc(result=WORKING) if binding is Binding.JSONRPC else json.dumps(WORKING).encode())
    async with raw_server(says(STREAM, then=event * 200)) as agent, agent.calls(binding) as calls:
        with pytest.raises(PeerProtocolError, match="more than 200000 bytes"):
            async for _ in ResumableStream(calls).events(SEND):
                pass


async def test_a_stream_that_shows_signs_of_life_is_waited_for() -> None:
    done = {"statusUpdate": {**WORKING["statusUpdate"], "status": {"state": "TASK_STATE_COMPLETED"}}}

    async def behave(writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + frame(rpc(result=WORKING)))
        for _ in range(8):
            await asyncio.sleep(TIMEOUTS.quiet / 4)
            writer.write(b":\n\n")
            await writer.drain()
        writer.write(frame(rpc(result=done)))

    async with raw_server(behave) as agent, agent.calls() as calls:
        events = [event async for event in ResumableStream(calls).events(SEND)]
    assert events == [status(TaskState.WORKING), status(TaskState.COMPLETED)]


async def test_a_stream_may_take_long_to_begin_but_a_subscription_may_not() -> None:
    """Some agents have no heartbeats, and say nothing at all before their first event."""
    done = {"statusUpdate": {**WORKING["statusUpdate"], "status": {"state": "TASK_STATE_COMPLETED"}}}

    async def behave(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        writer.write(STREAM + frame(rpc(result=done)))

    timeouts = Timeouts(connect=1, reply=4, quiet=0.1)
    async with raw_server(behave) as agent, agent.calls(timeouts=timeouts) as calls:
        events = [received.event async for received in calls.stream(ops.SEND_STREAMING_MESSAGE, SEND)]
        assert events == [status(TaskState.COMPLETED)]
        with pytest.raises(TimedOutError):
            await anext(calls.stream(ops.SUBSCRIBE_TO_TASK, SubscribeToTaskRequest(TASK)))


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
async def test_a_redirect_is_not_followed_and_takes_no_credentials_along(binding: Binding) -> None:
    async with raw_server(says(reply(rpc(result=FINE)))) as other:
        redirect = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % other.url.encode()
        async with raw_server(says(redirect)) as agent, agent.calls(binding) as calls:
            with pytest.raises(ForbiddenTargetError, match="redirects"):
                await calls.call(ops.SEND_MESSAGE, SEND)
            with pytest.raises(ForbiddenTargetError, match="redirects"):
                async for _ in calls.stream(ops.SEND_STREAMING_MESSAGE, SEND):
                    pass
        assert (len(agent.heads), other.heads) == (2, [])


async def test_cookies_are_not_kept_and_compression_is_not_asked_for() -> None:
    async with raw_server(says(reply(rpc(result=FINE), b"set-cookie: who=you\r\n"))) as agent, agent.calls() as calls:
        await calls.call(ops.GET_TASK, GET)
        with suppress(PeerProtocolError):  # the second request has another id
            await calls.call(ops.GET_TASK, GET)
    assert [b"cookie" in head.lower() for head in agent.heads] == [False, False]
    assert b"accept-encoding: identity" in agent.heads[0].lower()


@pytest.mark.parametrize(
    "url", ["http://agent.example:port/", "http://[::1/", "http://a.example/\r\nx: y", "mailto:a@b.example"]
)
async def test_a_url_that_is_none_is_an_error_of_its_own(url: str) -> None:
    channel = open_channel()
    with pytest.raises(PeerProtocolError):
        await channel.exchange("POST", url, b"", CallOptions())
    await channel.close()


@pytest.mark.parametrize("body", [b"[" * 50_000, b"\xff", b"{}", b'{"task": 3}', b""])
async def test_a_harmful_body_over_rest_is_an_error(body: bytes) -> None:
    async with raw_server(says(reply(body))) as agent, agent.calls(Binding.HTTP_JSON) as calls:
        with pytest.raises(PeerProtocolError):
            await calls.call(ops.SEND_MESSAGE, SEND)


# --- gRPC -------------------------------------------------------------------------------------------------------------


SENT = CallOptions(timeout=4, quiet=4)
SOON = CallOptions(timeout=0.3, quiet=0.3)


async def test_a_grpc_reply_that_is_too_large_is_an_error_and_no_reason_to_come_back() -> None:
    async def huge(request: bytes, context: Any) -> bytes:
        return b"x" * 200_000

    async with grpc_agent(huge, bounds=BOUNDS) as transport:
        with pytest.raises(PeerProtocolError, match="too large"):
            await transport.call(ops.GET_TASK, GET, SENT)


async def test_a_grpc_reply_that_is_no_message_is_an_error() -> None:
    async def garbage(request: bytes, context: Any) -> bytes:
        return b"\xff\xff\xff\xff"

    async with grpc_agent(garbage, bounds=BOUNDS) as transport:
        with pytest.raises(PeerProtocolError):
            await transport.call(ops.GET_TASK, GET, SENT)


async def test_a_grpc_agent_that_says_nothing_is_given_up() -> None:
    async def silent(request: bytes, context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def quiet(request: bytes, context: Any) -> AsyncGenerator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with grpc_agent(silent, quiet, bounds=BOUNDS) as transport:
        with pytest.raises(TimedOutError):
            await transport.call(ops.GET_TASK, GET, SOON)
        with pytest.raises(TimedOutError, match="silent"):
            async for _ in transport.stream(ops.SEND_STREAMING_MESSAGE, SEND, SOON):
                pass


async def test_a_grpc_stream_without_end_is_cut_at_its_bound() -> None:
    event = DIALECT.encode_event(status(TaskState.WORKING, "x" * 1000)).SerializeToString()

    async def endless(request: bytes, context: Any) -> AsyncGenerator[bytes]:
        while True:
            yield event

    async with grpc_agent(None, endless, bounds=BOUNDS) as transport:
        with pytest.raises(PeerProtocolError, match="more than 200000 bytes"):
            async for _ in transport.stream(ops.SEND_STREAMING_MESSAGE, SEND, SENT):
                pass


@pytest.mark.parametrize("tokens", [["same"], [str(number) for number in range(100)]])
async def test_a_list_of_tasks_without_end_is_an_error(tokens: list[str]) -> None:
    """Empty pages, each of which promises another."""
    asked = 0

    async def behave(writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        token = tokens[asked % len(tokens)]
        page = {"tasks": [], "nextPageToken": token, "pageSize": 50, "totalSize": 0}
        writer.write(reply(rpc(id=asked, result=page)))

    async with raw_server(behave) as agent:
        face = AgentInterface(agent.url, Binding.JSONRPC, Version.V1_0)
        async with Client(card_of(interfaces=[face]), guard=Guard(allow_private=True)) as client:
            with fail_after(5), pytest.raises(PeerProtocolError, match="never ends"):
                async for _ in client.list():
                    pass
