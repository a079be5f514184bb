"""Streams over HTTP: cursors, heartbeats, and streams that must be cut."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from parley.server.app import App
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.streams import SseStream, StreamMonitor
from parley.server.limits import ServerLimits
from parley.wire.sse import Decoder, Frame
from tests.server.serving import echo_agent, running, send

pytestmark = pytest.mark.anyio


async def frames_of(reply: httpx2.Response) -> Any:
    decoder = Decoder()
    async for chunk in reply.aiter_bytes():
        for frame in decoder.feed(chunk):
            yield frame


def result_of(frame: Frame) -> Any:
    return json.loads(frame.data)["result"]


async def streamed(client: httpx2.AsyncClient, body: Any, **headers: str) -> list[Frame]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("POST", "/", json=body, headers=named) as reply:
        return [frame async for frame in frames_of(reply)]


def subscribe(task_id: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}


async def test_a_stream_can_be_taken_up_after_any_frame() -> None:
    async with running(App(echo_agent())) as client:
        body = send("count 5", message_id="m-1", method="SendStreamingMessage")
        frames = await streamed(client, body)
        task_id = result_of(frames[0])["task"]["id"]
        for place, frame in enumerate(frames):
            rest = await streamed(client, subscribe(task_id), last_event_id=frame.id)
            assert [f.data for f in rest] == [f.data for f in frames[place + 1 :]]
            again = await streamed(client, body, last_event_id=frame.id)  # the same message, sent again
            assert [f.data for f in again] == [f.data for f in frames[place + 1 :]]


async def test_rest_streams_have_the_same_ids() -> None:
    async with running(App(echo_agent())) as client:
        params = send("count 3", message_id="m-1")["params"]
        async with client.stream("POST", "/message:stream", json=params) as reply:
            frames = [frame async for frame in frames_of(reply)]
        assert (reply.headers["cache-control"], reply.headers["x-accel-buffering"]) == ("no-store", "no")
        task_id = json.loads(frames[0].data)["task"]["id"]
        for verb in ("GET", "POST"):
            headers = {"last-event-id": frames[1].id}
            async with client.stream(verb, f"/tasks/{task_id}:subscribe", headers=headers) as reply:
                assert [frame.data async for frame in frames_of(reply)] == [frame.data for frame in frames[2:]]


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 20, "1.5", "4711"])
async def test_a_cursor_that_no_event_has_is_refused(cursor: str) -> None:
    async with running(App(echo_agent())) as client:
        frames = await streamed(client, send("hi", message_id="m-1", method="SendStreamingMessage"))
        task_id = result_of(frames[0])["task"]["id"]
        reply = await client.post("/", json=subscribe(task_id), headers={"last-event-id": cursor})
        assert reply.json()["error"]["code"] == -32602


async def test_a_replay_marks_the_end_only_where_it_is() -> None:
    """0.3: an answered question is not the end of the stream that replays it."""
    message = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "ask"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    async with running(App(echo_agent())) as client:
        task = (await client.post("/", json=body)).json()["result"]
        answer = {**message, "messageId": "m-2", "taskId": task["id"], "parts": [{"kind": "text", "text": "blue"}]}
        await client.post("/", json={**body, "params": {"message": answer}})
        replay = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": task["id"]}}
        frames = await streamed(client, replay, last_event_id="1")
    seen = [result_of(frame) for frame in frames]
    statuses = [(event["status"]["state"], event["final"]) for event in seen if event["kind"] == "status-update"]
    assert statuses == [("working", False), ("input-required", False), ("working", False), ("completed", True)]


async def test_before_1_0_a_stream_that_fails_at_once_is_one_frame() -> None:
    resubscribe = {"jsonrpc": "2.0", "id": 9, "method": "tasks/resubscribe", "params": {"id": "absent"}}
    async with running(App(echo_agent())) as client:
        (frame,) = await streamed(client, resubscribe)
        error = json.loads(frame.data)
        assert (error["id"], error["error"]["code"], frame.event) == (9, -32001, "message")
        reply = await client.post("/", json=subscribe("absent"))
        assert (reply.headers["content-type"], reply.json()["error"]["code"]) == ("application/json", -32001)
        reply = await client.post("/v1/tasks/absent:subscribe")
        assert reply.status_code == 404


async def test_a_quiet_stream_has_heartbeats_and_an_idle_one_is_told_to_come_back() -> None:
    limits = ServerLimits(heartbeat_seconds=0.06, idle_stream_seconds=1.5)
    async with running(App(echo_agent(), limits=limits, drain_seconds=0)) as client:
        body = send("wait", message_id="m-1", method="SendStreamingMessage")
        async with client.stream("POST", "/", json=body) as reply:
            raw = b"".join([chunk async for chunk in reply.aiter_bytes()])
        assert b"\n\n:\n\n" in raw
        *events, last = Decoder().feed(raw)
        error = json.loads(last.data)["error"]
        assert (last.event, error["data"][0]["reason"]) == ("error", "UNAVAILABLE")
        assert error["data"][0]["metadata"] == {"lastEventId": events[-1].id}


async def test_rest_streams_are_cut_with_an_error_event() -> None:
    app = App(echo_agent(), drain_seconds=0)
    async with running(app) as client:
        params = send("wait", message_id="m-1")["params"]
        async with (
            client.stream("POST", "/message:stream", json=params) as reply,
            aclosing(frames_of(reply)) as frames,
        ):
            await anext(frames)
            draining = asyncio.create_task(app.drain())
            last = [frame async for frame in frames][-1]
            await draining
    assert last.event == "error"
    assert json.loads(last.data)["error"]["code"] == 503


async def test_a_reader_that_goes_away_leaves_nothing_behind() -> None:
    app = App(echo_agent(), drain_seconds=0)
    async with running(app) as client:
        body = send("wait", message_id="m-1", method="SendStreamingMessage")
        for _ in range(3):
            async with client.stream("POST", "/", json=body) as reply:
                await anext(frames_of(reply))
                assert len(app.monitor) == 1
            while len(app.monitor):
                await asyncio.sleep(0)


async def test_a_reader_that_stalls_is_cut_and_may_come_back() -> None:
    limits = ServerLimits(heartbeat_seconds=0.06, stalled_seconds=0.1)
    app = App(echo_agent(), limits=limits, drain_seconds=0)
    async with running(app) as client:
        host, port = client.base_url.host, client.base_url.port
        reader, writer = await asyncio.open_connection(host, port, limit=1_000)
        body = json.dumps(send("count 60000", message_id="m-1", method="SendStreamingMessage")).encode()
        head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        while not len(app.monitor):
            await asyncio.sleep(0)
        while len(app.monitor):
            await asyncio.sleep(0.01)
        writer.close()
        page = (await client.get("/tasks")).json()
        task = (await client.get(f"/tasks/{page['tasks'][0]['id']}")).json()
        assert task["status"]["state"] in ("TASK_STATE_WORKING", "TASK_STATE_COMPLETED")
        del reader


async def test_a_reader_that_comes_back_to_a_quiet_task_is_looked_after_like_any_other() -> None:
    """It has everything there is, so nothing comes; still it gets headers and heartbeats, and leaves nothing behind."""
    limits = ServerLimits(heartbeat_seconds=0.06, idle_stream_seconds=60)
    app = App(echo_agent(), limits=limits, drain_seconds=0)
    async with running(app) as client:
        task = (await client.post("/", json=send("ask", message_id="m-1"))).json()["result"]["task"]
        frames = await streamed(client, subscribe(task["id"]), last_event_id="0")
        headers = {"last-event-id": frames[-1].id}
        async with client.stream("POST", "/", json=subscribe(task["id"]), headers=headers) as reply:
            assert reply.status_code == 200
            assert await anext(reply.aiter_bytes()) == b":\n\n"
        while len(app.monitor):
            await asyncio.sleep(0.01)


async def test_readers_who_are_cut_off_together_are_each_told_their_own_place() -> None:
    app = App(echo_agent(), drain_seconds=0)
    async with running(app) as client:
        task = (await client.post("/", json=send("ask", message_id="m-1"))).json()["result"]["task"]
        asked = [frame.id for frame in await streamed(client, subscribe(task["id"]), last_event_id="0")]
        first = asyncio.create_task(streamed(client, send("wait", message_id="m-2", method="SendStreamingMessage")))
        second = asyncio.create_task(streamed(client, subscribe(task["id"])))
        while len(app.monitor) < 2:
            await asyncio.sleep(0)
        await app.drain()
        for frames in await asyncio.gather(first, second):
            *events, last = frames
            assert json.loads(last.data)["error"]["data"][0]["metadata"] == {"lastEventId": events[-1].id}
        assert (await second)[-2].id == asked[-1]


async def test_what_could_not_be_written_is_not_what_a_reader_has_got() -> None:
    """With a request that only takes things down, because no event of an agent fails to be written."""
    written: list[bytes] = []

    class Request:
        address = "192.0.2.1"

        async def start_reply(self, *_: Any) -> None: ...

        async def send_chunk(self, body: bytes, **_: Any) -> None:
            written.append(body)

        async def wait_for_disconnect(self) -> None:
            await asyncio.Event().wait()

    async def events() -> Any:
        yield deque([(1, "one", False)])
        yield deque([(2, "two", False), (3, "three", True)])

    def encode(seq: int, event: Any, ends: bool) -> bytes:
        if seq == 3:
            raise ValueError("cannot be said")
        return event.encode()

    request: Any = Request()
    room = BodyBudget(1_000)
    stream = SseStream(request, events(), encode, lambda _, last: b"cut after %d" % last, lambda: (), room)
    await stream.run(StreamMonitor(ServerLimits()))
    assert written == [b"one", b"cut after 1", b""]
