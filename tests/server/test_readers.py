"""What readers of streams cost: nothing once they have gone, little while they wait, a bounded amount while they crawl.

The server is in the test's own process, so that objects and bytes can be counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any

import grpc
import grpc.aio
import httpx2
import pytest

from parley import Agent, Turn
from parley.dialects import protobuf_v1_0
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.limits import ServerLimits
from parley.wire.sse import Decoder
from tests.cycles import no_cycles
from tests.server.serving import echo_agent, running, send
from tests.server.test_streams import frames_of, streamed, subscribe

pytestmark = pytest.mark.anyio

KILOBYTE, MEGABYTE = 1_000, 1_000_000
HASTY = ServerLimits(heartbeat_seconds=0.06, idle_stream_seconds=0.4)


# --- what is left behind ----------------------------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def read_and_hang_up(client: httpx2.AsyncClient, verb: str, path: str, body: Any = None) -> None:
    async with client.stream(verb, path, json=body) as reply, aclosing(frames_of(reply)) as frames:
        await anext(frames)


async def test_readers_who_leave_in_whatever_way_leave_no_cycles_behind() -> None:
    app = App(echo_agent(), drain_seconds=0)
    async with running(app) as client:
        asked = send("ask", message_id="asked")
        task_id = (await client.post("/", json=asked)).json()["result"]["task"]["id"]
        with no_cycles():
            for n in range(3):
                waits = send("wait", message_id=f"hung up {n}", method="SendStreamingMessage")
                await read_and_hang_up(client, "POST", "/", waits)
                await read_and_hang_up(client, "POST", "/", subscribe(task_id))
                await read_and_hang_up(client, "GET", f"/tasks/{task_id}:subscribe")
                await streamed(client, send("count 9", message_id=f"read {n}", method="SendStreamingMessage"))
                await client.post("/", json=subscribe("absent"))
                await client.get("/tasks/absent:subscribe")
                await client.get("/tasks/absent")
                await client.post("/", json={**asked, "method": "GetTask", "params": {"id": "absent"}})
                await client.post("/", json={**asked, "method": "message/stream"})  # params of another version
                await client.post("/", content=b"{", headers={"content-type": "application/json"})
            await until(lambda: not len(app.monitor))
            waits = send("wait", message_id="cut off", method="SendStreamingMessage")
            readers = [asyncio.create_task(streamed(client, body)) for body in (waits, subscribe(task_id))]
            await until(lambda: len(app.monitor) == 2)
            await app.drain()
            await asyncio.gather(*readers)
            del readers


async def test_who_waits_idles_or_stalls_leaves_no_cycles_behind() -> None:
    app = App(echo_agent(), limits=HASTY, drain_seconds=0)
    async with running(app) as client:
        with no_cycles():
            await streamed(client, send("wait", message_id="idle", method="SendStreamingMessage"))
            waiting = asyncio.create_task(client.post("/", json=send("wait", message_id="gone")))
            await until(lambda: any(vars(app.monitor.waiting_callers)["_callers"]))
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            del waiting
            await until(lambda: not any(vars(app.monitor.waiting_callers)["_callers"]))


async def test_readers_over_grpc_leave_no_cycles_behind() -> None:
    app, dialect = App(echo_agent(), limits=HASTY, drain_seconds=0), protobuf_v1_0.DIALECT
    rpc = dialect.rpc(ops.SUBSCRIBE_TO_TASK)

    def asking(task_id: str) -> bytes:
        request = r.SubscribeToTaskRequest(task_id)
        return dialect.encode_request(ops.SUBSCRIBE_TO_TASK, request).SerializeToString()

    async with running(app) as client:
        task_id = (await client.post("/", json=send("ask", message_id="m"))).json()["result"]["task"]["id"]
        server = GrpcServer(app)
        port = await server.start("127.0.0.1", 0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with no_cycles():
                for _ in range(3):
                    left = channel.unary_stream(rpc.path)(asking(task_id))
                    await left.read()
                    left.cancel()
                    for id, code in ((task_id, grpc.StatusCode.UNAVAILABLE), ("absent", grpc.StatusCode.NOT_FOUND)):
                        cut = channel.unary_stream(rpc.path)(asking(id))
                        with suppress(grpc.aio.AioRpcError):
                            while await cut.read() is not grpc.aio.EOF:
                                pass
                        assert await cut.code() is code
                    await until(lambda: not any(vars(vars(app.engine)["feeds"])["_feeds"]))
        await server.stop()


# --- what is held -----------------------------------------------------------------------------------------------------


def big_agent() -> Agent:
    """An agent that says so many chunks of so many bytes as it hears, and then asks something."""
    agent = Agent("Big")

    @agent.on_message
    async def answer(turn: Turn) -> Any:
        chunks, size = turn.text.split()
        for _ in range(int(chunks)):
            yield "x" * int(size)
        await turn.ask("What next?")

    return agent


@asynccontextmanager
async def following(
    client: httpx2.AsyncClient, task_id: str, **headers: Any
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A subscription of which no more is read than fits into a few kilobytes, unless the test reads."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KILOBYTE)
    door.connect((client.base_url.host, client.base_url.port))
    reader, writer = await asyncio.open_connection(sock=door, limit=4 * KILOBYTE)
    body = json.dumps(subscribe(task_id)).encode()
    stated = {"host": "x", "content-type": "application/json", "content-length": len(body), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in stated.items())
    writer.write(f"POST / HTTP/1.1\r\n{head}\r\n".encode() + body)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@contextmanager
def growing() -> Generator[Callable[[], int]]:
    """How many bytes this process has taken since the block began."""
    gc.collect()
    tracemalloc.start()
    begun = tracemalloc.get_traced_memory()[0]

    def grown() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - begun

    try:
        yield grown
    finally:
        tracemalloc.stop()


def streams_of(app: App) -> list[Any]:
    return list(vars(app.monitor)["_streams"])


async def test_an_idle_reader_holds_nothing_of_what_it_has_read(tmp_path: Any) -> None:
    readers = 5
    app = App(big_agent(), store=f"sqlite:///{tmp_path}/tasks.db", drain_seconds=0)
    async with running(app) as client, AsyncExitStack() as stack:
        asked = send("4 1000000", message_id="m-1", configuration={"historyLength": 0})
        task_id = (await client.post("/", json=asked)).json()["result"]["task"]["id"]
        channel = await grpc_channel(app, stack)
        dialect = protobuf_v1_0.DIALECT
        request = r.SubscribeToTaskRequest(task_id)
        data = dialect.encode_request(ops.SUBSCRIBE_TO_TASK, request).SerializeToString()
        with growing() as grown:
            for _ in range(readers):
                reader, _ = await stack.enter_async_context(following(client, task_id))
                seen = 0
                while seen < 4 * MEGABYTE:
                    seen += len(await reader.read(65_536))
                over_grpc = channel.unary_stream(dialect.rpc(ops.SUBSCRIBE_TO_TASK).path)(data)
                assert len(await over_grpc.read()) > 4 * MEGABYTE
                stack.callback(over_grpc.cancel)
            await until(lambda: all(stream.writing_since is None for stream in streams_of(app)))
            assert len(streams_of(app)) == readers
            assert grown() < 2 * readers * 100 * KILOBYTE


async def grpc_channel(app: App, stack: AsyncExitStack) -> grpc.aio.Channel:
    server = GrpcServer(app)
    port = await server.start("127.0.0.1", 0)
    stack.push_async_callback(server.stop)
    options = [("grpc.max_receive_message_length", -1)]
    return await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options))


async def test_a_reader_that_crawls_through_a_long_stream_holds_a_piece_of_it(tmp_path: Any) -> None:
    readers = 10
    app = App(big_agent(), store=f"sqlite:///{tmp_path}/tasks.db", drain_seconds=0)
    async with running(app) as client, AsyncExitStack() as stack:
        asked = send("200 60000", message_id="m-1", configuration={"historyLength": 0})
        task_id = (await client.post("/", json=asked)).json()["result"]["task"]["id"]
        with growing() as grown:
            for _ in range(readers):
                await stack.enter_async_context(following(client, task_id, **{"last-event-id": 0}))
            await until(lambda: len(streams_of(app)) == readers)
            await until(lambda: all(stream.writing_since is not None for stream in streams_of(app)))
            assert grown() < readers * 700 * KILOBYTE  # of 12 MB each


async def test_snapshots_that_nobody_takes_share_the_room_of_long_bodies() -> None:
    """An address has a quarter of the room, which is one snapshot here. Who gets none is told so."""
    app = App(big_agent(), limits=ServerLimits(bodies_bytes=48 * MEGABYTE), drain_seconds=0)
    async with running(app) as client, AsyncExitStack() as stack:
        asked = send("1 11000000", message_id="m-1", configuration={"historyLength": 0})
        task_id = (await client.post("/", json=asked)).json()["result"]["task"]["id"]
        reader, writer = await stack.enter_async_context(following(client, task_id))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        refused = await client.post("/", json=subscribe(task_id))
        assert refused.status_code == 429
        writer.transport.abort()
        await until(lambda: not streams_of(app))
        async with client.stream("POST", "/", json=subscribe(task_id)) as reply:
            decoder = Decoder(max_frame_bytes=12 * MEGABYTE)
            async for chunk in reply.aiter_bytes():
                if frames := decoder.feed(chunk):
                    break
        assert len(json.loads(frames[0].data)["result"]["task"]["artifacts"][0]["parts"][0]["text"]) == 11_000_000
