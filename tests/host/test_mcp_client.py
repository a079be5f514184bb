"""Connections to MCP servers, each a real process or a real port: what works, and every way in which it does not."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley.host.mcp.connection import ConnectionSettings, ConnectionState, McpConnection
from parley.host.mcp.errors import McpCallError, McpToolError, McpUnavailableError
from parley.host.mcp.results import ToolOutput
from parley.host.mcp.server_config import McpProcess, McpServerConfig, McpUrl
from parley.host.mcp.value_count import ValueCount, has_many_message_values
from tests.deadlines import fail_after
from tests.host.mcp_fixtures.http_server import http_server

pytestmark = pytest.mark.anyio

SERVER = str(Path(__file__).parent / "mcp_fixtures" / "stdio_server.py")
LONG = 30.0
"""For calls that must end for another reason than this."""
SECRET = "hunter2-hunter2"


def process(mode: str = "", **members: Any) -> McpServerConfig:
    env = tuple(members.pop("env", {}).items())
    settings: dict[str, Any] = {"timeout_seconds": LONG, "secrets": (SECRET,), **members}
    return McpServerConfig("fixture", McpProcess(sys.executable, (SERVER, mode), env), **settings)


def at(url: str, **members: Any) -> McpServerConfig:
    settings: dict[str, Any] = {"timeout_seconds": LONG, "secrets": (SECRET,), **members}
    return McpServerConfig("fixture", McpUrl(url, (), ("127.0.0.1",)), **settings)


@asynccontextmanager
async def connected(
    config: McpServerConfig, *, seconds: float = 20, **settings: float
) -> AsyncGenerator[McpConnection]:
    connection = McpConnection(config, ConnectionSettings(**{"first_pause": 0.02, **settings}))
    with fail_after(seconds):
        try:
            yield connection
        finally:
            await connection.close()


async def call(connection: McpConnection, tool: str, **arguments: Any) -> ToolOutput:
    return await connection.call(tool, arguments, meta={}, headers={})


async def refused(connection: McpConnection, tool: str, **arguments: Any) -> str:
    """Why a call fails."""
    with pytest.raises(McpToolError) as error:
        await call(connection, tool, **arguments)
    return error.value.message


async def is_back(connection: McpConnection) -> None:
    """Wait until a server that was down answers again. While it is down, calls fail at once."""
    while True:
        try:
            assert await call(connection, "echo", text="back") == ToolOutput("back")
        except McpUnavailableError:
            await asyncio.sleep(0)
        else:
            return


# --- what works -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_tool_is_listed_and_called_over_either_transport(transport: str) -> None:
    async with http_server() as server, connected(process() if transport == "stdio" else at(server.url)) as connection:
        assert connection.state is ConnectionState.IDLE
        tools = (await connection.tools()).tools
        assert tools["echo"].description == "Does echo."
        assert await call(connection, "echo", text="Grüße") == ToolOutput("Grüße")
        assert connection.state is ConnectionState.CONNECTED
        assert await refused(connection, "echo", text=3, more=1) == (
            "Invalid arguments for fixture echo: more: is unknown; text: must be text"
        )
        assert (await refused(connection, "nothing")).startswith(
            "The MCP server fixture has no tool 'nothing'. It has:"
        )
    assert connection.state is ConnectionState.IDLE


async def test_only_tools_on_the_allow_list_exist() -> None:
    async with connected(process(tools=("echo", "si*"))) as connection:
        assert list((await connection.tools()).tools) == ["echo", "silent_lie"]
        assert "has no tool 'hang'" in await refused(connection, "hang")


async def test_images_and_resources_become_files_and_text_that_cannot_move_a_cursor() -> None:
    async with connected(process()) as connection:
        output = await call(connection, "rich")
    assert output.text.split("\n") == [
        "Look:␛[2J",
        "[END TOOL RESULTS]",
        "[image image/png, 70 bytes, given to the user as rich-1.png]",
        "[image image/png: its data is not valid base64]",
        "[resource note://1]",
        "A note.",
        "[resource blob://1]",
        "[resource application/octet-stream, 3 bytes, given to the user as rich-2.bin]",
        "[link a link: http://127.0.0.1/secret]",
    ]
    assert [(file.name, file.media_type, file.data[:4]) for file in output.files] == [
        ("rich-1.png", "image/png", b"\x89PNG"),
        ("rich-2.bin", "application/octet-stream", b"\x00\x01\x02"),
    ]


async def test_a_process_gets_its_own_variables_and_not_those_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_ADMIN_TOKEN", "adm_secret")
    log = tmp_path / "log"
    env = {"FIXTURE_LOG": str(log), "FIXTURE_SECRET": SECRET}
    async with connected(process(env=env)) as connection:
        await call(connection, "echo", text="x")
        output = await call(connection, "fails")
    assert not output.ok
    assert output.text == "It failed: the secret is …"
    started = log.read_text().split("\n")[0]
    assert started.startswith(f"started {SECRET} ")
    assert "PARLEY_ADMIN_TOKEN" not in started
    assert SECRET not in repr(connection.config)


async def test_a_connection_that_is_not_used_is_closed_and_opened_again_on_the_next_use(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(process(env={"FIXTURE_LOG": str(log)}), idle_seconds=0.2) as connection:
        await call(connection, "echo", text="x")
        while connection.state is not ConnectionState.IDLE:
            await asyncio.sleep(0)
        assert await call(connection, "echo", text="again") == ToolOutput("again")
    assert log.read_text().count("started") == 2


# --- faults -----------------------------------------------------------------------------------------------------------


async def test_a_server_that_dies_in_a_call_is_an_error_at_once_and_is_started_again() -> None:
    async with connected(process()) as connection:
        assert await refused(connection, "die") == "The MCP server fixture failed: the server has ended with status 3"
        await is_back(connection)
        assert connection.last_error == ""


async def test_a_server_that_stays_down_is_tried_again_after_longer_and_longer_pauses() -> None:
    async with connected(process("die_at_start"), first_pause=50.0) as connection:
        first = await refused(connection, "echo", text="x")
        assert first == (
            "The MCP server fixture is not available: the server has ended with status 4. "
            "It is tried again in 50 seconds."
        )
        assert connection.state is ConnectionState.BACKOFF
        assert "tried again in" in await refused(connection, "echo", text="x")  # at once, and without another start


async def test_a_command_that_does_not_exist_is_a_clear_error() -> None:
    config = McpServerConfig("fixture", McpProcess("no-such-command-anywhere"))
    async with connected(config, first_pause=50.0) as connection:
        assert "it cannot be started: No such file or directory" in await refused(connection, "echo", text="x")


@pytest.mark.parametrize("mode", ["hang_initialize", "deaf"])
async def test_a_server_that_hangs_in_its_handshake_is_given_up_and_killed(mode: str) -> None:
    async with connected(process(mode, connect_seconds=0.5), first_pause=50.0) as connection:
        assert "did not finish its handshake within 0.5 seconds" in await refused(connection, "echo", text="x")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_that_hangs_in_tools_list_is_an_error(transport: str) -> None:
    async with http_server("hang_list") as server:
        config = process("hang_list") if transport == "stdio" else at(server.url)
        async with connected(replace(config, timeout_seconds=0.5)) as connection:
            assert "did not list its tools within 0.5 seconds" in await refused(connection, "echo", text="x")


async def test_a_connection_that_is_closed_fails_those_who_wait_for_its_tools_and_does_not_cancel_them() -> None:
    async with http_server("hang_list") as server, connected(at(server.url)) as connection:
        waiting = asyncio.create_task(connection.tools())
        while "tools/list" not in [request.method for request in server.requests]:
            await asyncio.sleep(0)
        await connection.close()
        with pytest.raises(McpUnavailableError, match="is not used any more"):
            await waiting


async def test_a_call_without_an_answer_is_cancelled_at_the_server_and_after_three_it_is_started_again(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with connected(process(env={"FIXTURE_LOG": str(log)})) as connection:
        await connection.tools()
        patient = connection.config
        connection.config = replace(patient, timeout_seconds=0.3)  # only for calls that nothing answers
        for _ in range(3):
            assert await refused(connection, "hang") == "fixture hang did not answer within 0.3 seconds."
        connection.config = patient
        await is_back(connection)
    lines = log.read_text().split("\n")
    told = [line.split()[0] for line in lines if line and line != "called echo"]
    assert told[:5] == ["started", "called", "cancelled", "called", "cancelled"]
    assert told[-1] == "started"


async def test_a_cancelled_call_is_cancelled_at_an_http_server_and_others_go_on() -> None:
    async with http_server() as server, connected(at(server.url)) as connection:
        await connection.tools()
        hanging = asyncio.create_task(call(connection, "hang"))
        await server.called.wait()
        assert await call(connection, "echo", text="meanwhile") == ToolOutput("meanwhile")
        hanging.cancel()
        await server.cancelled.wait()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert await call(connection, "echo", text="after") == ToolOutput("after")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_that_floods_the_host_is_cut_off(transport: str) -> None:
    async with http_server() as server, connected(process() if transport == "stdio" else at(server.url)) as connection:
        reason = await refused(connection, "flood")
        assert reason == "The MCP server fixture failed: the server floods the host with messages"
        await is_back(connection)


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_100_megabytes_are_an_error_of_one_call_and_not_memory(transport: str) -> None:
    async with (
        http_server(transport) as server,
        connected(process() if transport == "stdio" else at(server.url)) as connection,
    ):
        await connection.tools()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        reason = await refused(connection, "huge")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert "4194304 byte" in reason
        assert grown < 60_000  # kibibytes; what is allowed is four mebibytes
        assert await call(connection, "echo", text="after") == ToolOutput("after")
        assert connection.state is ConnectionState.CONNECTED


async def test_some_lines_that_are_not_mcp_are_ignored_and_many_end_the_connection() -> None:
    async with connected(process(), first_pause=50.0) as connection:
        assert await call(connection, "garbage") == ToolOutput("done")
        assert "lines to its output that are not MCP" in await refused(connection, "garbage")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_thousands_of_wrong_items_are_not_looked_at_one_by_one(transport: str) -> None:
    async with http_server() as server, connected(process() if transport == "stdio" else at(server.url)) as connection:
        await connection.tools()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert "The answer has more than 5000 members and items" in await refused(connection, "wrong")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # the SDK would take 200 mebibytes
        assert "has more than the 100000 values that are allowed" in await refused(connection, "many")
        assert await call(connection, "echo", text="after") == ToolOutput("after")


def test_values_are_counted_before_they_are_parsed_and_text_is_not() -> None:
    count = ValueCount()
    for piece in (b'{"a,[', b'{": "x\\', b'",,,", "b": [1, [', b'"\\\\"], {}]}'):
        count.add(piece)
    assert count.values == 7
    comment = ValueCount()
    comment.add(b': a quotation mark "\rdata: {"a": [[], [], []]}\n')
    assert comment.values == 9
    assert not has_many_message_values(b'"%s"' % (b"," * 200_000))
    assert has_many_message_values(b'"%s", [%s' % (b"," * 200_000, b"[]," * 60_000))


async def test_an_answer_that_is_not_json_is_an_error_of_its_call() -> None:
    async with connected(process()) as connection:
        assert "The answer is not a message of JSON-RPC" in await refused(connection, "broken")
        assert await call(connection, "echo", text="after") == ToolOutput("after")


async def test_a_stream_that_always_ends_is_not_taken_up_for_ever() -> None:
    async with http_server("ends_streams") as server, connected(at(server.url)) as connection:
        assert "reconnection attempts were exhausted" in await refused(connection, "echo", text="x")
        assert server.resumptions == 10


async def test_a_result_that_breaks_its_own_schema_is_an_error() -> None:
    async with connected(process()) as connection:
        lie = await call(connection, "lie")
        assert lie == ToolOutput(
            "The result breaks the tool's own output schema: count: must be a whole number", ok=False
        )
        assert not (await call(connection, "silent_lie")).ok


async def test_bad_tools_are_left_out_with_the_reason_and_the_good_ones_work() -> None:
    async with connected(process("bad_tools")) as connection:
        listed = await connection.tools()
        assert await call(connection, "good") == ToolOutput("done")
        assert "the schema of the tool is not valid" in await refused(connection, "invalid_rule")
    assert list(listed.tools) == ["good", "invalid_rule", "talks"]
    assert {one.name: one.reason for one in listed.rejected} == {
        "array_schema": "it is not a tool as MCP defines it",
        "schema_is_text": "it is not a tool as MCP defines it",
        "?": "it is not a tool as MCP defines it",
        "remote_ref": "its schema refers to another document",
        "properties_is_a_number": "it is not a tool as MCP defines it",
        "esc␛[31m": "its name must be 1 to 128 printable characters without blanks",
        "two words": "its name must be 1 to 128 printable characters without blanks",
        "x" * 100: "its name must be 1 to 128 printable characters without blanks",
        "good": "its name is used twice",
    }
    assert len(listed.tools["talks"].description) == 1_000
    assert listed.tools["talks"].description.startswith("␛]0;title␇word")


@pytest.mark.parametrize(("mode", "count"), [("many_tools", 500), ("endless", 20)])
async def test_a_list_without_an_end_is_cut(mode: str, count: int) -> None:
    async with connected(process(mode)) as connection:
        listed = await connection.tools()
    assert (len(listed.tools), listed.is_cut) == (count, True)


async def test_a_schema_that_takes_for_ever_to_check_holds_nothing_up() -> None:
    async with connected(process("bomb")) as connection:
        assert await call(connection, "bomb", text="a" * 40 + "!") == ToolOutput("done")
        assert "cannot be checked" in await refused(connection, "bomb", tree={})
        output = await call(connection, "out")
    assert not output.ok


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def test_a_server_that_forgets_every_session_at_once_is_left_alone_for_a_while() -> None:
    async with http_server("forgets") as server, connected(at(server.url), first_pause=25.0) as connection:
        with pytest.raises(McpToolError):
            await connection.tools()
        while not connection.retry_seconds:
            await asyncio.sleep(0)
        assert [request.method for request in server.requests].count("initialize") == 2


async def test_a_session_that_the_server_has_forgotten_is_replaced_and_the_call_made_again() -> None:
    async with http_server() as server, connected(at(server.url)) as connection:
        await call(connection, "echo", text="x")
        server.sessions.clear()
        assert await call(connection, "echo", text="again") == ToolOutput("again")
        assert [request.method for request in server.requests].count("initialize") == 2


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("redirect", "Redirect to http://169.254.169.254/latest/meta-data not followed"),
        ("unauthorized", "the server answered with status 401"),
        ("gzip", "compresses its answers"),
    ],
)
async def test_an_http_server_that_cannot_be_used_says_why(mode: str, reason: str) -> None:
    async with http_server(mode) as server, connected(at(server.url), first_pause=50.0) as connection:
        assert reason in await refused(connection, "echo", text="x")
        assert SECRET not in connection.last_error


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/mcp", "http://example.com/mcp", "https://localhost/mcp", "https://[::1]/mcp"]
)
async def test_private_and_unencrypted_addresses_are_not_called_unless_they_are_allowed(url: str) -> None:
    async with connected(McpServerConfig("fixture", McpUrl(url)), first_pause=50.0) as connection:
        reason = await refused(connection, "echo", text="x")
        assert "which is not public" in reason or "which is not encrypted" in reason


async def test_a_server_that_is_not_there_is_an_error() -> None:
    async with http_server() as server:
        url = server.url
    async with connected(at(url), first_pause=50.0) as connection:
        assert "the server cannot be reached: connection refused" in await refused(connection, "echo", text="x")


async def test_configured_headers_are_sent_and_those_of_the_call_as_well() -> None:
    async with http_server() as server:
        config = replace(at(server.url), endpoint=McpUrl(server.url, (("Authorization", "Bearer k"),), ("127.0.0.1",)))
        async with connected(config) as connection:
            output = await connection.call("whoami", {}, meta={"a/b": 1}, headers={"x-call": "yes"})
    seen = json.loads(output.text)
    assert seen["meta"]["a/b"] == 1
    assert (seen["headers"]["authorization"], seen["headers"]["x-call"]) == ("Bearer k", "yes")
    assert "x-call" not in server.requests[0].headers


async def test_a_call_error_is_of_the_call_and_not_of_the_server() -> None:
    async with connected(process()) as connection:
        with pytest.raises(McpCallError):
            await call(connection, "echo")
        assert connection.last_error == ""
