"""A host as an MCP server, used by the SDK's own client over HTTP: starter agents, progress, questions, cancels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult

from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import TenantSettings
from tests.host.running_host import RunningHost, running_host
from tests.mcp.mcp_clients import LEGACY, MODES, NEWEST, files_of_result, mcp_client, text_of_result
from tests.mcp.sample_agent import Helper

pytestmark = pytest.mark.anyio

STARTERS = {
    "calculator": ("2 + 3", "5"),
    "currency": ("100 USD in EUR", "EUR"),
    "dates": ("days between 2026-01-01 and 2026-01-31", "30"),
    "drafts": ("write hello to notes.md", "notes.md"),
    "index": ("5 miles in km", "8.04672"),
    "text": ("uppercase hello", "HELLO"),
    "units": ("5 miles in km", "8.04672"),
}


@asynccontextmanager
async def helping_host(helper: Helper | None = None) -> AsyncGenerator[tuple[RunningHost, Helper]]:
    helper = helper or Helper()
    async with running_host(given_agents=(GivenAgent(helper.agent),)) as running:
        settings = TenantSettings(input_required=True, file_parts=True)
        await running.host.tenants.update(running.acme.id, settings=settings)
        yield running, helper


class Answering:
    """A user who answers elicitations in turn, and what was asked."""

    def __init__(self, *answers: ElicitResult) -> None:
        self._answers = list(answers)
        self.asked: list[ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0)


async def states_of_tasks(running: RunningHost) -> list[str]:
    """The states of all tasks of a tenant, newest first."""
    return [task["state"] for task in (await running.acme.client.get("/v1/requests")).json()["requests"]]


def accepted(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


@pytest.mark.parametrize("mode", MODES)
async def test_every_starter_agent_is_a_tool_and_its_card_a_resource(mode: str) -> None:
    async with (
        running_host(with_starters=True) as running,
        mcp_client(running.url, running.acme.token, mode=mode) as client,
    ):
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [*STARTERS]
        for name, (message, expected) in STARTERS.items():
            result = await client.call_tool(name, {"message": message})
            assert (result.is_error, result.structured_content["state"]) == (False, "completed")
            assert expected in text_of_result(result)
        cards = (await client.list_resources()).resources
        assert [card.uri for card in cards] == [f"agent://{name}/card" for name in STARTERS]
        read = (await client.read_resource("agent://units/card")).contents[0]
        over_a2a = await running.acme.client.get("/v1/a2a/agents/units/agent-card.json")
        assert (read.mime_type, getattr(read, "text", "")) == ("application/json", over_a2a.text)


@pytest.mark.parametrize("mode", MODES)
async def test_progress_tells_what_the_agent_says_meanwhile(mode: str) -> None:
    async with helping_host() as (running, helper), mcp_client(running.url, running.acme.token, mode=mode) as client:
        seen: list[tuple[float, str | None]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append((progress, message))
            if message == "Thinking about it":
                helper.gate.set()  # so the note has arrived while the agent is at work

        result = await client.call_tool("helper", {"message": "wait"}, progress_callback=on_progress)
        assert text_of_result(result) == "Waited."
    numbers = [number for number, _ in seen]
    assert numbers == sorted(set(numbers))
    assert "Thinking about it" in [message for _, message in seen]


@pytest.mark.parametrize("mode", MODES)
async def test_a_question_is_elicited_and_the_answer_goes_to_the_same_task(mode: str) -> None:
    user = Answering(accepted(answer="four"), accepted(city="Oslo", guests=2, rooms='["sea"]'))
    async with helping_host() as (running, _):
        async with mcp_client(running.url, running.acme.token, mode=mode, elicitation_callback=user) as client:
            asked = await client.call_tool("helper", {"message": "ask"})
            assert text_of_result(asked) == "For four."
            booked = await client.call_tool("helper", {"message": "book"})
            assert booked.structured_content["data"] == [
                {"city": "Oslo", "guests": 2, "vegan": False, "rooms": ["sea"]}
            ]
        assert await states_of_tasks(running) == ["completed", "completed"]
    assert [params.message for params in user.asked] == ["For how many?", "Which room?"]
    fields = user.asked[1].requested_schema["properties"]
    assert fields["city"] == {"type": "string", "title": "City", "enum": ["Rome", "Oslo"]}
    assert {name: field["type"] for name, field in fields.items()} == {
        "city": "string",
        "guests": "integer",
        "vegan": "boolean",
        "rooms": "string",
    }


@pytest.mark.parametrize("mode", MODES)
async def test_a_user_who_declines_cancels_the_task_and_one_who_dismisses_the_question_leaves_it(mode: str) -> None:
    user = Answering(ElicitResult(action="decline"), ElicitResult(action="cancel"))
    async with helping_host() as (running, _):
        async with mcp_client(running.url, running.acme.token, mode=mode, elicitation_callback=user) as client:
            declined = await client.call_tool("helper", {"message": "ask"})
            assert (declined.is_error, "declined" in text_of_result(declined)) == (True, True)
            dismissed = await client.call_tool("helper", {"message": "ask"})
            assert dismissed.structured_content["state"] == "input-required"
            task_id = dismissed.structured_content["task_id"]
            answered = await client.call_tool("helper", {"message": "two", "task_id": task_id})
            assert text_of_result(answered) == "For two."
        assert sorted(await states_of_tasks(running)) == ["canceled", "completed"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_cannot_ask_gets_the_question_and_how_to_answer_it(mode: str) -> None:
    async with helping_host() as (running, _), mcp_client(running.url, running.acme.token, mode=mode) as client:
        asked = await client.call_tool("helper", {"message": "book"})
        said = asked.structured_content
        assert (asked.is_error, said["state"], said["question"]) == (False, "input-required", "Which room?")
        assert said["form"]["required"] == ["city", "guests"]
        assert f"task_id='{said['task_id']}'" in text_of_result(asked)
        arguments = {"message": "", "data": {"city": "Rome", "guests": 1}, "task_id": said["task_id"]}
        booked = await client.call_tool("helper", arguments)
        assert booked.structured_content["data"] == [{"city": "Rome", "guests": 1}]
        needs_login = await client.call_tool("helper", {"message": "log-in"})
        assert (needs_login.is_error, needs_login.structured_content["state"]) == (True, "auth-required")
        assert "https://login.example" in text_of_result(needs_login)
        needs_key = await client.call_tool("helper", {"message": "key"})
        assert "call this tool again with the credential alone as the message" in text_of_result(needs_key)
        arguments = {"message": "key-1", "task_id": needs_key.structured_content["task_id"]}
        assert (await client.call_tool("helper", arguments)).structured_content["text"] == "A key of 5 letters."


async def test_a_task_that_waits_for_an_approver_is_not_asked_about() -> None:
    async with (
        helping_host() as (running, _),
        mcp_client(running.url, running.acme.token, elicitation_callback=Answering()) as client,
    ):
        waiting = await client.call_tool("helper", {"message": "approve"})
        assert (waiting.is_error, waiting.structured_content["state"]) == (False, "input-required")
        assert "decision of an approver: May I?" in text_of_result(waiting)


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_is_looked_at_with_an_empty_message(mode: str) -> None:
    async with helping_host() as (running, helper), mcp_client(running.url, running.acme.token, mode=mode) as client:
        first = asyncio.create_task(client.call_tool("helper", {"message": "wait"}))
        await helper.begun.wait()
        (task,) = (await running.acme.client.get("/v1/requests")).json()["requests"]
        look = {"message": "", "task_id": task["request_id"]}
        second = asyncio.create_task(client.call_tool("helper", look))
        await asyncio.wait([second], timeout=0.05)
        helper.gate.set()
        assert text_of_result(await first) == text_of_result(await second) == "Waited."
        assert text_of_result(await client.call_tool("helper", look)) == "Waited."


@pytest.mark.parametrize("mode", MODES)
async def test_a_canceled_call_cancels_the_agents_work(mode: str) -> None:
    async with helping_host() as (running, helper), mcp_client(running.url, running.acme.token, mode=mode) as client:
        calling = asyncio.create_task(client.call_tool("helper", {"message": "wait"}))
        await helper.begun.wait()
        calling.cancel()
        await helper.canceled.wait()
        await asyncio.wait([calling])
        assert await states_of_tasks(running) == ["canceled"]


async def test_failures_of_a_task_are_errors_of_the_tool_with_their_reason() -> None:
    async with helping_host() as (running, _), mcp_client(running.url, running.acme.token) as client:
        failed = await client.call_tool("helper", {"message": "fail"})
        assert (failed.is_error, failed.structured_content["reason"]) == (True, "The oven is broken.")
        assert text_of_result(failed) == "The task failed: The oven is broken."
        rejected = await client.call_tool("helper", {"message": "reject"})
        assert text_of_result(rejected) == "The agent rejected the task: Not on Sundays."


async def test_files_and_data_go_to_the_agent_and_come_back() -> None:
    async with helping_host() as (running, _), mcp_client(running.url, running.acme.token) as client:
        sent = [{"name": "soup.png", "media_type": "image/png", "data": "iVBORwD/"}]
        result = await client.call_tool("helper", {"message": "files", "files": sent})
        (file,) = files_of_result(result)
        assert (file.mime_type, file.blob) == ("image/png", "iVBORwD/")
        links = [block for block in result.content if block.type == "resource_link"]
        assert [(link.name, link.uri) for link in links] == [("menu.pdf", "https://files.example/menu.pdf")]
        assert [one["name"] for one in result.structured_content["files"]] == ["soup.png", "menu.pdf"]
        echoed = await client.call_tool("helper", {"message": "data", "data": {"a": [1, None]}})
        assert echoed.structured_content["data"] == [{"got": {"a": [1, None]}}]


async def test_a_conversation_goes_on_in_its_context() -> None:
    async with helping_host() as (running, _), mcp_client(running.url, running.acme.token) as client:
        first = await client.call_tool("helper", {"message": "one"})
        context_id = first.structured_content["context_id"]
        second = await client.call_tool("helper", {"message": "two", "context_id": context_id})
        assert second.structured_content["context_id"] == context_id
        assert second.structured_content["task_id"] != first.structured_content["task_id"]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("helper", {}, "$.params.arguments.message: required argument"),
        ("helper", {"message": 5}, "$.params.arguments.message: must be a string"),
        ("helper", {"message": " "}, "$.params.arguments.message: must not be empty"),
        ("helper", {"message": "a", "mesage": "b"}, "$.params.arguments.mesage: unknown argument"),
        ("helper", {"message": "a", "data": []}, "$.params.arguments.data: must be an object"),
        ("helper", {"message": "a", "task_id": "x" * 2_000}, "$.params.arguments.task_id: must have at most"),
        ("helper", {"message": "a", "task_id": "unknown"}, "$.params.arguments.task_id: there is no such task"),
        ("helper", {"message": "a", "files": [{"data": "*"}]}, "$.params.arguments.files[0].data: is not valid base64"),
        ("helper", {"message": "a", "files": [{}]}, "$.params.arguments.files[0]: must have either data or url"),
        ("nobody", {"message": "a"}, "Unknown tool: nobody"),
    ],
)
async def test_wrong_arguments_are_named(tool: str, arguments: dict[str, Any], said: str) -> None:
    async with helping_host() as (running, _), mcp_client(running.url, running.acme.token) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool(tool, arguments)
        assert refused.value.error.code == -32602
        assert refused.value.error.message.startswith(said)


async def test_an_answer_that_is_sent_twice_is_given_once() -> None:
    """The wire of 2026-07-28: a client that lost the reply repeats its request."""
    async with helping_host() as (running, _):
        elicitation = {"elicitation_callback": Answering()}
        async with mcp_client(running.url, running.acme.token, mode=NEWEST, **elicitation) as client:
            asked = await client.session.call_tool("helper", {"message": "ask"}, allow_input_required=True)
            assert asked.result_type == "input_required"
            again = {"input_responses": {"answer": accepted(answer="six")}, "request_state": asked.request_state}
            first, second = [
                await client.session.call_tool("helper", {"message": "ask"}, **again, allow_input_required=True)
                for _ in range(2)
            ]
            assert text_of_result(first) == text_of_result(second) == "For six."
            with pytest.raises(MCPError) as refused:
                await client.session.call_tool("helper", {"message": "ask"}, request_state="{}")
            assert refused.value.error.message.startswith("$.params.requestState")


async def test_changes_of_agents_are_told_to_sessions_and_subscriptions() -> None:
    told = asyncio.Queue[str]()

    async def on_message(message: Any) -> None:
        told.put_nowait(getattr(message, "method", repr(message)))

    agent = {"id": "scout", "name": "Scout", "role": "r", "goal": "g"}
    async with (
        running_host() as running,
        mcp_client(running.url, running.acme.token, mode=LEGACY, message_handler=on_message) as session,
        mcp_client(running.url, running.acme.token, mode=NEWEST) as newest,
        newest.listen(tools_list_changed=True) as events,
    ):
        await _until_listening(running, session)
        await running.acme.client.post("/v1/agents", json=agent)
        assert await told.get() == "notifications/tools/list_changed"
        assert await told.get() == "notifications/resources/list_changed"
        assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"
        assert [tool.name for tool in (await session.list_tools()).tools] == ["index", "scout"]


async def _until_listening(running: RunningHost, client: Client) -> None:
    """The session's stream for notifications is open: the SDK opens it in the background."""
    servers = running.host._http.mcp._servers  # pyright: ignore
    server = servers._servers[running.acme.id]  # pyright: ignore
    while not server._waiting or len(server.mcp.changes._listeners) < 2:  # pyright: ignore
        await client.send_ping()


async def test_a_thousand_agents_are_listed_in_pages() -> None:
    agents = tuple(GivenAgent(_silent(f"agent-{number:04}")) for number in range(1_000))
    async with running_host(given_agents=agents) as running, mcp_client(running.url, running.acme.token) as client:
        names: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor, pages = page.next_cursor, pages + 1
        assert (pages, len(names)) == (11, 1_001)
        assert names == sorted(names)
        assert len((await client.list_resources()).resources) == 100
        with pytest.raises(MCPError, match=r"\$\.params\.cursor"):
            await client.list_tools(cursor="x" * 500)


def _silent(agent_id: str) -> Any:
    from parley import Agent

    agent = Agent(agent_id, id=agent_id)
    agent.on_message(lambda turn: turn.text)
    return agent


async def test_the_trace_of_a_call_reaches_the_agent() -> None:
    seen: list[str] = []
    helper = Helper()
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with helping_host(helper) as (running, _):
        answer = running.host._http._call_agent  # pyright: ignore

        async def spy(request: Any) -> None:
            seen.append(request.headers.get("traceparent", ""))
            await answer(request)

        running.host._http._call_agent = spy  # pyright: ignore
        async with mcp_client(running.url, running.acme.token) as client:
            await client.call_tool("helper", {"message": "hi"}, meta={"traceparent": trace})
    assert [header.split("-")[1] for header in seen] == [trace.split("-")[1]] * len(seen)
    assert seen
