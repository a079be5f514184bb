"""Agents elsewhere, as a session calls them: what reaches them, what comes back, and what stays after a connection."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from parley.console.agents import connections as connections_module
from parley.console.agents.connections import RemoteConnections
from parley.protocol.cards import Binding
from parley.protocol.versions import Version
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.client.test_peers import Peer, served
from tests.console.consoles import Browser, ConsoleServer, console_of, streaming, subscribing
from tests.console.foreign_agents import added, agent_elsewhere, details, foreign_server, hang
from tests.server.serving import echo_agent, send

pytestmark = pytest.mark.anyio


def remotes(server: ConsoleServer) -> RemoteConnections:
    return server.console.shared(RemoteConnections)


async def drop_all(server: ConsoleServer) -> None:
    """Close all connections, as if they had been idle for long."""
    remotes(server).close_idle(time.monotonic() + 3_600)
    while remotes(server)._closing:  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0)


async def asked(browser: Browser, agent: dict[str, Any], text: str, message_id: str = "m-1", **params: Any) -> Any:
    """The result of a send."""
    reply = await browser.post(agent["url"], send(text, message_id=message_id, **params))
    assert reply.status_code == 200, reply.text
    return reply.json()["result"]


async def test_a_remote_agent_streams_over_the_stream_of_the_page() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        page = await browser.page()
        await page.open("c1", "a2a", url=agent["url"], request=streaming("count 3"))
        frames = await page.rest_of("c1")
        kinds = [next(iter(frame["data"]["response"]["result"])) for frame in frames[:-1]]
        assert kinds[0] == "task"
        assert kinds[-1] == "statusUpdate"
        text = "".join(
            part["text"]
            for frame in frames[:-1]
            for part in frame["data"]["response"]["result"]
            .get("artifactUpdate", {})
            .get("artifact", {})
            .get("parts", ())
        )
        assert text == "0 1 2 "


async def test_ids_of_tasks_stay_usable_when_the_connection_was_dropped() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        task = (await asked(browser, agent, "ask"))["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        await drop_all(server)
        again = {"taskId": task["id"], "contextId": task["contextId"]}
        answered = (await asked(browser, agent, "forty-two", "m-2", message=again))["task"]
        assert (answered["id"], answered["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")
        await drop_all(server)
        read = await browser.post(
            agent["url"], {"jsonrpc": "2.0", "id": 3, "method": "GetTask", "params": {"id": task["id"]}}
        )
        assert read.json()["result"]["id"] == task["id"]


async def test_a_stream_whose_connection_is_dropped_can_be_resumed() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        page = await browser.page()
        await page.open("c1", "a2a", url=agent["url"], request=streaming("wait"))
        first = await page.frame("c1")
        task_id = first["data"]["response"]["result"]["task"]["id"]
        remotes(server).end_session(next(iter(remotes(server)._open))[0])  # pyright: ignore[reportPrivateUsage]
        ended = (await page.rest_of("c1"))[-1]
        assert "end" in ended or ended["error"]["code"] == "unavailable"
        await page.open("c2", "a2a", url=agent["url"], request=subscribing(task_id))
        resumed = await page.frame("c2")
        assert resumed["data"]["response"]["result"]["task"]["id"] == task_id


async def test_neither_the_cookie_nor_the_servers_own_credentials_reach_an_agent() -> None:
    security = Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret("t-of-this-server"))])})
    async with foreign_server() as foreign, console_of(echo_agent(), security=security) as server:
        browser = await server.browser()
        assert (await browser.log_in(scheme="token", values={"token": "t-of-this-server"})).status_code == 200
        agent = await added(browser, foreign.url)
        assert (await asked(browser, agent, "hello"))["message"]["parts"] == [{"text": "hello"}]
        (received,) = [headers for line, headers in foreign.requests if line.startswith("POST")]
        assert set(received) <= {
            *("accept", "accept-encoding", "a2a-extensions", "a2a-version", "content-length", "content-type", "host"),
            *("user-agent", "traceparent"),
        }
        assert "t-of-this-server" not in json.dumps([headers for _, headers in foreign.requests])
        assert browser.csrf not in json.dumps([headers for _, headers in foreign.requests])


async def test_an_agent_can_set_no_cookie_and_open_no_dialog_in_the_browser() -> None:
    async def refuse(_: Request) -> Response:
        return Response(status_code=401, headers={"www-authenticate": "Basic realm=x", "set-cookie": "a=b"})

    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.answer = refuse
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        reply = await browser.post(agent["url"], send("hello", message_id="m-1"))
        assert reply.status_code == 200, "401 would mean that the session has ended"
        assert isinstance(reply.json()["error"]["code"], int)
        assert "www-authenticate" not in reply.headers
        assert "set-cookie" not in reply.headers
        listed = (await browser.get("/console/api/agents")).json()["agents"]
        assert next(one for one in listed if one["id"] == agent["id"])["state"] == "needs_login"


async def test_pages_of_a_remote_agent_do_not_run_as_the_console() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        docs = await browser.client.get(f"{agent['url']}/docs", headers={**browser.headers, "accept": "text/html"})
        assert docs.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert docs.headers["x-content-type-options"] == "nosniff"


async def test_a_request_without_the_sessions_token_is_refused() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        reply = await browser.client.post(agent["url"], json=send("hello", message_id="m-1"))
        assert reply.json()["error"]["code"] in ("not_found", "unauthenticated", "unsupported")


async def test_an_agent_that_comes_back_is_reconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "ERROR_SECONDS", 0.0)
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        good, foreign.card = foreign.card, {"nothing": True}
        failed = await browser.post(agent["url"], send("hello", message_id="m-1"))
        assert (failed.status_code, failed.json()["error"]["code"]) == (502, "agent_error")
        listed = (await browser.get("/console/api/agents")).json()["agents"]
        assert next(one for one in listed if one["id"] == agent["id"])["state"] == "unreachable"
        foreign.card = good
        assert "message" in await asked(browser, agent, "hello")
        listed = (await browser.get("/console/api/agents")).json()["agents"]
        assert next(one for one in listed if one["id"] == agent["id"])["state"] == "ready"


async def test_a_hanging_agent_holds_up_neither_others_nor_the_end_of_the_server() -> None:
    async with foreign_server() as foreign, agent_elsewhere() as url, console_of(echo_agent()) as server:
        foreign.answer = hang
        browser = await server.browser()
        hanging, good = await added(browser, foreign.url), await added(browser, url)
        waiting = asyncio.create_task(browser.post(hanging["url"], send("hello", message_id="m-1")))
        while not any(line.startswith("POST") for line, _ in foreign.requests):
            await asyncio.sleep(0.01)
        assert (await asked(browser, good, "hello"))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        waiting.cancel()


async def test_sixty_megabytes_arrive_and_a_frame_of_them_is_an_error_with_a_reason() -> None:
    size = 60 * 1024 * 1024

    async def answer(request: Request) -> Response:
        body = json.loads(await request.body())
        part = {"raw": "A" * size, "mediaType": "image/png"}
        message = {"messageId": "a-1", "role": "ROLE_AGENT", "parts": [part]}
        reply = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": {"message": message}}).encode()
        if body["method"] == "SendMessage":
            return Response(reply, media_type="application/json")

        async def chunks() -> AsyncGenerator[bytes]:
            yield b"data: "
            for start in range(0, len(reply), 1024 * 1024):
                yield reply[start : start + 1024 * 1024]
            yield b"\n\n"

        return StreamingResponse(chunks(), media_type="text/event-stream")

    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.answer = answer
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        whole = await browser.post(agent["url"], send("hello", message_id="m-1"))
        assert len(whole.content) > size
        page = await browser.page()
        await page.open("c1", "a2a", url=agent["url"], request=streaming("hello"))
        (failed, *_) = await page.rest_of("c1")
        assert "bytes" in json.dumps(failed)


async def test_a_session_may_not_occupy_the_server_with_requests_to_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "MOST_ACTIVE", 2)
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.answer = hang
        browser, other = await server.browser(), await server.browser()
        agent = await added(browser, foreign.url)
        waiting = [asyncio.create_task(browser.post(agent["url"], send("x", message_id=f"m-{n}"))) for n in range(2)]
        while sum(line.startswith("POST") for line, _ in foreign.requests) < 2:
            await asyncio.sleep(0.01)
        refused = await browser.post(agent["url"], send("hello", message_id="m-3"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        foreign.answer = foreign._echo  # pyright: ignore[reportPrivateUsage]
        again = await added(other, foreign.url)
        assert "message" in await asked(other, again, "hello")
        for task in waiting:
            task.cancel()


async def test_a_session_that_ends_closes_its_connections_and_forgets_its_names() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        await asked(browser, agent, "hello")
        assert len(remotes(server)._open) == 1  # pyright: ignore[reportPrivateUsage]
        assert (await browser.post("/console/api/session/logout", {})).status_code == 200
        assert not remotes(server)._open  # pyright: ignore[reportPrivateUsage]
        assert not remotes(server)._ledgers  # pyright: ignore[reportPrivateUsage]


async def test_the_connection_used_least_recently_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "MOST_OF_SESSION", 2)
    async with (
        agent_elsewhere() as one,
        agent_elsewhere() as two,
        agent_elsewhere() as three,
        console_of(echo_agent()) as server,
    ):
        browser = await server.browser()
        agents = [await added(browser, url) for url in (one, two, three)]
        for agent in (*agents, agents[0]):
            assert "task" in await asked(browser, agent, "hello", f"m-{agent['id']}")
        assert len(remotes(server)._open) == 2  # pyright: ignore[reportPrivateUsage]


# --- real servers of other SDKs ---------------------------------------------------------------------------------------

V1, V03 = Version.V1_0, Version.V0_3
SERVERS = (
    Peer("a2a-sdk-1.3.0", "server_sdk_1_3_0.py", V1, Binding.JSONRPC),
    Peer("a2a-sdk-0.3.26", "server_sdk_pydantic.py", V03, Binding.JSONRPC),
    Peer("fasta2a", "server_fasta2a.py", V1, Binding.JSONRPC),
    Peer("a2a-js", "server_js_1_3_0.mjs", V1, Binding.JSONRPC),
    Peer("a2a-js", "server_js_0_3_14.mjs", V03, Binding.JSONRPC),
)


@pytest.fixture(scope="module", params=SERVERS, ids=str)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, str]]:
    chosen: Peer = request.param
    folder: Path = tmp_path_factory.mktemp("peer")
    with served(chosen, folder) as url:
        yield chosen, url


async def test_servers_of_other_sdks_are_shown_called_and_streamed(peer: tuple[Peer, str]) -> None:
    sdk, url = peer
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        shown = await details(browser, agent["id"])
        assert shown["agent"]["state"] == "ready", shown["agent"]
        assert shown["agent"]["version"] == sdk.version.value
        result = await asked(browser, agent, "echo hello")
        task = result.get("task")
        if task is not None:
            await drop_all(server)
            body = {"jsonrpc": "2.0", "id": 3, "method": "GetTask", "params": {"id": task["id"]}}
            read = (await browser.post(agent["url"], body)).json()
            assert read["result"]["id"] == task["id"]
        page = await browser.page()
        await page.open("c1", "a2a", url=agent["url"], request=streaming("echo hello", "m-9"))
        frames = await page.rest_of("c1")
        assert frames[-1].get("end") is True, frames[-1]
        assert all("result" in frame["data"]["response"] for frame in frames[:-1])
