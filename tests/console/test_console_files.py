"""The files of the page: what is served where, how it is kept, and what it may load."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import httpx2
import pytest

from parley import Agent
from parley.server.app import App
from tests.console.consoles import console_of
from tests.server.serving import echo_agent, running, send

pytestmark = pytest.mark.anyio

HTML = {"Accept": "text/html,application/xhtml+xml"}
SCRIPT = "assets/index-CMNFR14A.js"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A built page."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>The page</title>")
    (tmp_path / SCRIPT).write_text("let page = 1;")
    (tmp_path / f"{SCRIPT}.gz").write_bytes(gzip.compress(b"let page = 1;"))
    (tmp_path / f"{SCRIPT}.br").write_bytes(b"brotli")
    (tmp_path / "secret.key").write_text("not for browsers")
    return tmp_path


async def test_every_path_of_the_page_is_its_index_and_only_files_are_files(folder: Path) -> None:
    async with console_of(echo_agent(), folder=folder) as server, server.program() as browser:
        for path in ("/console/", "/console/tasks/7?x=1", "/console/agents/a%2Fb/chat"):
            reply = await browser.get(path, headers=HTML)
            assert (reply.status_code, reply.text) == (200, "<!doctype html><title>The page</title>"), path
            assert reply.headers["cache-control"] == "no-cache"
        moved = await browser.get("/console")
        assert (moved.status_code, moved.headers["location"]) == (308, "console/")
        for path in (
            "/console/assets/index-OLD00000.js",
            "/console/assets/../../settings.py",
            "/console/secret.key",
            "/console/tasks/7",
            "/console/.hidden",
            "/console/assets/%2e%2e/index.html",
        ):
            assert (await browser.get(path)).status_code == 404, path
        assert (await browser.post("/console/", json={})).status_code == 404
        assert (await browser.get("/consoles", headers=HTML)).status_code == 404


async def test_assets_are_kept_for_ever_and_compressed_as_the_browser_likes(folder: Path) -> None:
    async with console_of(echo_agent(), folder=folder) as server, server.program() as browser:

        async def got(accepted: str) -> tuple[str | None, bytes, str]:
            async with browser.stream("GET", f"/console/{SCRIPT}", headers={"Accept-Encoding": accepted}) as reply:
                raw = b"".join([chunk async for chunk in reply.aiter_raw()])
                assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
                assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
                assert reply.headers["vary"] == "Accept-Encoding"
                return reply.headers.get("content-encoding"), raw, reply.headers["etag"]

        encoding, raw, etag = await got("gzip, deflate, br, zstd")
        assert (encoding, raw) == ("br", b"brotli")
        encoding, raw, other = await got("gzip;q=1.0, br;q=0")
        assert (encoding, gzip.decompress(raw)) == ("gzip", b"let page = 1;")
        assert (await got("identity"))[:2] == (None, b"let page = 1;")
        assert etag != other
        headers = {"Accept-Encoding": "br", "If-None-Match": etag}
        known = await browser.get(f"/console/{SCRIPT}", headers=headers)
        assert (known.status_code, known.content) == (304, b"")


async def test_an_asset_is_compressed_in_whatever_order_its_files_were_written(folder: Path) -> None:
    """Installers write the files of a wheel in any order. The index keeps its name, so it may have an old form."""
    compressed = {SCRIPT: "br", "index.html": None}
    for name in compressed:
        (folder / f"{name}.br").write_bytes(b"brotli")
        os.utime(folder / f"{name}.br", (0, 0))
    async with console_of(echo_agent(), folder=folder) as server, server.program() as browser:
        for name, encoding in compressed.items():
            async with browser.stream("GET", f"/console/{name}", headers={"Accept-Encoding": "br"}) as reply:
                assert reply.headers.get("content-encoding") == encoding


async def test_the_page_runs_only_its_own_scripts_and_nobody_frames_it(folder: Path) -> None:
    async with console_of(echo_agent(), folder=folder) as server, server.program() as browser:
        for path in ("/console/", f"/console/{SCRIPT}", "/console/deep/link"):
            headers = (await browser.get(path, headers=HTML)).headers
            policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert policy["form-action"] == "'none'"
            assert not re.search("unsafe|http|data:|\\*", headers["content-security-policy"])
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["cross-origin-opener-policy"] == "same-origin-allow-popups"
            assert "camera=()" in headers["permissions-policy"]


async def test_a_page_that_is_built_again_is_served_at_once_and_has_another_build(folder: Path) -> None:
    async with console_of(echo_agent(), folder=folder) as server:
        browser = await server.browser()
        before = browser.session["build"]
        (folder / "index.html").write_text("<!doctype html><title>Another page</title>")
        assert "Another page" in (await browser.client.get("/console/", headers=HTML)).text
        assert (await browser.load())["build"] != before


async def test_a_page_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    async with console_of(echo_agent(), folder=tmp_path) as server, server.program() as browser:
        reply = await browser.get("/console/", headers=HTML)
        assert reply.status_code == 503
        assert "make console" in reply.text
        assert "content-security-policy" in reply.headers


async def test_a_tenant_called_console_does_not_hide_it_and_is_refused(folder: Path) -> None:
    async with console_of(echo_agent(), folder=folder) as server, server.program() as browser:
        listed = await browser.get("/console/tasks", headers={"A2A-Version": "1.0"})
        assert (listed.status_code, listed.json()["error"]["code"]) == (404, "not_found")
        request = send("hello", message_id="m-1", tenant="console")
        reply = (await browser.post("/", json=request)).json()
        assert "'console' is reserved" in reply["error"]["message"]
        body = {"message": request["params"]["message"]}
        posted = await browser.post("/console/message:send", json=body, headers={"A2A-Version": "1.0"})
        assert posted.status_code == 404


async def test_a_server_without_a_console_knows_nothing_of_it() -> None:
    async with running(App(echo_agent())) as client:
        for path in ("/console", "/console/", "/console/api/session"):
            reply = await client.get(path, headers={**HTML, "X-Parley-Csrf": "x"})
            assert reply.status_code == 404
            assert "set-cookie" not in reply.headers


async def test_agents_with_paths_that_begin_alike_are_found(folder: Path) -> None:
    agent = Agent("consoles", description="An agent")

    @agent.on_message
    async def answer(turn: object) -> str:
        return "hello"

    async with console_of(agent, folder=folder, many=True) as server, server.program() as browser:
        reply = await browser.get("/agents/consoles/.well-known/agent-card.json")
        assert reply.json()["name"] == "consoles"
        # With the header of a session, but without one, a request is that of anybody.
        reply = await browser.get("/agents/consoles/.well-known/agent-card.json", headers={"X-Parley-Csrf": "x"})
        assert reply.status_code == 200


async def test_errors_of_the_api_are_json_with_a_code_and_are_not_kept() -> None:
    async with console_of(echo_agent()) as server, server.program() as browser:

        async def error(method: str, path: str, **options: object) -> tuple[int, str, httpx2.Headers]:
            reply = await browser.request(method, f"/console/api{path}", **options)  # pyright: ignore[reportArgumentType]
            return reply.status_code, reply.json()["error"]["code"], reply.headers

        status, code, headers = await error("GET", "/nothing")
        assert (status, code, headers["cache-control"]) == (404, "not_found", "no-store")
        status, code, headers = await error("DELETE", "/session")
        assert (status, code, headers["allow"]) == (404, "not_found", "GET")
        browser.cookies.clear()
        text = {"content": b"{", "headers": {"Content-Type": "application/json"}}
        assert (await error("POST", "/session/login", **text))[:2] == (400, "bad_request")
        plain = {"content": b"{}", "headers": {"Content-Type": "text/plain"}}
        assert (await error("POST", "/session/login", **plain))[0] == 400
