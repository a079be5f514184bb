"""Rules about streams."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any
from uuid import uuid4

import pytest

from parley.protocol import operations as ops
from parley.protocol.errors import TaskNotFoundError, UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import TextPart
from parley.protocol.tasks import Task, TaskState
from tests.conformance.matrix import JSONRPC, V0_1, V0_2, V0_3, V1_0, matrix, rule
from tests.conformance.peer import Peer
from tests.conformance.serve import REQUIRED

pytestmark = pytest.mark.anyio


def texts(events: list[Any]) -> str:
    """All text that the events' artifacts say."""
    parts = [part for event in events if isinstance(event, ArtifactUpdate) for part in event.artifact.parts]
    return "".join(part.text for part in parts if isinstance(part, TextPart))


@rule("G1.24", "G2.5")
@matrix(app="strict")
async def test_an_agent_that_does_not_stream_refuses_to(peer: Peer) -> None:
    async with peer.at("strict", a2a_extensions=REQUIRED, x_a2a_extensions=REQUIRED) as caller:
        with pytest.raises(UnsupportedOperationError):
            await caller.stream_of("hello")
        task = await caller.send("ask")
        with pytest.raises(UnsupportedOperationError):
            await anext(caller.subscribe(task.id))


@rule("G1.25", "G1.26", "G1.27", "G2.10")
@matrix(V0_2, V0_3, V1_0)
async def test_a_stream_is_a_task_and_then_its_updates_in_order(peer: Peer) -> None:
    first, *updates = await peer.stream_of("count 20")
    assert isinstance(first, Task)
    assert all(isinstance(event, StatusUpdate | ArtifactUpdate) for event in updates)
    assert texts(updates) == "".join(f"{number} " for number in range(20))
    assert updates[-1].status.state is TaskState.COMPLETED
    assert [event for event in updates if isinstance(event, StatusUpdate)][-1] is updates[-1]


@rule("G3.3", "G1.27")
@matrix(V0_1, bindings=[JSONRPC])
async def test_a_stream_of_0_1_appends_chunks_by_index(peer: Peer) -> None:
    """Raw, because the index is 0.1's own."""
    events = await peer.stream_of("count 5")
    assert texts(events) == "0 1 2 3 4 "
    params = {"id": f"t-{uuid4()}", "message": {"role": "user", "parts": [{"type": "text", "text": "count 3"}]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/sendSubscribe", "params": params}
    reply = await peer.http.post("/", json=body)
    frames = [line for line in reply.text.splitlines() if '"artifact"' in line]
    assert [('"index":0' in frame, '"append":true' in frame) for frame in frames] == [
        (True, False),
        (True, True),
        (True, True),
    ]


@rule("G1.26")
@matrix()
async def test_a_stream_closes_when_the_agent_asks(peer: Peer) -> None:
    events = await peer.stream_of("ask")
    assert events[-1].status.state is TaskState.INPUT_REQUIRED


@rule("G1.28", "G1.29", "G2.11")
@matrix()
async def test_all_streams_of_a_task_see_the_same_and_none_touches_another(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    task = await peer.start("hold", context_id=context)
    seen: list[list[Any]] = [[], []]
    async with aclosing(peer.subscribe(task.id)) as one, aclosing(peer.subscribe(task.id)) as two:
        async with aclosing(peer.subscribe(task.id)) as closed:
            await anext(closed)
        seen[0].append(await anext(one))
        seen[1].append(await anext(two))
        await peer.send("open", context_id=context)
        seen[0] += [event async for event in one]
        seen[1] += [event async for event in two]
    assert texts(seen[0][-2:]) == texts(seen[1][-2:]) == "after"
    assert seen[0][-1].status.state is TaskState.COMPLETED
    assert (await peer.get(task.id)).status.state is TaskState.COMPLETED


@rule("G1.29")
@matrix(V0_2, V0_3, V1_0)
async def test_a_subscription_begins_with_the_task(peer: Peer) -> None:
    task = await peer.start("wait")
    async with aclosing(peer.subscribe(task.id)) as events:
        first = await anext(events)
    assert isinstance(first, Task)
    assert first.id == task.id
    await peer.cancel(task.id)


@rule("G1.29")
@matrix(V1_0)
async def test_nobody_subscribes_to_a_finished_task(peer: Peer) -> None:
    task = await peer.send("hello")
    with pytest.raises(UnsupportedOperationError):
        await anext(peer.subscribe(task.id))


@rule("G1.29")
@matrix()
async def test_nobody_subscribes_to_an_unknown_task(peer: Peer) -> None:
    with pytest.raises(TaskNotFoundError):
        await anext(peer.subscribe("absent"))


@rule("G2.11")
@matrix(V0_1, V0_2, V0_3)
async def test_before_1_0_a_finished_task_gives_its_final_status(peer: Peer) -> None:
    task = await peer.send("hello")
    (event,) = [event async for event in peer.subscribe(task.id)]
    assert isinstance(event, StatusUpdate)
    assert event.status.state is TaskState.COMPLETED


@rule("G1.31")
@matrix()
async def test_a_client_that_goes_away_cancels_nothing(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    request = peer.request(peer.message("hold", context_id=context))
    async with aclosing(peer.stream(ops.SEND_STREAMING_MESSAGE, request)) as events:
        first = await anext(events)
    task_id = first.id if isinstance(first, Task) else first.task_id
    await peer.send("open", context_id=context)
    async with aclosing(peer.subscribe(task_id, after="0")) as events:
        seen = [event async for event in events]
    assert seen[-1].status.state is TaskState.COMPLETED
    assert (await peer.get(task_id)).status.state is TaskState.COMPLETED


@rule("G2.10", "G1.27")
@matrix(bindings=[JSONRPC])
async def test_frames_have_ids_and_a_cursor_resumes_after_one(peer: Peer) -> None:
    """Raw, because ids are not part of an event."""
    request = peer.request(peer.message("count 4"))
    verb, path, body = peer.http_request(ops.SEND_STREAMING_MESSAGE, request)
    reply = await peer.http.request(verb, path, content=body, headers=peer.http_headers())
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    ids = [int(line[4:]) for line in reply.text.splitlines() if line.startswith("id: ")]
    assert ids == sorted(set(ids))
    assert all('"id":"r-1"' in line for line in reply.text.splitlines() if line.startswith("data: "))
    (task_id,) = {
        event.id if isinstance(event, Task) else event.task_id
        async for event in peer.stream(ops.SEND_STREAMING_MESSAGE, request)
    }
    rest = [event async for event in peer.subscribe(task_id, after=str(ids[-3]))]
    assert texts(rest) == "3 "
    assert rest[-1].status.state is TaskState.COMPLETED


@rule("G2.10")
@matrix(V0_2, V0_3, bindings=[JSONRPC])
async def test_final_marks_the_end_and_nothing_else(peer: Peer) -> None:
    """Raw, because canonical events have no such mark."""
    verb, path, body = peer.http_request(ops.SEND_STREAMING_MESSAGE, peer.request(peer.message("count 2")))
    reply = await peer.http.request(verb, path, content=body, headers=peer.http_headers())
    data = [line for line in reply.text.splitlines() if line.startswith("data: ")]
    assert ['"final":true' in line for line in data] == [False] * (len(data) - 1) + [True]
