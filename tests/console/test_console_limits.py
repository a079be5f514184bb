"""One person who asks for too much, or reads too slowly, does not keep others from using the console."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET, socket

import pytest

from parley.check.endpoint_check import OnProgress
from parley.check.findings import Report
from parley.console.api.errors import ConsoleError
from parley.console.checks import checks as checks_module
from parley.console.checks.checks import MOST_RUNNING, Checks
from parley.console.settings import ConsoleSettings
from parley.console.tasks import listing
from parley.protocol.errors import ParleyError
from parley.protocol.messages import RawPart
from parley.protocol.tasks import TaskState
from parley.server.run import Serving
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.console.consoles import Browser, ConsoleServer, console_of
from tests.console.test_task_files import append, update
from tests.console.test_task_lists import echo_agent, put_task
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio


async def unread_request(server: ConsoleServer, browser: Browser, path: str) -> socket:
    """A connection that asks for something and reads nothing of the reply."""
    host, _, port = server.url.partition("://")[2].partition(":")
    cookies = "; ".join([f"{name}={value}" for name, value in browser.client.cookies.items()])
    about = f"Host: {host}:{port}\r\nCookie: {cookies}\r\nX-Parley-Csrf: {browser.csrf}\r\n"
    connection = socket()
    connection.setsockopt(SOL_SOCKET, SO_RCVBUF, 4_096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (host, int(port)))
    await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\n{about}\r\n".encode())
    return connection


async def test_downloads_that_nobody_reads_do_not_keep_others_waiting() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        await append(store, "t-1", 3, update(RawPart(b"x" * 20_000_000)))
        path = "/console/api/tasks/t-1/files/a/0"
        with closing(await unread_request(server, browser, path)), closing(await unread_request(server, browser, path)):
            await asyncio.sleep(0.5)
            with fail_after(10):
                assert len((await browser.get(path)).content) == 20_000_000


async def test_checks_that_are_started_at_once_are_one(tmp_path: Path) -> None:
    async with console_of(echo_agent(), store=f"sqlite:///{tmp_path}/parley.db") as server:
        checks, ended = server.console.shared(Checks), asyncio.Event()

        async def run(on_progress: OnProgress) -> Report:
            await ended.wait()
            raise ParleyError

        start = [checks.start(f"s-{number // 2}", "echo", "Echo", run) for number in range(20)]
        found = await asyncio.gather(*start, return_exceptions=True)
        ended.set()
        assert [isinstance(one, str) for one in found] == [True, False] * MOST_RUNNING + [False] * 4
        assert [one.code for one in found if isinstance(one, ConsoleError)] == ["conflict"] * 8 + ["rate_limited"] * 4


async def test_a_check_of_an_agent_that_answers_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "MOST_SECONDS", 0.1)
    async with console_of(echo_agent()) as server:
        checks = server.console.shared(Checks)

        async def run(on_progress: OnProgress) -> Report:
            await asyncio.sleep(60)
            raise ParleyError

        check = await checks.start("s-1", "echo", "Echo", run)
        with pytest.raises(ConsoleError, match="took longer than"):
            await anext(frame async for frame in checks.follow("s-1", check) if frame == "never")


async def test_a_check_dials_no_host_that_only_the_host_header_names() -> None:
    settings, serving = ConsoleSettings(is_loopback=False), Serving(port=0, grpc_port=0)
    async with console_of(echo_agent(), settings=settings, serving=serving) as server:
        browser = await server.browser()
        browser.client.headers["host"] = f"127.0.0.9:{server.url.rpartition(':')[2]}"
        await browser.load()
        refused = await browser.post("/console/api/checks", {"agent": "echo", "bindings": ["GRPC"]})
        assert (refused.status_code, refused.json()["error"]["path"]) == (501, "$.bindings")
        check = (await browser.post("/console/api/checks", {"agent": "echo", "only": ["G1.16"]})).json()["check"]
        while (found := (await browser.get(f"/console/api/checks/{check}")).json())["state"] == "running":
            await asyncio.sleep(0.05)
        assert "GRPC" not in str(found["report"]["endpoints"])


async def test_a_search_ends_after_some_seconds_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SEARCH_SECONDS", -1.0)
    monkeypatch.setattr(listing, "SEARCH_PAGE", 2)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        for number in range(5):
            await put_task(server.app.store, f"t-{number}", minute=number, text="needle" if number == 0 else "hay")
        searched, found, cursor = list[int](), list[str](), ""
        while cursor is not None:
            page = (await browser.get(f"/console/api/tasks?text=needle&cursor={cursor}")).json()
            searched.append(page["searched"]["tasks"])
            found += [row["id"] for row in page["tasks"]]
            cursor = page["next"]
        assert (searched, found) == ([2, 2, 1], ["t-0"])


async def test_one_caller_has_a_quarter_of_all_pages_whatever_its_sessions_are() -> None:
    token = "ada-token-0123456789abcdef"
    security = Security({"bearer": BearerTokens([StoredSecret(name="ada", hash=hash_secret(token))])})
    async with console_of(echo_agent(), security=security, settings=ConsoleSettings(pages=7)) as server:
        for _ in range(2):
            browser = await server.browser()
            await browser.log_in_with(token)
            await browser.page()
        async with server.program(authorization=f"Bearer {token}") as program:
            assert (await program.get("/console/api/stream")).status_code == 429
