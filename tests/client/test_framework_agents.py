"""What agents made with other frameworks put on the wire, as their servers sent it or their code writes it.

Each answer is named by the framework and its version, shortened where it says nothing, and comes over a real socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley import Agent, File, Turn
from parley.client.client import Client
from parley.client.questions import question_of
from parley.client.reply import Update
from parley.client.streams.added_text import AddedText
from parley.client.streams.streamed_task import StreamedTask
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import DataPart, Message, Role, TextPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.app import App
from tests.client.raw_server import OK, RawServer, frame, raw_server, reply, rpc
from tests.client.scripted_agent import chunk, status
from tests.deadlines import fail_after
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

IDS = {"taskId": "t", "contextId": "c"}


@asynccontextmanager
async def agent(answer: bytes, **interface: Any) -> AsyncGenerator[Client]:
    """A client of a server that has a card with one interface, and gives this answer to the first call."""

    async def behave(writer: asyncio.StreamWriter) -> None:
        is_card = server.heads[-1].startswith(b"GET /.well-known/agent-card.json ")
        writer.write(reply(json.dumps(card).encode()) if is_card else answer)
        await writer.drain()

    async with raw_server(behave) as server:
        card = _card(server, **interface)
        with fail_after(5):
            async with Client(server.url) as client:
                yield client


def _card(server: RawServer, **interface: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"name": "A", "description": "An agent", "version": "1", "skills": []}
    base["capabilities"] = {"streaming": True}
    modes = {"defaultInputModes": ["text"], "defaultOutputModes": ["text"]}
    if interface.get("protocolVersion") == "0.3.0":
        return {**base, **modes, "url": server.url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
    return {**base, **modes, "supportedInterfaces": [{"url": server.url, "protocolBinding": "JSONRPC", **interface}]}


def stream_of(*results: Any) -> bytes:
    frames = b"".join(frame(rpc(result=result)) for result in results)
    return OK + b"content-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(frames) + frames


async def updates_of(client: Client) -> list[Update]:
    return [update async for update in client.stream("hello")]


def texts(updates: list[Update]) -> list[str]:
    return [update.text for update in updates]


# --- google-adk 2.13.0, to_a2a() with a2a-sdk 1.3.0 -------------------------------------------------------------------

ADK_CALL = {
    "data": {
        "id": "adk-1",
        "name": "adk_request_confirmation",
        "args": {
            "originalFunctionCall": {"id": "c1", "args": {"to": "Rome"}, "name": "book"},
            "toolConfirmation": {"hint": "Book the flight to Rome?", "confirmed": False},
        },
    },
    "metadata": {"adk_is_long_running": True, "adk_type": "function_call"},
}


def _adk_task(state: str, **members: Any) -> dict[str, Any]:
    return {"id": "t", "contextId": "c", "status": {"state": state, **members}}


def _adk_status(state: str, *parts: Any, role: str = "ROLE_AGENT") -> dict[str, Any]:
    message = {"message": {"messageId": "m", "role": role, "parts": list(parts)}} if parts else {}
    return {"statusUpdate": {**IDS, "status": {"state": state, **message}, "metadata": {"adk_author": "a"}}}


async def test_google_adk_asks_with_a_function_call_and_the_question_is_its_hint() -> None:
    asked = {"messageId": "m", "role": "ROLE_AGENT", "parts": [ADK_CALL]}
    async with agent(
        reply(rpc(result={"task": _adk_task("TASK_STATE_INPUT_REQUIRED", message=asked)})), protocolVersion="1.0"
    ) as client:
        assert (await client.send("hello")).question == "Book the flight to Rome?"
    frames = (
        {"task": _adk_task("TASK_STATE_SUBMITTED")},
        _adk_status("TASK_STATE_WORKING", ADK_CALL),
        _adk_status("TASK_STATE_INPUT_REQUIRED", ADK_CALL),
    )
    async with agent(stream_of(*frames), protocolVersion="1.0") as client:
        assert (await updates_of(client))[-1].question == "Book the flight to Rome?"


async def test_google_adk_streams_text_while_it_works_and_repeats_the_last_as_an_artifact() -> None:
    artifact = {"artifactId": "a", "parts": [{"text": "It is 5."}]}
    frames = (
        {"task": _adk_task("TASK_STATE_SUBMITTED")},
        _adk_status("TASK_STATE_WORKING"),
        _adk_status("TASK_STATE_WORKING", {"text": "hello"}, role="ROLE_USER"),
        _adk_status("TASK_STATE_WORKING", {"text": "Let me look. "}),
        _adk_status("TASK_STATE_WORKING", {"text": "It is 5."}),
        {"artifactUpdate": {**IDS, "artifact": artifact, "lastChunk": True}},
        _adk_status("TASK_STATE_COMPLETED"),
    )
    async with agent(stream_of(*frames), protocolVersion="1.0") as client:
        updates = await updates_of(client)
    assert texts(updates) == ["", "", "", "Let me look. ", "It is 5.", "", ""]
    assert [artifact.parts for artifact in updates[-1].seen.task().artifacts] == [(TextPart("It is 5."),)]


def _waiting(*parts: Any, state: TaskState = TaskState.INPUT_REQUIRED) -> Task:
    return Task("t", "c", TaskStatus(state, Message("m", Role.AGENT, parts)))


def _adk_call(name: str) -> DataPart:
    metadata = {"adk_type": "function_call", "adk_is_long_running": True}
    return DataPart({"id": "adk-1", "name": name, "args": {"question": "For how many?"}}, metadata=metadata)


@pytest.mark.parametrize(
    ("name", "answer", "response"),
    [
        ("ask_guests", "four", {"result": "four"}),
        ("ask_guests", 4, {"result": 4}),
        ("ask_guests", {"guests": 4}, {"guests": 4}),
        ("adk_request_confirmation", {"confirmed": True}, {"confirmed": True}),
    ],
)
def test_google_adk_gets_an_answer_as_the_response_of_its_function(name: str, answer: Any, response: Any) -> None:
    message = Client("a.example").message(answer, task=_waiting(_adk_call(name)))
    expected = {"id": "adk-1", "name": name, "response": response}
    assert message.parts == (DataPart(expected, metadata={"adk_type": "function_response"}),)
    assert (message.task_id, message.context_id) == ("t", "c")


# --- strands-agents 1.62.0, A2AServer with a2a-sdk 0.3.26 -------------------------------------------------------------


async def test_strands_streams_pieces_while_it_works_and_repeats_them_as_an_artifact() -> None:
    def said(text: str) -> dict[str, Any]:
        part = {"kind": "text", "text": text}
        message = {"kind": "message", "messageId": "m", "role": "agent", "parts": [part], **IDS}
        return {"kind": "status-update", **IDS, "final": False, "status": {"state": "working", "message": message}}

    whole = {"kind": "text", "text": "I am the then.\n"}  # str(AgentResult)
    artifact = {"artifactId": "a", "name": "agent_response", "parts": [whole]}
    frames = (
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}},
        *map(said, ("I", " am", " the", " then", ".")),
        {"kind": "artifact-update", **IDS, "artifact": artifact},
        {"kind": "status-update", **IDS, "final": True, "status": {"state": "completed"}},
    )
    async with agent(stream_of(*frames), protocolVersion="0.3.0") as client:
        assert client.interface.version == Version.V0_3
        assert texts(await updates_of(client)) == ["", "I", " am", " the", " then", ".", "", ""]


STRANDS_QUESTION = DataPart({"interrupts": [{"interruptId": "i-1", "name": "guests", "reason": "For how many?"}]})


@pytest.mark.parametrize("answer", ["four", {"guests": 4}, 4])
def test_strands_gets_an_answer_in_data_that_names_the_question(answer: Any) -> None:
    message = Client("a.example").message(answer, task=_waiting(TextPart("For how many?"), STRANDS_QUESTION))
    assert message.parts == (DataPart({"interruptResponse": {"interruptId": "i-1", "response": answer}}),)


@pytest.mark.parametrize(
    ("task", "contents"),
    [
        (_waiting(STRANDS_QUESTION, STRANDS_QUESTION), ["four"]),  # which of the two?
        (_waiting(STRANDS_QUESTION, _adk_call("ask_guests")), ["four"]),
        (_waiting(STRANDS_QUESTION), ["four", "five"]),
        (_waiting(STRANDS_QUESTION), [{"interruptResponse": {"interruptId": "i-1", "response": "four"}}]),
        (_waiting(STRANDS_QUESTION), [File(b"4", "four.txt")]),
        (_waiting(STRANDS_QUESTION, state=TaskState.COMPLETED), ["four"]),
        (_waiting(_adk_call("ask_guests")), [DataPart({"id": "adk-1"}, metadata={"adk_type": "function_response"})]),
        (_waiting(_adk_call("adk_request_confirmation")), ["yes"]),
        (_waiting(DataPart({"id": "adk-1", "name": "ask_guests"})), ["four"]),
        (_waiting(DataPart({"interrupts": [{"name": "guests"}, 3]})), ["four"]),
        (_waiting(DataPart({"rows": 3})), ["four"]),
        (Task("t", "c", TaskStatus(TaskState.INPUT_REQUIRED)), ["four"]),
    ],
)
def test_other_answers_are_sent_as_they_are(task: Task, contents: list[Any]) -> None:
    client = Client("a.example")
    assert client.message(*contents, task=task).parts == client.message(*contents).parts


# --- langgraph-api 0.16.7 ---------------------------------------------------------------------------------------------

INTERRUPT = {
    "artifactId": "a",
    "name": "Interrupt",
    "description": "Agent requires input to continue",
    "parts": [{"kind": "data", "data": {"id": "i-1", "value": "Which seat?"}}],
}


def _lg_status(state: str, text: str | None = None, *, final: bool = False) -> dict[str, Any]:
    parts = [{"kind": "text", "text": text}]
    message = {"message": {"kind": "message", "role": "ROLE_AGENT", "parts": parts, "messageId": "m", **IDS}}
    given = {"state": state, "timestamp": "2026-11-16T15:08:02.935732+00:00", **(message if text is not None else {})}
    return {**IDS, "kind": "status-update", "status": given, "final": final}


LG_BEGUN = {
    "task": {
        "kind": "task",
        "id": "t",
        "contextId": "c",
        "history": [{"kind": "message", "role": "ROLE_USER", "parts": [{"text": "hello"}], "messageId": "m0", **IDS}],
        "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": "2026-11-16T15:08:02.935732+00:00"},
    }
}


async def test_langgraph_tags_events_by_kind_and_repeats_its_text_in_each() -> None:
    """The events of its stream mode "messages" hold what the model has said so far; then another node speaks."""
    whole = {"artifactId": "a", "name": "Assistant Response", "parts": [{"kind": "text", "text": "Let us see. 5."}]}
    frames = (
        LG_BEGUN,
        _lg_status("TASK_STATE_WORKING"),
        *(_lg_status("TASK_STATE_WORKING", text) for text in ("Hm", "Hm, wait. ", "Hm, wait. ")),
        *(_lg_status("TASK_STATE_WORKING", text) for text in ("Let", "Let us", "Let us see. 5.", "Let us see. 5.")),
        {**IDS, "kind": "artifact-update", "artifact": whole, "append": False, "lastChunk": True},
        _lg_status("TASK_STATE_COMPLETED", final=True),
    )
    async with agent(stream_of(*frames), protocolVersion="1.0") as client:
        updates = await updates_of(client)
    assert texts(updates) == ["", "", "Hm", ", wait. ", "", "Let", " us", " see. 5.", "", "", ""]
    assert updates[-1].state is TaskState.COMPLETED


async def test_langgraph_asks_by_an_artifact() -> None:
    task: dict[str, Any] = {"kind": "task", "id": "t", "contextId": "c", "artifacts": [INTERRUPT]}
    task["status"] = {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-11-16T15:08:02.935732+00:00"}
    async with agent(reply(rpc(result={"task": task})), protocolVersion="1.0") as client:
        assert (await client.send("hello")).question == "Which seat?"
    dump = "{'seat': None, '__interrupt__': [{'value': 'Which seat?'}]}"  # a state without messages, as Python shows it
    frames = (
        LG_BEGUN,
        {**IDS, "kind": "artifact-update", "artifact": INTERRUPT},
        _lg_status("TASK_STATE_INPUT_REQUIRED", dump, final=True),
    )
    async with agent(stream_of(*frames), protocolVersion="1.0") as client:
        assert (await updates_of(client))[-1].question == "Which seat?"


# --- Microsoft agent-framework-a2a 1.0.0b261022 -----------------------------------------------------------------------


async def test_an_interface_that_states_no_version_speaks_that_of_its_card() -> None:
    """The card in the documentation of Microsoft's A2AExecutor: `AgentInterface(url=…, protocol_binding="JSONRPC")`."""
    async with agent(reply(rpc(result={"task": _adk_task("TASK_STATE_COMPLETED")}))) as client:
        assert client.interface.version == Version.V1_0
        assert (await client.send("hello")).state is TaskState.COMPLETED


async def test_microsoft_answers_with_messages_of_the_working_task_unless_it_streams() -> None:
    def said(role: str, text: str) -> dict[str, Any]:
        return {"messageId": text, "role": role, "parts": [{"text": text}], **IDS}

    history = [said("ROLE_USER", "hi"), said("ROLE_AGENT", "Yes?"), said("ROLE_USER", "hello")]
    task = _adk_task("TASK_STATE_COMPLETED")
    task["history"] = [*history, said("ROLE_AGENT", "It is "), said("ROLE_AGENT", "5.")]
    async with agent(reply(rpc(result={"task": task}))) as client:
        assert (await client.send("hello")).text == "It is 5."
    async with agent(reply(rpc(result={"task": {**task, "history": history}}))) as client:
        assert (await client.send("hello")).text == ""
    working = {**task, "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
    async with agent(reply(rpc(result={"task": working}))) as client:
        assert (await client.send("hello")).text == ""


async def test_messages_of_a_parley_agent_at_work_are_notes_and_not_its_answer() -> None:
    noting = Agent("Noting")

    @noting.on_message
    async def note(turn: Turn) -> None:
        await turn.status("Looking.")

    async with App(noting).running() as app, serving(app) as http, Client(str(http.base_url)) as client:
        answer = await client.send("hello")
    assert (answer.state, answer.text) == (TaskState.COMPLETED, "")


# --- questions without words ------------------------------------------------------------------------------------------


def _asking(*data: Any, metadata: Any = None) -> str:
    parts = tuple(DataPart(value, metadata=metadata or {}) for value in data)
    return question_of(TaskStatus(TaskState.INPUT_REQUIRED, Message("m", Role.AGENT, parts)), ())


@pytest.mark.parametrize(
    ("data", "question"),
    [
        ({"name": "adk_request_input", "args": {"interruptId": "i", "message": "How many?"}}, "How many?"),
        ({"name": "approve", "id": "1", "args": {"amount": 200}}, 'approve {"amount":200}'),
        (
            {"args": {"authConfig": {"exchangedAuthCredential": {"oauth2": {"authUri": "https://login.example"}}}}},
            "https://login.example",
        ),
        ({"id": "i", "value": {"action_requests": [{"description": "Run?"}, {"description": "Now?"}]}}, "Run?\nNow?"),
        ({"id": "i", "value": {"rows": 3}}, '{"rows":3}'),
        ({"interrupts": [{"interruptId": "1", "name": "n", "reason": "Delete it?"}]}, "Delete it?"),
        ([1, 2], "[1,2]"),
    ],
)
def test_a_question_in_data_is_told_in_its_words_or_as_json(data: Any, question: str) -> None:
    assert _asking(data) == question


def test_what_a_tool_has_returned_so_far_is_not_the_question() -> None:
    assert _asking({"status": "pending"}, metadata={"adk_type": "function_response"}) == ""


# --- text that was said while the agent was at work -------------------------------------------------------------------


def _spoken(*events: StatusUpdate | ArtifactUpdate | Task | Message, apart: bool = False) -> list[str]:
    spoken, seen = AddedText(keeps_notes_apart=apart), StreamedTask()
    return [Update(event, seen, added_text=spoken.text(event)).text for event in events]


def _said(text: str) -> StatusUpdate:
    return status(TaskState.WORKING, text)


def test_pieces_that_are_then_summed_up_are_told_once() -> None:
    """As google-adk sends them with streaming switched on by a converter of one's own."""
    assert _spoken(_said("It "), _said("is "), _said("It is "), _said("so"), _said("."), _said("so.")) == [
        *("It ", "is ", "", "so", ".", "")
    ]


def test_an_answer_adds_what_was_not_said() -> None:
    assert _spoken(_said("One"), _said(", two"), chunk("One, two, three")) == ["One", ", two", ", three"]
    assert _spoken(_said("Looking at 5"), chunk(""), chunk("5"), chunk("6")) == ["Looking at 5", "", "5", "6"]
    assert _spoken(_said("One"), Message("m", Role.AGENT, (TextPart("One"),))) == ["One", ""]
    done = TaskStatus(TaskState.COMPLETED, Message("m", Role.AGENT, (TextPart("Two"),)))
    assert _spoken(_said("-"), _said("-"), Task("t", "c", done)) == ["-", "-", "Two"]
    with_artifact = Task("t", "c", done, (Artifact("a", (TextPart("One"),)),))
    assert _spoken(_said("One"), with_artifact, StatusUpdate("t", "c", done)) == ["One", "", ""]


def test_notes_of_an_agent_that_keeps_them_apart_are_no_text() -> None:
    assert _spoken(_said("Looking"), chunk("5"), apart=True) == ["", "5"]
