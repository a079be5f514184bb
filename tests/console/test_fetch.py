"""Files that agents name by URL: fetched through the guard, bounded, and saved, never shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import quote

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from parley.console.api import fetch as fetch_module
from parley.console.settings import ConsoleSettings
from tests.console.consoles import Browser, console_of
from tests.console.foreign_agents import added, foreign_server
from tests.server.serving import echo_agent

pytestmark = pytest.mark.anyio


async def fetched(browser: Browser, agent: str, url: str) -> httpx2.Response:
    return await browser.get(f"/console/api/fetch?agent={agent}&url={quote(url, safe='')}")


async def page(_: Request) -> Response:
    return Response("<script>alert(1)</script>", media_type="text/html", headers={"set-cookie": "a=b"})


async def test_a_file_of_a_local_agent_is_saved_whatever_it_says_it_is() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.pages['/files/report é".html'] = page
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        reply = await fetched(browser, agent["id"], f"{foreign.url}/files/report%20%C3%A9%22.html?k=1")
        assert (reply.status_code, reply.text) == (200, "<script>alert(1)</script>")
        assert reply.headers["content-type"] == "application/octet-stream"
        assert reply.headers["content-disposition"] == (
            "attachment; filename=\"report __.html\"; filename*=UTF-8''report%20%C3%A9_.html"
        )
        assert "sandbox" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in reply.headers
        received = dict(foreign.requests)['GET /files/report é".html']
        assert "authorization" not in received
        assert "cookie" not in received


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/secret",
        "https://localhost/secret",
        "https://169.254.169.254/latest/meta-data",
        "http://files.example.com/a",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "",
    ],
)
async def test_a_shared_console_fetches_from_public_hosts_over_tls_only(url: str) -> None:
    async with console_of(echo_agent(), settings=ConsoleSettings(is_loopback=False)) as server:
        browser = await server.browser()
        reply = await fetched(browser, "echo", url)
        assert (reply.status_code, reply.json()["error"]["code"]) in ((403, "forbidden"), (400, "bad_request"))
        assert "parley serve" not in reply.text


async def test_an_agent_elsewhere_leads_to_no_other_private_host_and_neither_does_a_redirect() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.pages["/away"] = lambda _: _reply(RedirectResponse("http://10.0.0.7/secret"))
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        for url in ("http://10.0.0.7/secret", f"{foreign.url}/away"):
            reply = await fetched(browser, agent["id"], url)
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")
            assert "/secret" not in reply.text


async def _reply(response: Response) -> Response:
    return response


async def test_a_file_that_is_too_long_is_refused_or_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "MOST_BYTES", 100_000)

    async def unannounced(_: Request) -> Response:
        async def chunks() -> AsyncGenerator[bytes]:
            for _ in range(100):
                yield b"x" * 10_000
                await asyncio.sleep(0)

        return StreamingResponse(chunks())

    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.pages["/announced"] = lambda _: _reply(Response(b"x" * 200_000))
        foreign.pages["/unannounced"] = unannounced
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        refused = await fetched(browser, agent["id"], f"{foreign.url}/announced")
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
        with pytest.raises(httpx2.RemoteProtocolError):
            await fetched(browser, agent["id"], f"{foreign.url}/unannounced")


async def test_a_file_that_is_not_there_is_an_error_of_the_agent() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        reply = await fetched(browser, agent["id"], f"{foreign.url}/nope?key=hush")
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "agent_error")
        assert "hush" not in reply.text
        other = await server.browser()
        assert (await fetched(other, agent["id"], f"{foreign.url}/nope")).status_code == 404
        without = await browser.client.get(f"/console/api/fetch?agent={agent['id']}&url={foreign.url}")
        assert without.status_code in (401, 404, 501)


async def test_one_person_fetches_few_files_at_once_and_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    async def slow(_: Request) -> Response:
        await released.wait()
        return Response("late")

    monkeypatch.setattr(fetch_module, "MOST_OF_CALLER", 2)
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.pages["/slow"], foreign.pages["/quick"] = slow, page
        one, other = await server.browser(), await server.browser()
        agent = (await added(one, foreign.url))["id"]
        await added(other, foreign.url)
        waiting = [asyncio.create_task(fetched(one, agent, f"{foreign.url}/slow")) for _ in range(2)]
        while len([name for name, _ in foreign.requests if name == "GET /slow"]) < 2:
            await asyncio.sleep(0.01)
        assert (await fetched(one, agent, f"{foreign.url}/quick")).status_code == 429
        assert (await fetched(other, agent, f"{foreign.url}/quick")).status_code == 200
        released.set()
        assert [(await task).text for task in waiting] == ["late", "late"]
        assert (await fetched(one, agent, f"{foreign.url}/quick")).status_code == 200
