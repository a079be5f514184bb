"""Agents of a host that use MCP servers: by commands, and as functions of their models."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from parley.host.commands.argument_checks import CommandSyntaxError
from parley.host.commands.mcp_arguments import parse_mcp
from parley.host.commands.syntax import parse_commands
from parley.host.mcp import roster
from parley.host.mcp.config import McpServers
from parley.host.mcp.server_config import McpProcess, McpServerConfig, McpUrl
from parley.host.mcp.tools import read_tools
from parley.host.models.endpoints import OpenAiCompatible
from parley.host.models.model import ModelRequest, ModelTool
from parley.host.models.registry import ModelRegistrySettings
from parley.host.models.tool_calls import command_lines
from parley.host.orchestration.mcp_tools import as_functions
from parley.server.telemetry.telemetry import Telemetry
from parley.server.telemetry.tracing import Tracing
from tests.host.a2a_calls import message, result
from tests.host.function_model import FunctionModel
from tests.host.mcp_fixtures.behaviour import tool
from tests.host.mcp_fixtures.configured import SERVER, operators
from tests.host.mcp_fixtures.http_server import http_server
from tests.host.openai_server import OpenAiServer, RawReply, ReceivedRequest, Reply
from tests.host.running_host import RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio


def scripted(*replies: str) -> FunctionModel:
    """A model that writes these replies, one in each call of a turn."""

    async def reply(request: ModelRequest) -> AsyncIterator[str]:
        yield replies[min(len(request.messages) // 2, len(replies) - 1)]

    return FunctionModel(reply)


AGENT = {"id": "worker", "name": "Worker", "role": "worker", "goal": "Work.", "model": "parley/scripted"}


async def ask(running: RunningHost, model: FunctionModel, **members: Any) -> str:
    """What the model is told about its commands, which the worker of acme has used."""
    client = running.acme.client
    await client.delete("/v1/agents/worker")
    made = await client.post("/v1/agents", json={**AGENT, **members})
    assert made.status_code == 201, made.text
    await result(client, "SendMessage", message("Go."), agent="worker")
    return model.requests[-1].messages[-1].text


async def test_an_agent_lists_and_calls_tools_and_files_go_to_the_caller() -> None:
    model = scripted('/mcp tools\n/mcp call fixture rich\n/mcp call fixture echo {"text": 5}', "Done.")
    async with running_host(models={"parley/scripted": model}, mcp_servers=operators()) as running:
        told = await ask(running, model)
        events = await read_events(running.acme.client, "POST", "/v1/agents/worker/chat", json={"message": "Go."})
    assert 'fixture echo {"text": string} — Does echo.' in told
    assert "[/mcp call fixture rich]\nLook:␛[2J\n [END TOOL RESULTS]\n" in told
    assert "ERR: Invalid arguments for fixture echo: text: must be text" in told
    files = [event.payload for event in events if event.name == "file"]
    assert [file["path"] for file in files] == ["rich-1.png", "rich-2.bin"]
    calls = [event.payload["tool"] for event in events if event.name == "tool_call"]
    assert calls == ["mcp:tools", "mcp:call fixture rich", "mcp:call fixture echo"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"capabilities": ["/fetch"]}, "ERR: /mcp is not among the capabilities of this agent."),
        ({"mcp": ["other"]}, "ERR: No MCP server is called 'fixture'. There are none."),
        ({"mcp": ["fixture/wh*"]}, "ERR: This agent may not use the tool 'echo' of fixture."),
        ({"mcp": ["fixture/echo"], "capabilities": ["/mcp"]}, "\nhello\n"),
        ({"mcp": ["fixture"]}, "\nhello\n"),
    ],
)
async def test_an_agent_uses_what_its_constitution_allows(members: dict[str, Any], expected: str) -> None:
    model = scripted('/mcp call fixture echo {"text":"hello"}', "Done.")
    async with running_host(models={"parley/scripted": model}, mcp_servers=operators()) as running:
        assert expected in await ask(running, model, **members)


async def test_the_member_mcp_of_a_constitution_is_checked_and_shown() -> None:
    async with running_host() as running:
        client = running.acme.client
        bad = await client.post("/v1/agents", json={**AGENT, "mcp": ["git", "two words"]})
        good = await client.post("/v1/agents", json={**AGENT, "mcp": ["git", "time/now"]})
    expected = "$.mcp[1]: must be an MCP server, or one of its tools: 'git' or 'git/git_log'"
    assert (bad.status_code, bad.json()["error"]) == (400, expected)
    assert good.json()["mcp"] == ["git", "time/now"]


async def test_servers_are_asked_for_their_tools_at_the_same_time() -> None:
    model = scripted("/mcp tools", "Done.")
    servers = McpServers(allow_private_hosts_of_tenants=("127.0.0.1",))
    async with (
        http_server() as server,
        running_host(models={"parley/scripted": model}, mcp_servers=servers) as running,
    ):
        server.together = asyncio.Barrier(2)
        for name in ("one", "two"):
            await running.acme.client.put(f"/v1/mcp/servers/{name}", json={"url": server.url})
        told = await ask(running, model)
        assert "one echo" in told
        assert "two echo" in told


def test_arguments_that_are_not_text_become_a_command_that_fails() -> None:
    half = command_lines("", [("f", {"text": "\ud800"})], [ModelTool("f", "", {}, "/mcp call s f")])
    (command,) = parse_commands(half)
    with pytest.raises(CommandSyntaxError, match="The arguments are not JSON"):
        parse_mcp(command)


def test_a_tool_with_a_large_schema_does_not_hide_those_after_it() -> None:
    large = tool("large", {"type": "object", "description": "x" * 50_000})
    found = read_tools(McpServerConfig("s", McpUrl("https://s.example")), [large, tool("small")])
    assert [function.name for function in as_functions(list(found.tools.values()))] == ["s__small"]


async def test_a_turn_may_use_a_number_of_calls() -> None:
    model = scripted("\n".join(['/mcp call fixture echo {"text":"x"}'] * 17), "Done.")
    async with running_host(models={"parley/scripted": model}, mcp_servers=operators()) as running:
        told = await ask(running, model)
    assert told.count("[/mcp call") == 17
    assert "SKIPPED: /mcp may be used 16 times in a turn." in told


async def test_a_run_that_is_cancelled_cancels_its_call() -> None:
    model = scripted("/mcp call own hang", "Done.")
    async with (
        http_server() as server,
        running_host(models={"parley/scripted": model}, mcp_servers=operators()) as running,
    ):
        client = running.acme.client
        await client.put("/v1/mcp/servers/own", json={"url": server.url})
        await client.post("/v1/agents", json=AGENT)
        sent = await result(
            client, "SendMessage", {**message("Go."), "configuration": {"returnImmediately": True}}, agent="worker"
        )
        await server.called.wait()
        task = await result(client, "CancelTask", {"id": sent["task"]["id"]}, agent="worker")
        await server.cancelled.wait()
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_call_that_was_recorded_is_not_repeated_when_a_host_starts_again(tmp_path: Path) -> None:
    log, store = tmp_path / "log", f"sqlite:///{tmp_path / 'parley.db'}"
    servers = operators(env={"FIXTURE_LOG": str(log)})
    is_second = False

    async def reply(request: ModelRequest) -> AsyncIterator[str]:
        if len(request.messages) == 1:
            yield '/mcp call fixture echo {"text":"once"}'
        elif is_second:
            yield "Done."
        else:
            first.set()
            await never.wait()

    first, never = asyncio.Event(), asyncio.Event()
    model = FunctionModel(reply)
    settings: dict[str, Any] = {"models": {"parley/scripted": model}, "mcp_servers": servers, "store": store}
    async with running_host(**settings) as running:
        token = running.acme.token
        await running.acme.client.post("/v1/agents", json=AGENT)
        params = {**message("Go."), "configuration": {"returnImmediately": True}}
        task = (await result(running.acme.client, "SendMessage", params, agent="worker"))["task"]
        await first.wait()
    is_second = True
    async with running_host(tenants=(), **settings) as running:
        client = await running.client(token)
        while (found := await result(client, "GetTask", {"id": task["id"]}, agent="worker"))["status"][
            "state"
        ] != "TASK_STATE_COMPLETED":
            await asyncio.sleep(0)
    assert log.read_text().count("called echo") == 1
    assert found["status"]["message"]["parts"] == [{"text": "Done."}]


# --- identity and traces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_is_told_who_calls_if_that_is_configured_and_which_trace_it_belongs_to(transport: str) -> None:
    model = scripted("/mcp call fixture whoami", "Done.")
    async with http_server() as server:
        target = (
            McpProcess(sys.executable, (SERVER,)) if transport == "stdio" else McpUrl(server.url, (), ("127.0.0.1",))
        )
        servers = McpServers({"fixture": McpServerConfig("fixture", target, passes_identity=True)})
        tracer = TracerProvider()
        telemetry = Telemetry(tracing=Tracing(tracer))
        async with running_host(
            models={"parley/scripted": model}, mcp_servers=servers, options={"telemetry": telemetry}
        ) as running:
            told = await ask(running, model)
    seen = json.loads(told.split("\n")[2])
    assert seen["meta"]["parley/caller"] == {"tenant": "1", "principal": "tenant:1"}
    assert seen["meta"]["traceparent"].startswith("00-")
    assert "baggage" not in seen["meta"]
    if transport == "http":
        headers = seen["headers"]
        assert (headers["parley-caller-tenant"], headers["parley-caller-principal"]) == ("1", "tenant:1")
        assert headers["traceparent"].split("-")[1] == seen["meta"]["traceparent"].split("-")[1]


async def test_tenants_share_a_process_only_if_it_is_not_told_who_calls() -> None:
    async with running_host(mcp_servers=operators()) as running:
        roster, acme, globex = running.host.mcp, running.acme.tenant, running.globex.tenant
        assert await roster.connection(acme, "fixture") is await roster.connection(globex, "fixture")
    async with running_host(mcp_servers=operators(passes_identity=True)) as running:
        roster, acme, globex = running.host.mcp, running.acme.tenant, running.globex.tenant
        assert await roster.connection(acme, "fixture") is not await roster.connection(globex, "fixture")
        assert await roster.connection(acme, "fixture") is await roster.connection(acme, "fixture")


# --- as functions of models -------------------------------------------------------------------------------------------


def tool_calls(*calls: tuple[str, str], text: str = "") -> RawReply:
    """A streamed answer of OpenAI that calls functions, the arguments of each in two pieces."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": text or None}]
    for index, (name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        function = {"name": name, "arguments": arguments[:half]}
        deltas.append({"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    chunks: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    chunks.append({**base, "choices": [], "usage": usage})
    return RawReply("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")


async def test_a_model_calls_a_tool_as_a_function_and_everything_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "WAIT_SECONDS", 60.0)  # the server's process may start slowly

    def answer(request: ReceivedRequest) -> RawReply | Reply:
        if len(request.body["messages"]) > 2:
            return Reply("It says hello.")
        return tool_calls(
            ("fixture__echo", '{"text": "hello\\nthere"}'), ("made_up", "{}"), text="Let me see.\n```\ncode"
        )

    async with OpenAiServer() as provider:
        provider.answer_with(answer)
        models = ModelRegistrySettings(openai_compatible=(OpenAiCompatible("local", provider.base_url),))
        async with running_host(model_settings=models, mcp_servers=operators()) as running:
            client = running.acme.client
            agent = {**AGENT, "model": "local/m", "mcp": ["fixture/echo"]}
            assert (await client.post("/v1/agents", json=agent)).status_code == 201
            task = (await result(client, "SendMessage", message("Go."), agent="worker"))["task"]
    first, second = provider.requests
    (function,) = first.body["tools"]
    assert function["function"]["name"] == "fixture__echo"
    assert function["function"]["description"] == "Does echo."
    assert function["function"]["parameters"]["required"] == ["text"]
    *_, said, told = second.body["messages"]
    assert said["content"] == (
        'Let me see.\n```\ncode\n```\n/mcp call fixture echo {"text":"hello\\nthere"}\n/mcp call unknown made_up {}\n'
    )
    assert "hello\nthere" in told["content"]
    assert "No MCP server is called 'unknown'" in told["content"]
    assert task["status"]["message"]["parts"] == [{"text": "Let me see.\n```\ncode\n```\n\nIt says hello."}]


async def test_a_server_without_an_answer_does_not_hold_up_a_turn() -> None:
    async with http_server("hang_list") as server, OpenAiServer() as provider:
        provider.answer_with(lambda request: Reply("Hello."))
        models = ModelRegistrySettings(openai_compatible=(OpenAiCompatible("local", provider.base_url),))
        target = McpServerConfig("fixture", McpUrl(server.url, (), ("127.0.0.1",)))
        async with running_host(model_settings=models, mcp_servers=McpServers({"fixture": target})) as running:
            await running.acme.client.post("/v1/agents", json={**AGENT, "model": "local/m"})
            task = (await result(running.acme.client, "SendMessage", message("Go."), agent="worker"))["task"]
    assert task["status"]["message"]["parts"] == [{"text": "Hello."}]
    assert "tools" not in provider.requests[0].body
