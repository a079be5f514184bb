"""ASGI applications called in process: replies stream, readers that go are noticed, failures are failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley.client.client import Client
from parley.client.errors import ForbiddenTargetError
from parley.client.transports import in_process
from parley.client.transports.in_process import InProcess
from parley.network.errors import BrokenConnectionError, ReadTimeoutError
from parley.network.http import HttpRequest, HttpResponse
from parley.network.urls import parse_url
from parley.protocol.cards import Binding
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StatusUpdate
from parley.server.app import App
from tests.deadlines import fail_after
from tests.server.serving import echo_agent

pytestmark = pytest.mark.anyio

URL = "http://agent.example"


async def start(send: Any, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})


async def say(send: Any, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


NEVER = float("inf")


@asynccontextmanager
async def reply_of(app: Any, verb: str = "GET", path: str = "/", body: bytes = b"") -> AsyncGenerator[HttpResponse]:
    reply = await InProcess(app).send(HttpRequest(verb, parse_url(URL + path), {}, body), NEVER)
    try:
        yield reply
    finally:
        await reply.close()


async def all_of(reply: HttpResponse) -> bytes:
    body = b""
    while chunk := await reply.read(NEVER):
        body += chunk
    return body


async def test_an_app_is_a_whole_agent() -> None:
    app = App(echo_agent())
    with fail_after(5):
        async with app.running(), Client(URL, app=app) as client:
            assert (await client.send("hello")).text == "hello"
            updates = [update async for update in client.stream("count 3")]
            assert (len(updates), updates[-1].seen.is_over) == (6, True)
            asked = await client.send("ask")
            assert (asked.question, (await asked.answer("blue")).text) == ("What?", "blue")


async def test_a_stream_shows_what_happens_before_it_is_over() -> None:
    app = App(echo_agent())
    with fail_after(5):
        async with app.running(), Client(URL, app=app, bindings=[Binding.HTTP_JSON]) as client:
            async for update in client.stream("wait"):
                if isinstance(update.event, StatusUpdate) and update.event.status.message:
                    break  # the agent waits for ever, and it said so
            assert update.seen.task_id is not None
            assert (await client.cancel(update.seen.task_id)).state == "canceled"


async def test_a_request_arrives_whole() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["method"], scope["path"], scope["raw_path"], scope["query_string"], await receive()))
        await start(send, 201)
        await send({"type": "http.response.body", "body": b"made"})

    async with reply_of(app, "POST", "/a%20b?c=d", b"body") as reply:
        assert (reply.status, await all_of(reply), reply.headers["content-type"]) == (201, b"made", "text/plain")
    body = {"type": "http.request", "body": b"body", "more_body": False}
    assert seen == [("POST", "/a b", b"/a%20b", b"c=d", body)]


async def test_an_app_is_no_faster_than_its_reader_and_notices_when_that_has_gone() -> None:
    sent: list[int] = []
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        try:
            for number in range(1_000):
                await say(send, str(number))
                sent.append(number)
        except OSError:
            ended.set()

    with fail_after(5):
        async with reply_of(app) as reply:
            assert [await reply.read(NEVER), await reply.read(NEVER)] == [b"0", b"1"]
            assert len(sent) < 5
        await ended.wait()


async def test_an_app_that_waits_is_told_that_its_reader_has_gone() -> None:
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await start(send)
        await say(send, "first")
        assert await receive() == {"type": "http.disconnect"}
        ended.set()

    with fail_after(5):
        async with reply_of(app) as reply:
            assert await reply.read(NEVER) == b"first"
        assert ended.is_set()


async def test_an_app_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "DISCONNECT_SECONDS", 0.01)
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with fail_after(5):
        async with reply_of(app):
            pass
        assert ended.is_set()


async def test_an_app_is_ended_also_if_nobody_waits_for_its_end() -> None:
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with fail_after(5):
        reply = await InProcess(app).send(HttpRequest("GET", parse_url(URL), {}), NEVER)
        closing = asyncio.ensure_future(reply.close())
        await asyncio.sleep(0)
        closing.cancel()
        await ended.wait()
        with pytest.raises(BrokenConnectionError):
            await reply.read(NEVER)


@pytest.mark.parametrize(("name", "value"), [("content-length", "1"), ("x", "ä"), ("x", "a\nb")])
async def test_an_app_gets_no_request_that_could_not_be_sent(name: str, value: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)

    with pytest.raises(LocalProtocolError):
        await InProcess(app).send(HttpRequest("GET", parse_url(URL), {name: value}), NEVER)


async def test_what_an_app_raises_before_it_replies_is_raised() -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("broken")

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        """Say nothing."""

    for app, error in (failing, ValueError), (silent, RuntimeError):
        with pytest.raises(error):
            async with reply_of(app):
                pass


async def test_an_app_that_fails_in_the_middle_of_its_reply_breaks_the_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await say(send, "first")
        raise ValueError("broken")

    async with reply_of(app) as reply:
        with pytest.raises(BrokenConnectionError):
            await all_of(reply)


async def test_an_app_that_says_nothing_is_not_waited_for_for_ever() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await receive()
        await receive()

    async with reply_of(silent) as reply:
        with pytest.raises(ReadTimeoutError):
            await reply.read(asyncio.get_running_loop().time())


async def test_an_app_in_process_has_no_grpc() -> None:
    app = App(echo_agent())
    app.announce_grpc(50051)
    async with app.running():
        async with Client(URL, app=app, bindings=[Binding.GRPC, Binding.JSONRPC]) as client:
            assert (client.interface.binding, (await client.send("hello")).text) == (Binding.JSONRPC, "hello")
        with pytest.raises(ForbiddenTargetError, match="cannot be called over gRPC"):
            async with Client(URL, app=app, bindings=[Binding.GRPC]):
                pass
