"""The document of `POST /v1/a2a/agents/:id`, statement by statement, against a host on a real port.

The quotations are from the document. Where a test shows something else, `docs/host-compatibility.md` has the reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import Quotas
from parley.host.models.model import ModelError, ModelRequest
from parley.protocol.messages import Message
from tests.host.a2a_calls import call, documented_message, path_of, request, result, streamed
from tests.host.frame_reader import ReadFrame, open_stream, texts
from tests.host.function_model import FunctionModel
from tests.host.running_host import RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio

INDEX = path_of("index")
NO_TASK = {"id": "0123456789abcdef"}
HEX_ID = re.compile(r"[0-9a-f]{16}")
TEXT = {"kind": "text", "text": "hi"}


class Script:
    """Says two words; after them, waits at a gate if the message is `wait`, and fails if it is `fail` or `throw`."""

    def __init__(self) -> None:
        self.waits, self.gate = asyncio.Event(), asyncio.Event()
        self.model = FunctionModel(self._reply)

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        yield "Hello "
        yield "world"
        if request.query == "wait":
            self.waits.set()
            await self.gate.wait()
            yield " again"
        elif request.query == "fail":
            raise ModelError("The provider is down.")
        elif request.query == "throw":
            raise RuntimeError("a secret of the host")


@asynccontextmanager
async def scripted_host(**settings: Any) -> AsyncGenerator[tuple[RunningHost, httpx2.AsyncClient, Script]]:
    """A host whose `index` says what the script says, and a client of one of its tenants."""
    script = Script()
    async with running_host(models={"parley/router": script.model}, **settings) as running:
        yield running, running.acme.client, script


async def post(client: httpx2.AsyncClient, body: bytes, **headers: str) -> dict[str, Any]:
    """The envelope in the reply to a body that may be anything."""
    reply = await client.post(INDEX, content=body, headers={"Content-Type": "application/json", **headers})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    return reply.json()


async def error_of(
    client: httpx2.AsyncClient, method: str, params: dict[str, Any], *, agent: str = "index", after: str = ""
) -> int:
    """The code of the error in a reply that must be one envelope with status 200, also of a streaming method."""
    reply = await client.post(path_of(agent), json=request(method, params), headers={"Last-Event-ID": after})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    envelope = reply.json()
    assert (envelope["jsonrpc"], envelope["id"], "result" in envelope) == ("2.0", 1, False)
    assert envelope["error"]["message"]
    return envelope["error"]["code"]


async def running_task(client: httpx2.AsyncClient, script: Script) -> str:
    """The id of a task that stands still at the gate."""
    async with open_stream(client, "message/stream", documented_message("wait", contextId="c-42")) as stream:
        [first, *_] = await stream.take(3)
    await script.waits.wait()
    return first.result["taskId"]


async def requests_of(client: httpx2.AsyncClient) -> list[Any]:
    return (await client.get("/v1/requests")).json()["requests"]


def without_times(task: dict[str, Any]) -> dict[str, Any]:
    """A task or update without its timestamp, which every status of A2A may have."""
    assert task["status"].pop("timestamp").endswith("Z")
    return task


def states(frames: Sequence[ReadFrame]) -> list[str]:
    return [frame.result["status"]["state"] for frame in frames if frame.result["kind"] == "status-update"]


# --- request ----------------------------------------------------------------------------------------------------------


async def test_version_1_is_accepted_in_every_spelling() -> None:
    """“A2A-Version: 1.0 (optional; 1 and empty also accepted …)”"""
    async with scripted_host() as (_, client, _):
        for headers in ({"A2A-Version": "1.0"}, {"A2A-Version": "1"}, {"A2A-Version": ""}, {}):
            reply = await client.post(INDEX, json=request("message/send", documented_message("hi")), headers=headers)
            assert reply.json()["result"]["status"]["state"] == "completed", headers


async def test_any_other_version_is_refused_before_the_envelope_is_read() -> None:
    """“A version-check failure happens before envelope parse, so the response carries id: null”"""
    async with scripted_host() as (_, client, _):
        for version in ("0.3", "2.0", "1.0.0", "latest"):
            for body in (b'{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"id":"x"}}', b"not JSON"):
                envelope = await post(client, body, **{"A2A-Version": version})
                assert (envelope["id"], envelope["error"]["code"]) == (None, -32007)
                assert envelope["error"]["data"]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_the_id_of_a_request_is_in_its_result_its_error_and_its_frames() -> None:
    """“id may be string, number, or null; it's echoed verbatim on the response.”"""
    message = '{"message":{"role":"user","messageId":"m-1","parts":[{"kind":"text","text":"hi"}]}}'
    calls = (("message/send", message), ("message/stream", message), ("tasks/get", '{"id":"x"}'))
    async with scripted_host() as (_, client, _):
        for id in ('"one"', '""', "7", "0", "1.5", "null"):
            for method, params in calls:
                body = f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}'
                reply = await client.post(INDEX, content=body, headers={"Content-Type": "application/json"})
                envelopes = re.findall(r'\{"jsonrpc":"2.0","id":([^,]*),"(?:result|error)"', reply.text)
                assert set(envelopes) == {id}


async def test_a_malformed_request_is_an_error_in_an_envelope() -> None:
    """“-32700 … isn't valid JSON”, “-32600 … isn't a JSON-RPC request”, “-32601”, “-32602 … shape mismatch”"""
    cases = [
        (b"{", None, -32700),
        (b"\xff", None, -32700),
        (b"3", None, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}]', None, -32600),
        (b'{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"x"}}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"tasks/get","params":{"id":"x"}}', None, -32600),
        (b'{"jsonrpc":"1.0","id":5,"method":"tasks/get","params":{"id":"x"}}', 5, -32600),
        (b'{"id":5,"method":"tasks/get","params":{"id":"x"}}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":5,"params":{}}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":1}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"tasks/list","params":{}}', 5, -32601),
        (b'{"jsonrpc":"2.0","id":5,"method":"message/send"}', 5, -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":[1]}', 5, -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"tasks/cancel","params":{}}', 5, -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"tasks/resubscribe","params":{"id":7}}', 5, -32602),
    ]
    async with scripted_host() as (_, client, _):
        for body, id, code in cases:
            envelope = await post(client, body)
            assert (envelope["jsonrpc"], envelope["id"], envelope["error"]["code"]) == ("2.0", id, code), body


# --- message/send -----------------------------------------------------------------------------------------------------


async def test_a_send_returns_the_documented_task() -> None:
    """“Result: a Task object.”"""
    async with scripted_host() as (_, client, _):
        sent = documented_message("summarize this RFC", contextId="c-42")
        task = await result(client, "message/send", sent)
        task_id = task["id"]
        assert HEX_ID.fullmatch(task_id)
        about = {"contextId": "c-42", "taskId": task_id}
        reply = {
            "kind": "message",
            "role": "agent",
            "messageId": f"{task_id}-r",
            "parts": [{"kind": "text", "text": "Hello world"}],
            **about,
        }
        assert without_times(task) == {
            "kind": "task",
            "id": task_id,
            "contextId": "c-42",
            "status": {"state": "completed", "message": reply},
            "history": [{"kind": "message", **sent["message"], **about}, reply],
            "artifacts": [{"artifactId": f"{task_id}-text-0", "name": "response", "parts": reply["parts"]}],
            "metadata": {
                "x-arbiter.agent_id": "index",
                "x-arbiter.input_tokens": 10,
                "x-arbiter.output_tokens": 5,
            },
        }


async def test_a_send_blocks_until_the_task_has_ended() -> None:
    """“Block until the agent reaches a terminal state, return the resulting Task.”"""
    async with scripted_host() as (_, client, script):
        sending = asyncio.create_task(result(client, "message/send", documented_message("wait")))
        await script.waits.wait()
        [request] = await requests_of(client)
        assert (request["state"], sending.done()) == ("running", False)
        script.gate.set()
        task = await sending
        assert (task["id"], task["status"]["state"]) == (request["request_id"], "completed")


async def test_a_context_groups_tasks_and_is_no_memory() -> None:
    """“contextId is optional and threaded through verbatim … The context-thread relationship is not persisted”"""
    async with scripted_host() as (_, client, script):
        for text in ("one", "two"):
            task = await result(client, "message/send", documented_message(text, contextId="ünï/c 42"))
            assert task["contextId"] == "ünï/c 42"
        assert [[message.text for message in asked.messages] for asked in script.model.requests] == [["one"], ["two"]]
        new = [(await result(client, "message/send", documented_message("hi")))["contextId"] for _ in range(2)]
        assert all(map(HEX_ID.fullmatch, new))
        reserved = documented_message("hi", contextId="urn:parley:conversation:1")
        assert await error_of(client, "message/send", reserved) == -32602
        assert new[0] != new[1]


async def test_a_message_that_cannot_be_taken_changes_nothing() -> None:
    """“messageId is required.”, “Only text parts are accepted; file and data parts trigger … (-32005)”"""
    names = {"role": "user", "messageId": "m-1"}
    cases: list[tuple[dict[str, Any], int]] = [
        ({"role": "user", "parts": [TEXT]}, -32602),
        ({"role": "user", "messageId": "", "parts": [TEXT]}, -32602),
        ({"messageId": "m-1", "parts": [TEXT]}, -32602),
        ({"role": "system", "messageId": "m-1", "parts": [TEXT]}, -32602),
        (names, -32602),
        ({**names, "parts": []}, -32602),
        ({**names, "parts": [{"kind": "text", "text": " "}]}, -32602),
        ({**names, "parts": [{"kind": "text", "text": 1}]}, -32602),
        ({**names, "parts": [{"kind": "video", "url": "x"}]}, -32602),
        ({**names, "parts": [TEXT, {"kind": "data", "data": {"a": 1}}]}, -32005),
        ({**names, "parts": [{"kind": "file", "file": {"bytes": "YQ=="}}]}, -32005),
        ({**names, "parts": [{"kind": "file", "file": {"uri": "http://x/y"}}]}, -32005),
        ({**names, "parts": [TEXT], "taskId": "0123456789abcdef"}, -32001),
    ]
    async with scripted_host() as (_, client, _):
        for message, code in cases:
            for method in ("message/send", "message/stream"):
                assert await error_of(client, method, {"message": message}) == code, message
        assert await requests_of(client) == []


async def test_an_agent_that_fails_makes_a_failed_task() -> None:
    """“provider transport failure surfaces as a failed Task”"""
    async with scripted_host() as (_, client, _):
        task = await result(client, "message/send", documented_message("fail"))
        message, metadata = task["status"]["message"], task["metadata"]
        assert (task["status"]["state"], message["messageId"]) == ("failed", f"{task['id']}-err")
        assert message["parts"] == [{"kind": "text", "text": "The provider is down."}]
        assert metadata["x-arbiter.error"] == "The provider is down."
        assert metadata["x-arbiter.error_type"] == "provider_error"


async def test_an_agent_that_throws_makes_a_failed_task_that_tells_nothing_of_the_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """“-32006 InvalidAgentResponse: Agent threw mid-turn”: there is a task, so it is the task that fails."""
    async with scripted_host() as (_, client, _):
        for task in (
            await result(client, "message/send", documented_message("throw")),
            (await streamed(client, "message/stream", documented_message("throw")))[-1],
        ):
            assert task["status"]["state"] == "failed"
            assert "secret" not in str(task)
    assert "a secret of the host" in caplog.text


# --- message/stream ---------------------------------------------------------------------------------------------------


async def test_a_stream_has_one_record_for_each_event_and_closes_after_the_final_one() -> None:
    """“Content-Type: text/event-stream with one SSE record per A2A event”, “Stream closes after the final: true”"""
    async with scripted_host() as (_, client, _):
        sent = documented_message("hi", contextId="c-42")
        reply = await client.post(INDEX, json=request("message/stream", sent))
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-accel-buffering"] == "no"
        *records, nothing = reply.text.split("\n\n")
        assert nothing == ""
        for record in records:
            assert re.fullmatch(r'id: \d+\nevent: message\ndata: \{"jsonrpc":"2.0","id":1,"result":\{.*\}\}', record)
        async with open_stream(client, "message/stream", sent | documented_message("hi", contextId="c-42")) as stream:
            frames = await stream.rest()
    task_id = frames[0].result["taskId"]
    assert [(frame.result["taskId"], frame.result["contextId"]) for frame in frames] == [(task_id, "c-42")] * len(
        frames
    )
    working, *chunks, end = frames
    assert without_times(working.result) == {
        "kind": "status-update",
        "taskId": task_id,
        "contextId": "c-42",
        "status": {"state": "working"},
        "final": False,
    }
    assert chunks[0].result == {
        "kind": "artifact-update",
        "taskId": task_id,
        "contextId": "c-42",
        "artifact": {
            "artifactId": f"{task_id}-text-0",
            "name": "response",
            "parts": [{"kind": "text", "text": "Hello "}],
        },
        "append": False,
    }
    assert {chunk.result["artifact"]["artifactId"] for chunk in chunks} == {f"{task_id}-text-0"}
    assert [chunk.result["append"] for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.result.get("lastChunk", False) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join(texts(chunks)) == "Hello world"
    status = without_times(end.result)["status"]
    assert (status["state"], status["message"]["messageId"], end.result["final"]) == ("completed", f"{task_id}-r", True)
    assert status["message"]["parts"] == [{"kind": "text", "text": "Hello world"}]
    assert end.result["metadata"]["x-arbiter.output_tokens"] == 5


async def test_text_is_streamed_while_the_agent_still_works() -> None:
    """“text delta → TaskArtifactUpdateEvent”: the model stands still, and its words are there."""
    async with scripted_host() as (_, client, script):
        async with open_stream(client, "message/stream", documented_message("wait")) as stream:
            assert texts(await stream.take(3)) == ["Hello ", "world"]
            script.gate.set()
            frames = await stream.rest()
        assert "".join(texts(frames)) == " again"
        assert states(frames) == ["completed"]


async def test_a_stream_that_fails_closes_its_text_and_ends_with_the_failed_status() -> None:
    """“one final lastChunk: true text frame just before the terminal status update”, “done(!ok) / error → failed”"""
    async with scripted_host() as (_, client, _):
        async with open_stream(client, "message/stream", documented_message("fail")) as stream:
            *_, last_chunk, end = await stream.rest()
        assert (last_chunk.result["lastChunk"], last_chunk.result["append"]) == (True, True)
        assert (end.result["status"]["state"], end.result["final"]) == ("failed", True)
        assert end.result["status"]["message"]["parts"][0]["text"] == "The provider is down."


# --- tasks/get --------------------------------------------------------------------------------------------------------


async def test_a_working_task_has_its_state_and_neither_message_nor_history() -> None:
    """“For tasks still working, status.message is omitted; the state alone is authoritative.”"""
    async with scripted_host() as (_, client, script):
        task_id = await running_task(client, script)
        task = without_times(await result(client, "tasks/get", {"id": task_id}))
        assert (task["status"], "history" in task) == ({"state": "working"}, False)
        assert (task["kind"], task["id"], task["contextId"]) == ("task", task_id, "c-42")
        assert task["metadata"] == {"x-arbiter.agent_id": "index"}
        script.gate.set()


async def test_a_task_that_has_ended_is_read_as_it_was_sent() -> None:
    """“a Task object reconstructed from the persisted … row. History is replayed only when … terminal”"""
    async with scripted_host() as (_, client, _):
        for text in ("hi", "fail"):
            task = await result(client, "message/send", documented_message(text))
            assert [message["role"] for message in task["history"]] == ["user", "agent"]
            assert await result(client, "tasks/get", {"id": task["id"]}) == task
            read = await result(client, "tasks/get", {"id": task["id"], "historyLength": 1})
            assert read["history"] == task["history"][1:]


async def test_a_task_of_another_tenant_or_agent_looks_like_none() -> None:
    """“A task that doesn't exist for the calling tenant returns TaskNotFound (-32001).”"""
    quiet = Agent("Quiet", description="Says nothing.")
    quiet.on_message(complete)
    async with scripted_host(given_agents=(GivenAgent(quiet),)) as (running, client, script):
        task_id = await running_task(client, script)
        for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
            replies = [
                await call(running.globex.client, method, {"id": task_id}),
                await call(client, method, {"id": task_id}, agent="quiet"),
                await call(client, method, NO_TASK),
            ]
            assert [reply["error"]["code"] for reply in replies] == [-32001] * 3
            shown = [str(reply["error"]).replace(task_id, "").replace(NO_TASK["id"], "") for reply in replies]
            assert len(set(shown)) == 1
        script.gate.set()


async def complete(turn: Turn) -> None:
    await turn.complete()


# --- tasks/cancel and POST /v1/requests/:id/cancel --------------------------------------------------------------------


@pytest.mark.parametrize("path", ["a2a", "native"])
async def test_both_paths_cancel_a_running_task_and_end_its_stream(path: str) -> None:
    """“The streaming response emits a final TaskStatusUpdateEvent with state: canceled, final: true”"""
    async with scripted_host() as (_, client, script):
        async with open_stream(client, "message/stream", documented_message("wait")) as stream:
            [first, *_] = await stream.take(3)
            task_id = first.result["taskId"]
            if path == "a2a":
                task = await result(client, "tasks/cancel", {"id": task_id})
                assert (task["id"], task["status"]["state"]) == (task_id, "canceled")
            else:
                reply = await client.post(f"/v1/requests/{task_id}/cancel")
                assert (reply.status_code, reply.json()) == (200, {"request_id": task_id, "cancelled": True})
            *_, last_chunk, end = await stream.rest()
        assert last_chunk.result["lastChunk"] is True
        assert (end.result["status"]["state"], end.result["final"]) == ("canceled", True)
        script.gate.set()  # which the canceled model does not see
        assert (await result(client, "tasks/get", {"id": task_id}))["status"]["state"] == "canceled"
        assert await error_of(client, "tasks/cancel", {"id": task_id}) == -32002
        assert (await client.post(f"/v1/requests/{task_id}/cancel")).status_code == 404


async def test_a_task_that_has_ended_cannot_be_canceled() -> None:
    """“Terminal tasks return TaskNotCancelable (-32002).”"""
    async with scripted_host() as (_, client, _):
        for text in ("hi", "fail"):
            task = await result(client, "message/send", documented_message(text))
            assert await error_of(client, "tasks/cancel", {"id": task["id"]}) == -32002
            assert (await result(client, "tasks/get", {"id": task["id"]})) == task


async def test_a_blocking_send_whose_task_is_canceled_returns_it() -> None:
    """“return the resulting Task”"""
    async with scripted_host() as (_, client, script):
        sending = asyncio.create_task(result(client, "message/send", documented_message("wait")))
        await script.waits.wait()
        [request] = await requests_of(client)
        await result(client, "tasks/cancel", {"id": request["request_id"]})
        assert (await sending)["status"]["state"] == "canceled"


# --- tasks/resubscribe ------------------------------------------------------------------------------------------------


async def test_a_reader_that_comes_back_gets_all_from_the_start_and_then_what_comes() -> None:
    """“Replays the persisted event log …, then live-tails the run until terminal … under x-arbiter.<kind>”"""
    async with scripted_host() as (_, client, script):
        task_id = await running_task(client, script)
        async with open_stream(client, "tasks/resubscribe", {"id": task_id}) as stream:
            replayed = await stream.take(4)
            script.gate.set()
            frames = [*replayed, *await stream.rest()]
        assert texts(replayed) == ["Hello ", "world"]
        assert "".join(texts(frames)) == "Hello world again"
        chunks = [frame.result for frame in frames if frame.result["kind"] == "artifact-update"]
        assert [chunk["append"] for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
        notes = [frame.result for frame in frames if "x-arbiter." in str(frame.result.get("metadata"))][:-1]
        assert [(list(note["metadata"]), note["status"], note["final"]) for note in notes] == [
            (["x-arbiter.stream_start"], {"state": "working"}, False),
            (["x-arbiter.token_usage"], {"state": "working"}, False),
        ]
        assert notes[1]["metadata"]["x-arbiter.token_usage"]["output_tokens"] == 5
        end = frames[-1].result
        assert (end["status"]["state"], end["final"]) == ("completed", True)
        assert end["status"]["message"]["parts"][0]["text"] == "Hello world again"
        ids = [int(frame.id) for frame in frames]
        assert ids == sorted(set(ids))


async def test_of_a_task_that_has_ended_there_is_one_final_frame() -> None:
    """“the handler emits one final TaskStatusUpdateEvent with final: true and closes”"""
    async with scripted_host() as (_, client, _):
        for text in ("hi", "fail"):
            task = await result(client, "message/send", documented_message(text))
            [frame] = await streamed(client, "tasks/resubscribe", {"id": task["id"]})
            assert (frame["kind"], frame["final"], frame["status"]) == ("status-update", True, task["status"])


def is_note(frame: ReadFrame) -> bool:
    """Whether a frame holds only what the host knows, which streams of messages leave out."""
    status = frame.result.get("status", {})
    return status == {"state": "working"} and bool(frame.result.get("metadata"))


@pytest.mark.parametrize("text", ["wait", "fail"])
async def test_with_the_last_id_a_reader_gets_exactly_the_rest(text: str) -> None:
    """Not in the document: `Last-Event-ID`, as readers of server-sent events send it."""
    async with scripted_host() as (_, client, script):
        script.gate.set()
        async with open_stream(client, "message/stream", documented_message(text)) as stream:
            frames = await stream.rest()
        task_id = frames[0].result["taskId"]
        ids = [frame.id for frame in frames]
        for id in ids[:-1]:
            async with open_stream(client, "tasks/resubscribe", {"id": task_id}, after=id) as stream:
                rest = [frame for frame in await stream.rest() if not is_note(frame)]
                assert rest == frames[ids.index(id) + 1 :]
        assert await error_of(client, "tasks/resubscribe", {"id": task_id}, after="99") == -32602


async def test_the_log_of_a_task_is_that_of_its_request() -> None:
    """“Backed by the same store as GET /v1/requests/:id/events”"""
    async with scripted_host() as (_, client, script):
        script.gate.set()
        async with open_stream(client, "message/stream", documented_message("wait")) as stream:
            frames = await stream.rest()
        task_id = frames[0].result["taskId"]
        chunks = [(frame.id, text) for frame in frames[1:-1] for text in texts([frame]) if text]
        events = await read_events(client, "GET", f"/v1/requests/{task_id}/events")
        assert [(event.id, event.payload["delta"]) for event in events if event.name == "text"] == chunks
        assert (events[-1].name, events[-1].id) == ("done", frames[-1].id)


# --- unsupported, and errors ------------------------------------------------------------------------------------------


async def test_webhooks_are_refused_with_a_stable_message() -> None:
    """“tasks/pushNotificationConfig/{set,get,list,delete} return UnsupportedOperation (-32004)”"""
    async with scripted_host() as (_, client, _):
        replies = [
            await call(client, f"tasks/pushNotificationConfig/{name}", NO_TASK)
            for name in ("set", "get", "list", "delete")
        ]
        assert {(reply["error"]["code"], reply["error"]["message"]) for reply in replies} == {
            (-32004, "Push notifications are not enabled for this tenant")
        }


async def test_an_agent_that_the_tenant_does_not_have_is_an_error_for_the_request() -> None:
    """“-32001 TaskNotFound: … or message/send against an unknown agent for the tenant”"""
    async with scripted_host() as (running, client, _):
        reply = await client.post("/v1/agents", json={"id": "own", "name": "Own", "role": "r", "goal": "g"})
        assert reply.status_code == 201
        for method in ("message/send", "message/stream", "tasks/get"):
            params = NO_TASK if method == "tasks/get" else documented_message("hi")
            assert await error_of(client, method, params, agent="missing") == -32001
            assert await error_of(running.globex.client, method, params, agent="own") == -32001


async def test_a_fault_of_the_host_is_an_internal_error_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """“-32603 InternalError: … server-side fault”"""

    class Broken(Agent):
        def admit(self, message: Message, caller: Caller) -> None:
            raise RuntimeError("a secret of the host")

    agent = Broken("Broken", description="Cannot even look at a message.")
    agent.on_message(complete)
    async with scripted_host(given_agents=(GivenAgent(agent),)) as (_, client, _):
        reply = await call(client, "message/send", documented_message("hi"), agent="broken")
        assert reply["error"]["code"] == -32603
        assert "secret" not in str(reply)
    assert "a secret of the host" in caplog.text


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def test_without_a_valid_token_there_is_no_envelope() -> None:
    """“401: Missing or invalid bearer token (handled before this endpoint sees the request).”"""
    async with scripted_host() as (running, _, _):
        for client in (running.anonymous, await running.client("atr_unknown")):
            reply = await client.post(INDEX, content=b"{", headers={"A2A-Version": "9"})
            assert (reply.status_code, reply.json()) == (401, {"error": "missing or invalid bearer token"})
            assert reply.headers["www-authenticate"].startswith("Bearer")


async def test_bad_urls_and_verbs_have_a_status_of_http_and_a_json_body() -> None:
    """“404: Bad URL shape (e.g. /v1/a2a/foo)”, “405: Wrong method (e.g. GET on the dispatch URL)”"""
    async with scripted_host() as (_, client, _):
        for path in ("/v1/a2a", "/v1/a2a/foo", "/v1/a2a/agents", "/v1/a2a/agents/", f"{INDEX}/foo", path_of("a%20b")):
            reply = await client.post(path, json=request("tasks/get", NO_TASK))
            assert (reply.status_code, list(reply.json())) == (404, ["error"]), path
        for verb in ("GET", "PUT", "DELETE"):
            reply = await client.request(verb, INDEX)
            assert (reply.status_code, reply.headers["allow"], list(reply.json())) == (405, "POST", ["error"])


async def test_a_tenant_over_its_quota_gets_429_and_may_still_read() -> None:
    """Not in the document, which has no quotas: the status that proxies and clients know, around an envelope."""
    async with scripted_host(quotas=Quotas(requests_per_minute=1)) as (running, client, _):
        task = await result(client, "message/send", documented_message("hi"))
        for method in ("message/send", "message/stream"):
            reply = await client.post(INDEX, json=request(method, documented_message("hi")))
            envelope = reply.json()
            assert (reply.status_code, envelope["id"]) == (429, 1)
            assert envelope["error"]["data"]["reason"] == "rate_limit"
            assert int(reply.headers["retry-after"]) > 0
        assert (await result(client, "tasks/get", {"id": task["id"]}))["status"]["state"] == "completed"
        assert "result" in await call(running.globex.client, "message/send", documented_message("hi"))
