"""What other people's servers do that no specification foresees, one habit a test; `test_peers.py` has the servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from parley.client.client import Client
from parley.client.discovery.selection import interfaces_in_order
from parley.client.errors import TimedOutError
from parley.client.options import Timeouts
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentInterface, Binding
from parley.protocol.errors import (
    A2AError,
    LocalProtocolError,
    ParleyError,
    PeerProtocolError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.operations import SEND_MESSAGE, SEND_STREAMING_MESSAGE
from parley.protocol.requests import DeletePushConfigRequest
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from tests.client.raw_server import STREAM, raw_server, says
from tests.client.scripted_agent import SEND
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

URL = "http://agent.example/a2a"
App = Callable[[Any, Any, Any], Awaitable[None]]


def card_of(*ways: tuple[Binding, str]) -> AgentCard:
    faces = tuple(AgentInterface(URL, binding, version) for binding, version in ways)
    return AgentCard("A", "An agent", "1", faces, AgentCapabilities())


def answering(*replies: tuple[int, Any]) -> tuple[App, list[str]]:
    """An application that gives these answers, one after the other, the last for ever; and what it was asked for."""
    asked: list[str] = []
    left = list(replies)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        asked.append(f"{scope['method']} {scope['path']}")
        status, reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, dict) and "result" in reply:
            reply = {"jsonrpc": "2.0", "id": json.loads(body).get("id"), **reply}
        if isinstance(reply, str):
            content, kind = reply.encode(), b"text/event-stream"
        else:
            content, kind = b"" if reply is None else json.dumps(reply).encode(), b"application/json"
        headers = [(b"content-type", kind)] if content else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return app, asked


def task(state: str) -> dict[str, Any]:
    return {"id": "t", "contextId": "c", "status": {"state": state, "timestamp": "2026-01-02T03:04:05"}}


AT_WORK, AT_WORK_STILL, DONE = (
    {"task": task("TASK_STATE_SUBMITTED")},
    task("TASK_STATE_WORKING"),
    task("TASK_STATE_COMPLETED"),
)


async def test_a_send_waits_also_for_an_agent_that_does_not():
    app, asked = answering((200, {"result": AT_WORK}), (200, {"result": AT_WORK_STILL}), (200, {"result": DONE}))
    with fail_after(5):
        async with Client(card_of((Binding.JSONRPC, "1.0")), app=app) as client:
            reply = await client.send("hello")
    assert (reply.state, len(asked)) == (TaskState.COMPLETED, 3)


async def test_a_send_that_shall_not_wait_does_not():
    app, asked = answering((200, {"result": AT_WORK}))
    async with Client(card_of((Binding.JSONRPC, "1.0")), app=app) as client:
        reply = await client.send("hello", wait=False)
    assert (reply.state, len(asked)) == (TaskState.SUBMITTED, 1)


async def test_nobody_is_waited_for_longer_than_a_reply_may_take():
    app, _ = answering((200, {"result": AT_WORK}), (200, {"result": AT_WORK_STILL}))
    with fail_after(5):
        async with Client(card_of((Binding.JSONRPC, "1.0")), app=app, timeouts=Timeouts(reply=1)) as client:
            with pytest.raises(TimedOutError, match="still working"):
                await client.send("hello")


async def test_a_deletion_may_be_answered_with_nothing():
    app, asked = answering((204, None))
    async with Client(card_of((Binding.HTTP_JSON, "1.0")), app=app) as client:
        await client.delete_push_config(DeletePushConfigRequest("t", "hook-1"))
        with pytest.raises(PeerProtocolError):
            await client.get("t")
    assert asked == ["DELETE /a2a/tasks/t/pushNotificationConfigs/hook-1", "GET /a2a/tasks/t"]


async def test_rest_of_0_3_is_read_in_both_shapes_and_the_first_problem_is_told():
    in_protobuf = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    in_text = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
    in_none = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_DREAMING"}}
    app, _ = answering((200, in_protobuf), (200, in_text), (200, in_none))
    async with Client(card_of((Binding.HTTP_JSON, "0.3")), app=app) as client:
        assert [(await client.get("t")).state for _ in range(2)] == [TaskState.WORKING, TaskState.COMPLETED]
        with pytest.raises(PeerProtocolError, match="TASK_STATE_DREAMING"):
            await client.get("t")


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
async def test_a_stream_that_is_none_is_no_answer(binding: Binding):
    app, _ = answering((200, {"result": {"task": DONE}}))
    async with Client(card_of((binding, "1.0")), app=app) as client:
        with pytest.raises(PeerProtocolError, match="without a stream"):
            await anext(client.stream("hello"))


@pytest.mark.parametrize("code", [-32004, -32601])
async def test_an_agent_that_refuses_to_stream_is_asked_without(code: int):
    """Its card does not say so, or is wrong. The message keeps its id: it is the same one."""
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "No"}}
    done = {**DONE, "artifacts": [{"artifactId": "a", "parts": [{"text": "hi"}]}]}
    app, _ = answering((200, refusal), (200, {"result": AT_WORK}), (200, {"result": done}))
    seen: list[Any] = []

    async def look(step: Any) -> Any:
        seen.append((step.operation.name, getattr(step.request, "message", None)))
        return step

    with fail_after(5):
        async with Client(card_of((Binding.JSONRPC, "1.0")), app=app, interceptors=[look]) as client:
            updates = [update async for update in client.stream("hello")]
    assert [type(update.event).__name__ for update in updates] == ["Task", "ArtifactUpdate", "StatusUpdate"]
    assert [name for name, _ in seen] == ["SendStreamingMessage", "SendMessage", "GetTask"]
    assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize("code", [-32001, -32004, -32601, -32602])
async def test_where_nobody_may_subscribe_the_task_is_read(code: int):
    """Also one that has ended: in 1.0 it is an unsupported operation to follow it, elsewhere wrong or unknown."""
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "No"}}
    app, asked = answering((200, refusal), (200, {"result": DONE}))
    async with Client(card_of((Binding.JSONRPC, "1.0")), app=app) as client:
        updates = [update async for update in client.subscribe("t")]
    assert [update.seen.task().status.state for update in updates] == [TaskState.COMPLETED]
    assert len(asked) == 2


async def test_who_does_not_stream_is_not_asked_for_a_subscription():
    card = structs.replace(card_of((Binding.JSONRPC, "1.0")), capabilities=AgentCapabilities(streaming=False))
    app, asked = answering((200, {"result": AT_WORK_STILL}), (200, {"result": DONE}))
    with fail_after(5):
        async with Client(card, app=app) as client:
            client.calls.sleep = lambda _: asyncio.sleep(0)
            updates = [update async for update in client.subscribe("t")]
    assert [type(update.event).__name__ for update in updates] == ["Task", "StatusUpdate"]
    assert len(asked) == 2


@pytest.mark.parametrize("tokens", ["aa", "abab", "abcabc"])
async def test_a_list_that_repeats_itself_has_an_end(tokens: str):
    pages = [{"tasks": [DONE], "nextPageToken": token, "pageSize": 1, "totalSize": 9} for token in tokens]
    app, asked = answering(*((200, {"result": page}) for page in pages))
    async with Client(card_of((Binding.JSONRPC, "1.0")), app=app) as client:
        with fail_after(5), pytest.raises(PeerProtocolError, match="never ends"):
            async for _ in client.list():
                pass
    assert len(asked) == len(set(tokens)) + 1


async def test_a_stream_may_end_in_an_error_event():
    error = {"error": {"code": 404, "status": "NOT_FOUND", "message": "Task not found"}}
    app, _ = answering((200, f"event: error\ndata: {json.dumps(error)}\n\n"))
    async with Client(card_of((Binding.HTTP_JSON, "1.0")), app=app) as client:
        with pytest.raises(A2AError, match="Task not found"):
            await anext(client.stream("hello"))


@pytest.mark.parametrize("reply", [["hello"], {"id": "another", "result": DONE}])
async def test_the_answer_to_something_else_is_no_answer(reply: Any):
    app, _ = answering((200, reply))
    async with Client(card_of((Binding.JSONRPC, "1.0")), app=app) as client:
        with pytest.raises(PeerProtocolError):
            await client.get("t")


async def test_who_answers_a_message_stays_in_its_conversation():
    said = {"message": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": "Yes?"}]}}
    app, asked = answering((200, {"result": said}))
    async with Client(card_of((Binding.JSONRPC, "1.0")), app=app) as client:
        reply = await (await client.send("hello")).answer("Nothing.")
    assert (reply.text, reply.is_finished, len(asked)) == ("Yes?", True, 2)


OLD_CARD = {
    "name": "A",
    "description": "An agent",
    "version": "1",
    "url": URL,
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [{"id": "vault", "name": "Vault", "description": "Is for some.", "tags": []}],
}


async def test_the_extended_card_of_0_2_has_a_place_and_no_method():
    app, asked = answering((200, OLD_CARD), (401, {"detail": "Who are you?"}))
    async with Client(card_of((Binding.JSONRPC, "0.2")), app=app) as client:
        assert [skill.id for skill in (await client.get_extended_card()).skills] == ["vault"]
        with pytest.raises(UnauthenticatedError):
            await client.get_extended_card()
    assert asked == ["GET /agent/authenticatedExtendedCard"] * 2


async def test_the_dialects_before_0_3_are_spoken_over_json_rpc_only():
    everything = card_of(*((binding, version) for version in ("0.2.6", "0.3.0") for binding in reversed(Binding)))
    chosen = [(face.binding, version) for face, version in interfaces_in_order(everything)]
    assert chosen == [*((binding, Version.V0_3) for binding in reversed(Binding)), (Binding.JSONRPC, Version.V0_2)]
    with pytest.raises(PeerProtocolError, match=r"No interface fits: the card offers GRPC 0\.2; .*; in 0\.2 JSONRPC;"):
        interfaces_in_order(card_of((Binding.GRPC, "0.2")))
    with pytest.raises(LocalProtocolError, match=r"A2A 0\.2 is supported over JSONRPC only, not over GRPC"):
        interfaces_in_order(everything, bindings=[Binding.GRPC], versions=[Version.V0_2])


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
async def test_a_gateways_page_says_that_the_agent_is_away(binding: Binding):
    """While an agent starts anew, what stands in front of it answers: what is safe is then tried again."""
    page = (502, "<html>Bad Gateway</html>")
    done = (200, {"result": DONE} if binding is Binding.JSONRPC else DONE)
    app, asked = answering(page, done)
    async with Client(card_of((binding, "1.0")), app=app) as client:
        client.calls.sleep = lambda _: asyncio.sleep(0)
        assert (await client.get("t")).state is TaskState.COMPLETED
        assert len(asked) == 2
    app, asked = answering(page)
    async with Client(card_of((binding, "1.0")), app=app) as client:
        with pytest.raises(UnavailableError, match="HTTP status 502 Bad Gateway: <html>Bad Gateway</html>"):
            await client.send("hello")
        assert len(asked) == 1


NO_A2A: dict[str, tuple[int, bytes, str]] = {
    "FastAPI, at a path that it does not have": (404, b'{"detail": "Not Found"}', "HTTP status 404 Not Found"),
    "FastAPI, of a body": (
        422,
        b'{"detail": [{"msg": "no"}]}',
        '422 Unprocessable (Entity|Content): {"detail": .*"no"}',
    ),
    "a gateway of a cloud": (
        500,
        b'{"message": "Endpoint\\u001b[2J failed"}',
        "500 Internal Server Error: Endpoint␛",
    ),
    "an error that is a text": (500, b'{"error": "model is down"}', "500 Internal Server Error: model is down"),
    "a page": (405, b"<html>\r\n<h1>No\x1b[2J</h1>", "HTTP status 405 Method Not Allowed: <html> <h1>No␛"),
    "plain text": (400, b"bad request, friend", "HTTP status 400 Bad Request: bad request, friend"),
    "nothing": (403, b"", "HTTP status 403 Forbidden"),
    "null": (200, b"null", "Not an A2A answer.*: HTTP status 200 OK: null"),
    "a page for people": (
        200,
        b"<!doctype html><title>Login",
        "Not an A2A answer .*200 OK: <!doctype html><title>Login",
    ),
    "another API": (200, b'{"choices": []}', 'Not an A2A answer.*: HTTP status 200 OK: {"choices": \\[\\]}'),
}


@pytest.mark.parametrize("name", NO_A2A)
async def test_an_error_that_is_not_of_a2a_shows_the_status_and_what_the_server_said(name: str):
    status, body, words = NO_A2A[name]
    head = b"HTTP/1.1 %d x\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    async with raw_server(says(head + body)) as server:
        for binding in (Binding.JSONRPC, Binding.HTTP_JSON):
            async with server.calls(binding) as calls:
                with pytest.raises(ParleyError, match=words) as failed:
                    await calls.call(SEND_MESSAGE, SEND)
                with pytest.raises(ParleyError, match="HTTP status"):
                    await anext(calls.stream(SEND_STREAMING_MESSAGE, SEND))
            assert "got `null`" not in str(failed.value)
            assert "\x1b" not in str(failed.value)


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
async def test_an_event_that_is_not_of_a2a_is_shown(binding: Binding):
    async with raw_server(says(STREAM + b'data: {"choices": []}\n\n')) as server, server.calls(binding) as calls:
        with pytest.raises(PeerProtocolError, match=r'Not an A2A event.*: {"choices": \[\]}'):
            await anext(calls.stream(SEND_STREAMING_MESSAGE, SEND))
