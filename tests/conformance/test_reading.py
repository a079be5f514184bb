"""Rules about reading, listing and cancelling tasks."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from parley.protocol import operations as ops
from parley.protocol.errors import InvalidParamsError, TaskNotCancelableError, TaskNotFoundError, UnauthenticatedError
from parley.protocol.messages import TextPart
from parley.protocol.requests import ListTasksRequest
from parley.protocol.tasks import TaskState
from tests.conformance.matrix import GRPC, JSONRPC, REST, V0_1, V0_2, V0_3, V1_0, matrix, rule
from tests.conformance.peer import Peer
from tests.conformance.serve import ALICE, BOB

pytestmark = pytest.mark.anyio


@rule("G1.15")
@matrix(V1_0)
async def test_no_more_history_than_asked_for(peer: Peer) -> None:
    task = await peer.send("ask")
    done = await peer.send("yes", task=task)
    whole = (await peer.get(done.id)).history
    assert len(whole) >= 2
    assert (await peer.get(done.id, history_length=1)).history == whole[-1:]
    assert (await peer.get(done.id, history_length=0)).history == ()
    assert len((await peer.send("hello", history_length=0)).history) == 0


@rule("G1.15", "G2.20")
@matrix(V0_1, V0_2, V0_3, V1_0)
async def test_a_negative_history_length_is_invalid(peer: Peer) -> None:
    task = await peer.send("hello")
    with pytest.raises(InvalidParamsError):
        await peer.get(task.id, history_length=-1)


@rule("G1.16", "G1.49", "G2.13")
@matrix(app="secured")
async def test_an_unknown_task_and_a_foreign_one_look_the_same(peer: Peer) -> None:
    async with peer.at("secured", ALICE) as alice, peer.at("secured", BOB) as bob:
        task = await alice.send("ask")
        with pytest.raises(TaskNotFoundError) as foreign:
            await bob.get(task.id)
        with pytest.raises(TaskNotFoundError) as absent:
            await bob.get("absent")
        assert foreign.value.message == absent.value.message
        for refused in (bob.cancel(task.id), bob.register(task.id, "https://hooks.example/")):
            with pytest.raises(TaskNotFoundError):
                await refused
        with pytest.raises(TaskNotFoundError):
            await anext(bob.subscribe(task.id))
        assert (await alice.get(task.id)).status.state is TaskState.INPUT_REQUIRED


@rule("G1.16", "G1.2")
@matrix(V0_2, V0_3, V1_0, app="secured")
async def test_a_foreign_task_takes_no_message(peer: Peer) -> None:
    async with peer.at("secured", ALICE) as alice, peer.at("secured", BOB) as bob:
        task = await alice.send("ask")
        with pytest.raises(TaskNotFoundError):
            await bob.send("mine", task=task)


@rule("G1.17")
@matrix(V1_0, app="secured")
async def test_a_list_shows_the_callers_own_tasks(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    async with peer.at("secured", ALICE) as alice, peer.at("secured", BOB) as bob:
        task = await alice.send("hello", context_id=context)
        await bob.send("hello", context_id=context)
        page = await alice.list(context_id=context)
        assert [shown.id for shown in page.tasks] == [task.id]
        assert page.total_size == 1


@rule("G1.18", "G1.19", "G1.20")
@matrix(V1_0)
async def test_pages_follow_each_other_newest_first(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    ids = [(await peer.send("hello", context_id=context)).id for _ in range(5)]
    seen: list[str] = []
    token, sizes = None, list[int]()
    while token != "":
        page = await peer.list(context_id=context, page_size=2, page_token=token)
        seen += [task.id for task in page.tasks]
        sizes.append(len(page.tasks))
        assert (page.page_size, page.total_size) == (2, 5)
        token = page.next_page_token
    assert sizes == [2, 2, 1]
    times = [(await peer.get(id)).status.timestamp for id in seen]
    assert sorted(seen) == sorted(ids)
    assert times == sorted(times, key=lambda time: time or 0, reverse=True)


@rule("G1.19")
@matrix(V1_0)
async def test_page_sizes_and_tokens_are_checked(peer: Peer) -> None:
    assert (await peer.list(context_id="nobody's")).page_size == 50
    for request in (ListTasksRequest(page_size=101), ListTasksRequest(page_size=-1), ListTasksRequest(page_token="?")):
        with pytest.raises(InvalidParamsError):
            await peer.call(ops.LIST_TASKS, request)


@rule("G1.19")
@matrix(V1_0, bindings=[JSONRPC, REST])
async def test_a_page_of_nothing_is_refused(peer: Peer) -> None:
    """Protobuf cannot tell 0 from absent where the field has no presence; JSON can."""
    with pytest.raises(InvalidParamsError):
        await peer.list(page_size=0)


@rule("G1.21")
@matrix(V1_0)
async def test_artifacts_are_listed_when_asked_for(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    await peer.send("hello", context_id=context)
    assert (await peer.list(context_id=context)).tasks[0].artifacts == ()
    (task,) = (await peer.list(context_id=context, include_artifacts=True)).tasks
    assert task.artifacts[0].parts == (TextPart("hello"),)


@rule("G1.22")
@matrix(V1_0)
async def test_filters_combine(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    done = await peer.send("hello", context_id=context)
    asked = await peer.send("ask", context_id=context)
    moment = asked.status.timestamp
    assert moment is not None
    (found,) = (await peer.list(context_id=context, state=TaskState.INPUT_REQUIRED)).tasks
    assert found.id == asked.id
    newest = (await peer.list(context_id=context, status_timestamp_after=moment)).tasks[0]
    assert newest.id == asked.id
    later = await peer.list(context_id=context, status_timestamp_after=moment + timedelta(seconds=1))
    assert later.tasks == ()
    both = await peer.list(context_id=context, state=TaskState.COMPLETED, status_timestamp_after=done.status.timestamp)
    assert [task.id for task in both.tasks] == [done.id]


@rule("G1.22")
@matrix(V1_0, bindings=[JSONRPC, REST])
async def test_an_unknown_status_is_invalid(peer: Peer) -> None:
    """The typed request cannot hold one, so it is raw."""
    if peer.binding is REST:
        reply = await peer.http.get("/tasks?status=TASK_STATE_NAPPING")
        assert reply.status_code == 400
        assert reply.json()["error"]["details"][0]["reason"] == "INVALID_PARAMS"
    else:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"status": "TASK_STATE_NAPPING"}}
        assert (await peer.http.post("/", json=body)).json()["error"]["code"] == -32602


@rule("G1.23", "G2.4")
@matrix()
async def test_cancelling(peer: Peer) -> None:
    task = await peer.start("wait")
    canceled = await peer.cancel(task.id)
    assert (canceled.id, canceled.status.state) == (task.id, TaskState.CANCELED)
    finished = await peer.send("hello")
    with pytest.raises(TaskNotCancelableError):
        await peer.cancel(finished.id)
    with pytest.raises(TaskNotFoundError):
        await peer.cancel("absent")


@rule("G2.4", "G2.19", "G1.44")
@matrix()
async def test_every_binding_sends_reads_and_cancels(peer: Peer) -> None:
    task = await peer.send("hello")
    assert task.status.state is TaskState.COMPLETED
    assert task.artifacts[0].parts == (TextPart("hello"),)
    assert (await peer.get(task.id)).artifacts == task.artifacts


@rule("G1.44", "G2.19")
@matrix(V0_3, V1_0, bindings=[GRPC], stores=["memory"])
async def test_a_task_is_the_same_through_every_binding(peer: Peer) -> None:
    task = await peer.send("hello")
    for binding in (JSONRPC, REST):
        async with Peer(peer.version, binding, peer.places, peer.store) as other:
            assert await other.get(task.id) == await peer.get(task.id)


@rule("G1.48", "G1.49", "G2.13")
@matrix(app="secured")
async def test_nothing_is_looked_up_for_strangers(peer: Peer) -> None:
    with pytest.raises(UnauthenticatedError):
        await peer.get("absent")
    with pytest.raises(UnauthenticatedError):
        await peer.send("hello")
    with pytest.raises(UnauthenticatedError):
        await peer.stream_of("hello")


@rule("G1.47")
@matrix(V1_0)
async def test_a_tenant_is_part_of_what_a_caller_sees(peer: Peer) -> None:
    peer.tenant = "acme"
    task = await peer.send("hello")
    assert (await peer.get(task.id)).id == task.id
    for other in ("evil", None):
        peer.tenant = other
        with pytest.raises(TaskNotFoundError):
            await peer.get(task.id)
