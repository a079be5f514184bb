"""`parley mcp` in a process of its own, started by the SDK's client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from parley import Agent
from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import TenantSettings
from parley.server.app import App
from parley.server.run import Bound, Serving, serve
from tests.host.running_host import running_host
from tests.mcp.mcp_clients import LEGACY, text_of_result
from tests.mcp.sample_agent import Helper
from tests.mcp.test_host_tools import STARTERS, Answering, accepted, states_of_tasks
from tests.peer_environments import ROOT, python_of, serving_process
from tests.services.postgres import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(120)]

COMMAND = (sys.executable, "-m", "parley.cli.main", "mcp")


@asynccontextmanager
async def stdio(*arguments: str, token: str = "", **settings: Any) -> AsyncGenerator[Client]:
    """A client of `parley mcp` with these arguments."""
    environment = {"PARLEY_TOKEN": token} if token else {}
    command = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *arguments], env=environment)
    async with Client(stdio_client(command), **settings) as client:
        yield client


@pytest.mark.parametrize("mode", [LEGACY, "auto"])
async def test_all_agents_of_a_host_are_tools_over_standard_input(mode: str) -> None:
    helper = Helper()
    user = Answering(accepted(answer="four"))
    async with running_host(with_starters=True, given_agents=(GivenAgent(helper.agent),), seconds=60) as running:
        await running.host.tenants.update(running.acme.id, settings=TenantSettings(input_required=True))
        async with stdio(running.url, token=running.acme.token, mode=mode, elicitation_callback=user) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == sorted([*STARTERS, "helper"])
            assert "8.04672" in text_of_result(await client.call_tool("units", {"message": "5 miles in km"}))
            assert text_of_result(await client.call_tool("helper", {"message": "ask"})) == "For four."
            seen: list[str | None] = []

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                seen.append(message)

            calling = asyncio.create_task(
                client.call_tool("helper", {"message": "wait"}, progress_callback=on_progress)
            )
            await helper.begun.wait()
            calling.cancel()
            await helper.canceled.wait()
            await asyncio.gather(calling, return_exceptions=True)
            card = json.loads(getattr((await client.read_resource("agent://units/card")).contents[0], "text", ""))
            assert card["supportedInterfaces"][0]["url"] == f"{running.url}/v1/a2a/agents/units"
        assert (await states_of_tasks(running))[0] == "canceled"


async def test_a_client_that_leaves_cancels_its_calls() -> None:
    helper = Helper()
    async with running_host(given_agents=(GivenAgent(helper.agent),), seconds=60) as running:
        async with stdio(running.url, token=running.acme.token) as client:
            calling = asyncio.create_task(client.call_tool("helper", {"message": "wait"}))
            await helper.begun.wait()
            await asyncio.sleep(0)
        await helper.canceled.wait()
        await asyncio.gather(calling, return_exceptions=True)


async def test_an_agent_of_a2a_sdk_is_a_tool(tmp_path: Path) -> None:
    command = [python_of("a2a-sdk-1.3.0"), ROOT / "tests" / "peers" / "server_sdk_1_3_0.py"]
    user = Answering(accepted(answer="four"))
    with serving_process(command, log=tmp_path / "log") as (url, _):
        async with stdio(url, elicitation_callback=user) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.input_schema["required"] == ["message"]
            result = await client.call_tool(tool.name, {"message": "echo hello"})
            assert (result.is_error, result.structured_content["text"]) == (False, "hello")
            asked = await client.call_tool(tool.name, {"message": "ask"})
            assert (asked.structured_content["state"], user.asked[0].message) == ("completed", "For how many?")
            failed = await client.call_tool(tool.name, {"message": "fail"})
            assert (failed.is_error, failed.structured_content["reason"]) == (True, "The oven is broken.")


async def test_a_token_goes_to_the_first_agents_origin_only() -> None:
    """Both agents tell which Authorization they were sent."""
    async with (
        serving(_teller("One")) as first,
        serving(_teller("Two")) as second,
        stdio(first, second, token="secret") as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["one", "two"]
        said = [text_of_result(await client.call_tool(name, {"message": "hi"})) for name in ("one", "two")]
    assert said == ["One hears hi", "Two hears hi"]
    assert HEARD["One"] == {"Bearer secret"}
    assert HEARD["Two"] == {None}


HEARD: dict[str, set[str | None]] = {}


def _teller(name: str) -> Agent:
    agent = Agent(name)
    agent.on_message(lambda turn: f"{name} hears {turn.text}")
    return agent


@asynccontextmanager
async def serving(agent: Agent) -> AsyncGenerator[str]:
    """An agent on a real port, which notes the Authorization of every call."""
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    app = App(agent)
    answer = app._handle  # pyright: ignore
    heard = HEARD.setdefault(agent.name, set())

    async def note(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            heard.add(dict(scope["headers"]).get(b"authorization", b"").decode() or None)
        await answer(scope, receive, send)

    app._handle = note  # pyright: ignore
    server = asyncio.create_task(serve(app, Serving(port=0), on_ready=ready.set_result, stop=stop))
    try:
        yield (await ready).url
    finally:
        stop.set()
        await server


def test_standard_output_has_nothing_but_mcp_and_errors_say_what_to_do() -> None:
    done = subprocess.run([*COMMAND, "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: No connection to http://127.0.0.1:9")


async def test_a_wrong_token_for_a_host_is_an_error_at_the_start() -> None:
    async with running_host(seconds=60) as running:
        done = await anyio.run_process([*COMMAND, running.url, "--token", "atr_wrong"], check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"refused the credentials" in done.stderr


async def test_it_serves_over_http_on_this_machine_and_stops_at_ctrl_c() -> None:
    port = free_port()
    async with serving(_teller("Three")) as url:
        process = await anyio.open_process([*COMMAND, url, "--http", str(port)])
        try:
            await _until_served(port)
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                assert text_of_result(await client.call_tool("three", {"message": "hi"})) == "Three hears hi"
            process.send_signal(signal.SIGINT)
            assert await process.wait() in (0, 130)
        finally:
            if process.returncode is None:
                process.kill()
            await process.aclose()


async def _until_served(port: int) -> None:
    """Return when a process that is being started listens."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
