"""Rules about sending messages."""

from __future__ import annotations

from uuid import uuid4

import pytest
from msgspec import structs

from parley.protocol import operations as ops
from parley.protocol.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.messages import Message, RawPart, TextPart
from parley.protocol.tasks import Artifact, Task, TaskState
from tests.conformance.matrix import GRPC, JSONRPC, V0_1, V0_2, V0_3, V1_0, matrix, rule
from tests.conformance.peer import Peer
from tests.conformance.serve import REQUIRED

pytestmark = pytest.mark.anyio


@rule("G1.1")
@matrix(V1_0)
async def test_a_finished_task_takes_no_message(peer: Peer) -> None:
    task = await peer.send("hello")
    with pytest.raises(UnsupportedOperationError):
        await peer.send("more", task=task)
    assert await peer.get(task.id) == task


@rule("G2.6")
@matrix(V0_2, V0_3)
async def test_before_1_0_a_message_to_a_finished_task_is_invalid(peer: Peer) -> None:
    """Readers believe the reason that we add; so the code, the status and the name are looked at raw."""
    task = await peer.send("hello")
    request = peer.request(peer.message("more", task_id=task.id))
    if peer.binding is GRPC:
        with pytest.raises(InvalidParamsError):
            await peer.call(ops.SEND_MESSAGE, request)
    else:
        verb, path, body = peer.http_request(ops.SEND_MESSAGE, request)
        reply = await peer.http.request(verb, path, content=body, headers=peer.http_headers())
        code = reply.json()["error"]["code"]
        assert (reply.status_code, code) == ((200, -32602) if peer.binding is JSONRPC else (422, 422))
    assert await peer.get(task.id) == task


@rule("G1.2", "G2.7")
@matrix(V0_2, V0_3, V1_0)
async def test_callers_cannot_choose_the_id_of_a_new_task(peer: Peer) -> None:
    chosen = f"mine-{uuid4()}"
    with pytest.raises(TaskNotFoundError):
        await peer.send("hello", task_id=chosen)
    with pytest.raises(TaskNotFoundError):
        await peer.get(chosen)


@rule("G1.3", "G2.7")
@matrix(V0_2, V0_3, V1_0)
async def test_tasks_get_ids_of_their_own(peer: Peer) -> None:
    first, second = await peer.send("hello"), await peer.send("hello")
    assert first.id
    assert first.id != second.id
    assert await peer.get(first.id) == first


@rule("G1.4")
@matrix(V0_2, V0_3, V1_0)
async def test_a_message_to_a_task_is_in_its_context(peer: Peer) -> None:
    task = await peer.send("ask")
    answered = await peer.send("yes", task=task)
    assert answered.context_id == task.context_id
    other = await peer.send("ask")
    with pytest.raises(InvalidParamsError):
        await peer.send("yes", task=other, context_id=task.context_id)


@rule("G1.5", "G2.7")
@matrix()
async def test_a_context_id_is_kept_or_made(peer: Peer) -> None:
    given = f"context-{uuid4()}"
    assert (await peer.send("hello", context_id=given)).context_id == given
    assert (await peer.send("hello")).context_id


@rule("G1.6")
@matrix(V1_0)
async def test_tasks_of_one_context_are_one_conversation(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    ids = [(await peer.send("hello", context_id=context)).id for _ in range(2)]
    page = await peer.list(context_id=context)
    assert sorted(task.id for task in page.tasks) == sorted(ids)


@rule("G1.7", "G1.25")
@matrix(V0_2, V0_3, V1_0, app="direct")
async def test_a_direct_reply_is_a_message_without_a_task(peer: Peer) -> None:
    reply = await peer.send("hello")
    assert isinstance(reply, Message)
    assert reply.parts == (TextPart("You said hello"),)
    assert reply.task_id is None
    (event,) = await peer.stream_of("hello")
    assert isinstance(event, Message)
    assert event.parts == (TextPart("You said hello"),)
    task = await peer.send("task please")
    assert (type(task), task.status.state) == (Task, TaskState.COMPLETED)
    opening, *_ = await peer.stream_of("task please")
    assert isinstance(opening, Task)


@rule("G1.8", "G2.16")
@matrix(V0_2, V0_3, V1_0)
async def test_a_send_waits_unless_it_is_told_not_to(peer: Peer) -> None:
    assert (await peer.send("hello")).status.state is TaskState.COMPLETED
    assert (await peer.send("ask")).status.state is TaskState.INPUT_REQUIRED
    started = await peer.send("wait", return_immediately=True)
    assert started.status.state in (TaskState.SUBMITTED, TaskState.WORKING)
    await peer.cancel(started.id)


@rule("G1.9", "G2.8")
@matrix(V0_2, V0_3, V1_0)
async def test_the_same_message_twice_is_one_task(peer: Peer) -> None:
    request = peer.request(peer.message("hello"))
    first = await peer.call(ops.SEND_MESSAGE, request)
    assert await peer.call(ops.SEND_MESSAGE, request) == first
    other = structs.replace(request, message=structs.replace(request.message, parts=(TextPart("other"),)))
    assert (await peer.call(ops.SEND_MESSAGE, other)).id != first.id


@rule("G1.9")
@matrix()
async def test_the_second_cancel_is_refused(peer: Peer) -> None:
    task = await peer.start("wait")
    assert (await peer.cancel(task.id)).status.state is TaskState.CANCELED
    with pytest.raises(TaskNotCancelableError):
        await peer.cancel(task.id)


@rule("G1.10")
@matrix(app="strict")
async def test_a_media_type_that_the_agent_does_not_take_is_refused(peer: Peer) -> None:
    async with peer.at("strict", a2a_extensions=REQUIRED, x_a2a_extensions=REQUIRED) as caller:
        with pytest.raises(ContentTypeNotSupportedError):
            await caller.send(RawPart(b"GIF89a", "image/gif"))


@rule("G1.11", "G2.17")
@matrix()
async def test_the_agent_knows_what_its_caller_accepts(peer: Peer) -> None:
    task = await peer.send("accepts", accepted_output_modes=("text/plain",))
    assert task.artifacts[0].parts == (TextPart("True False"),)
    task = await peer.send("accepts")
    assert task.artifacts[0].parts == (TextPart("True True"),)


@rule("G1.12", "G2.14")
@matrix()
async def test_results_are_artifacts(peer: Peer) -> None:
    task = await peer.send("hello")
    (artifact,) = task.artifacts
    assert isinstance(artifact, Artifact)
    assert artifact.parts == (TextPart("hello"),)
    (artifact,) = (await peer.send("file")).artifacts
    part = artifact.parts[0]
    assert isinstance(part, RawPart)
    assert (part.raw, part.media_type, part.filename) == (b"bytes", "application/octet-stream", "file.bin")


@rule("G1.14")
@matrix()
async def test_what_follows_in_a_task_is_that_task(peer: Peer) -> None:
    task = await peer.send("ask")
    answered = await peer.send("yes", task=task)
    assert isinstance(answered, Task)
    assert answered.id == task.id
    assert answered.status.state is TaskState.COMPLETED


@rule("G1.50", "G2.12")
@matrix(V0_2, V0_3, V1_0)
async def test_authentication_within_a_task(peer: Peer) -> None:
    task = await peer.send("auth")
    assert task.status.state is TaskState.AUTH_REQUIRED
    assert task.status.message is not None
    assert task.status.message.parts == (TextPart("Show me a ticket"),)
    done = await peer.send("ticket", task=task)
    assert done.artifacts[0].parts == (TextPart("ticket"),)


@rule("G3.1")
@matrix(V0_1, bindings=[JSONRPC])
async def test_a_caller_of_0_1_names_its_task_and_may_reopen_it(peer: Peer) -> None:
    name = f"mine-{uuid4()}"
    first = await peer.send("one", task_id=name, context_id="session-1")
    assert (first.id, first.context_id, first.status.state) == (name, "session-1", TaskState.COMPLETED)
    again = await peer.send("two", task_id=name)
    assert (again.id, again.context_id, again.status.state) == (name, "session-1", TaskState.COMPLETED)


@rule("G3.1")
@matrix(V0_1, bindings=[JSONRPC])
async def test_0_1_gets_a_session_if_it_names_none(peer: Peer) -> None:
    assert (await peer.send("one")).context_id


@rule("G3.2")
@matrix(V0_1, bindings=[JSONRPC])
async def test_0_1_answers_a_question_with_another_send(peer: Peer) -> None:
    task = await peer.send("ask")
    assert task.status.state is TaskState.INPUT_REQUIRED
    answered = await peer.send("blue", task=task)
    assert answered.artifacts[0].parts == (TextPart("blue"),)
