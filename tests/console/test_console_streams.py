"""The one stream of a page: channels, slow and vanished pages, sessions that end, and servers that stop."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley.console.api.errors import ConsoleError
from parley.console.settings import ConsoleSettings
from parley.console.streams import pages as pages_module
from parley.console.streams.channel import ChannelCall, ChannelOpener
from parley.console.streams.page import CHANNEL_BYTES, PAGE_BYTES
from parley.protocol.errors import UnavailableError
from parley.server.run import Serving
from parley.server.security.auth_file import new_token, parse_security
from parley.stores.interface import DeleteRecord
from tests.console.consoles import Browser, console_of, streaming, subscribing
from tests.server.serving import echo_agent, send

pytestmark = pytest.mark.anyio

EAGER = ConsoleSettings(recheck_seconds=0, heartbeat_seconds=0.05)


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, ChannelOpener], None]:
    """Adds kinds of channels for a test."""

    def add(kind: str, opener: ChannelOpener) -> None:
        monkeypatch.setattr(pages_module, "CHANNELS", {**pages_module.CHANNELS, kind: opener})

    return add


async def eventually(is_so: Callable[[], bool]) -> None:
    """Return when something is so; the server's own deadline ends the test otherwise."""
    while not is_so():
        await asyncio.sleep(0)


# --- A2A --------------------------------------------------------------------------------------------------------------


async def test_an_agent_streams_over_the_channel_what_it_streams_to_everybody() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        assert (await page.open("c1", "a2a", url="/", request=streaming("count 3"))).json() == {}
        frames = await page.rest_of("c1")
        assert frames[-1] == {"channel": "c1", "end": True}
        events = [frame["data"] for frame in frames[:-1]]
        numbers = [event["id"] for event in events]
        assert numbers == sorted(numbers)
        task = events[0]["response"]["result"]["task"]["id"]
        assert events[-1]["response"]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        async with server.program() as program:
            request = {"json": subscribing(task), "headers": {"A2A-Version": "1.0"}}
            direct = (await program.post("/", **request)).text  # pyright: ignore[reportArgumentType]
        assert "error" in direct or "data:" in direct


async def test_a_channel_goes_on_after_the_event_that_the_page_has() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c1", "a2a", url="/", request=streaming("wait"))
        first = (await page.frame("c1"))["data"]
        task = first["response"]["result"]["task"]["id"]
        second = (await page.frame("c1"))["data"]
        assert "statusUpdate" in second["response"]["result"]
        await page.close_channel("c1")
        await page.open("c2", "a2a", url="/", request=subscribing(task), after=first["id"])
        again = (await page.frame("c2"))["data"]
        assert again["id"] == second["id"]
        assert again["response"]["result"] == second["response"]["result"]


async def test_a_reply_that_is_not_a_stream_is_one_frame() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c1", "a2a", url="/", request=subscribing("nothing"))
        (frame, end) = await page.rest_of("c1")
        assert frame["data"]["id"] is None
        assert frame["data"]["response"]["error"]["code"] == -32001
        assert end == {"channel": "c1", "end": True}


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"url": "https://evil.example/", "request": streaming("x")}, "$.url"),
        ({"url": "//evil.example/", "request": streaming("x")}, "$.url"),
        ({"url": "/console/api/session", "request": streaming("x")}, "$.url"),
        ({"url": "/?x=1", "request": streaming("x")}, "$.url"),
        ({"url": "/", "request": send("x", message_id="m")}, "$.request.method"),
        ({"url": "/", "request": []}, "$.request"),
        ({"url": "/"}, "$"),
        ({"url": "/", "request": streaming("x"), "after": "x"}, "$.after"),
    ],
)
async def test_a_channel_to_anything_but_an_agent_is_refused(parameters: dict[str, Any], path: str) -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        assert (await page.open("c1", "a2a", **parameters)).json() == {}
        frame = await page.frame("c1")
        assert (frame["error"]["code"], frame["error"]["path"], frame["is_final"]) == ("bad_request", path, True)


async def test_an_agent_that_is_not_there_is_an_error_of_the_channel() -> None:
    async with console_of(echo_agent(), echo_agent("Other"), many=True) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c1", "a2a", url="/agents/nobody", request=streaming("x"))
        frame = await page.frame("c1")
        assert (frame["error"]["code"], frame["is_final"]) == ("not_found", True)


# --- channels ---------------------------------------------------------------------------------------------------------


async def test_what_is_wrong_with_a_channel_comes_as_a_frame(channels: Callable[..., None]) -> None:
    async def failing(call: ChannelCall) -> AsyncGenerator[object]:
        yield {"number": 1}
        raise UnavailableError("Not now")

    async def broken(call: ChannelCall) -> AsyncGenerator[object]:
        yield 1 / 0

    channels("failing", failing)
    channels("broken", broken)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c1", "unheard-of")
        assert (await page.frame("c1"))["error"]["code"] == "unsupported"
        await page.open("c2", "failing")
        assert await page.rest_of("c2") == [
            {"channel": "c2", "data": {"number": 1}},
            {"channel": "c2", "error": {"code": "unavailable", "message": "Not now"}, "is_final": False},
        ]
        await page.open("c3", "broken")
        shown = (await page.frame("c3"))["error"]
        assert shown["code"] == "internal"
        assert "division" not in shown["message"]
        assert "Reference" in shown["message"]


async def test_a_page_opens_only_its_own_channels_and_a_bounded_number(channels: Callable[..., None]) -> None:
    async def waiting(call: ChannelCall) -> AsyncGenerator[object]:
        yield "open"
        await asyncio.Event().wait()

    channels("waiting", waiting)
    async with console_of(echo_agent(), settings=ConsoleSettings(channels=3)) as server:
        browser, other = await server.browser(), await server.browser()
        page = await browser.page()
        for number in range(3):
            await page.open(f"c{number}", "waiting")
            assert (await page.frame(f"c{number}"))["data"] == "open"
        twice = await page.open("c0", "waiting")
        assert (twice.status_code, twice.json()["error"]["code"]) == (409, "conflict")
        await page.open("c3", "waiting")
        assert (await page.frame("c3"))["error"]["code"] == "too_large"
        await page.close_channel("c0")
        await page.open("c4", "waiting")
        assert (await page.frame("c4"))["data"] == "open"
        body = {"channel": "x", "kind": "waiting"}
        stranger = await other.post(f"/console/api/stream/{page.id}/open", body)
        assert (stranger.status_code, stranger.json()["error"]["code"]) == (404, "not_found")
        gone = await browser.post("/console/api/stream/p-none/open", body)
        assert gone.status_code == 404
        bad = await browser.post(f"/console/api/stream/{page.id}/open", {"channel": "", "kind": "waiting"})
        assert (bad.status_code, bad.json()["error"]["path"]) == (400, "$.channel")


async def test_a_session_has_a_bounded_number_of_pages() -> None:
    async with console_of(echo_agent(), settings=ConsoleSettings(pages_of_session=2, pages=3)) as server:
        browser, other = await server.browser(), await server.browser()
        await browser.page()
        page = await browser.page()
        refused = await browser.get("/console/api/stream")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        await other.page()
        assert (await other.get("/console/api/stream")).status_code == 429
        await page.vanish()
        await eventually(lambda: len(server.console.pages) == 2)
        await browser.page()


async def test_a_page_that_vanishes_frees_everything(channels: Callable[..., None]) -> None:
    closed = list[str]()

    async def waiting(call: ChannelCall) -> AsyncGenerator[object]:
        try:
            yield "open"
            await asyncio.Event().wait()
        finally:
            closed.append("waiting")

    async def ready(call: ChannelCall) -> AsyncGenerator[object]:
        try:
            while True:
                yield "x" * 10_000
        finally:
            closed.append("ready")

    channels("waiting", waiting)
    channels("ready", ready)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c1", "waiting")
        await page.open("c2", "ready")
        await page.open("c3", "a2a", url="/", request=streaming("wait"))
        await page.frame("c1")
        await page.frame("c3")
        await eventually(lambda: len(server.app.monitor) == 1)
        await page.vanish()
        await eventually(lambda: len(closed) == 2 and not len(server.console.pages) and not len(server.app.monitor))


async def test_a_page_that_does_not_read_holds_little_and_stalls_only_itself(channels: Callable[..., None]) -> None:
    made = {"slow": 0, "quick": 0}

    def counting(name: str, limit: int) -> ChannelOpener:
        async def count(call: ChannelCall) -> AsyncGenerator[object]:
            for _ in range(limit):
                made[name] += 1
                yield "x" * 1_000

        return count

    channels("slow", counting("slow", 1_000_000))
    channels("quick", counting("quick", 3_000))
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        async with _page_that_does_not_read(browser) as page_id:
            for number in range(20):
                body = {"channel": f"c{number}", "kind": "slow"}
                await browser.post(f"/console/api/stream/{page_id}/open", body)
            page = await browser.page()
            await page.open("c1", "quick")
            assert len(await page.rest_of("c1")) == 3_001  # while the other page does not read
            stalled = made["slow"]
            await page.open("c2", "quick")
            await page.rest_of("c2")
            assert made["slow"] == stalled
            # What the kernel and the connection hold is some megabytes at most; what the page holds is bounded.
            (slow,) = [one for one in server.console.pages.open_pages if one.id == page_id]
            assert slow.waiting_bytes <= PAGE_BYTES + 20 * CHANNEL_BYTES


async def test_a_page_that_does_not_read_for_long_is_cut(channels: Callable[..., None]) -> None:
    async def endless(call: ChannelCall) -> AsyncGenerator[object]:
        while True:
            yield "x" * 10_000

    channels("endless", endless)
    settings = ConsoleSettings(stalled_seconds=0.2)
    async with console_of(echo_agent(), settings=settings) as server:
        browser = await server.browser()
        async with _page_that_does_not_read(browser) as page_id:
            await browser.post(f"/console/api/stream/{page_id}/open", {"channel": "c1", "kind": "endless"})
            await eventually(lambda: not len(server.console.pages))


@asynccontextmanager
async def _page_that_does_not_read(browser: Browser) -> AsyncGenerator[str]:
    """A page whose connection takes a few kilobytes and no more."""
    url = httpx2.URL(str(browser.client.base_url))
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (url.host, url.port))
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    lines = ["GET /console/api/stream HTTP/1.1", f"Host: {url.host}:{url.port}", f"Cookie: {cookie}"]
    lines += [f"X-Parley-Csrf: {browser.csrf}", "", ""]
    await loop.sock_sendall(raw, "\r\n".join(lines).encode())
    said = b""
    while b'"page":"' not in said or b"}" not in said.partition(b'"page":"')[2]:
        said += await loop.sock_recv(raw, 1_000)
    try:
        yield said.partition(b'"page":"')[2].partition(b'"')[0].decode()
    finally:
        raw.close()


async def test_a_quiet_page_hears_a_comment_from_time_to_time() -> None:
    async with console_of(echo_agent(), settings=EAGER) as server:
        browser = await server.browser()
        page = await browser.page()
        await eventually(lambda: page.comments >= 3)


# --- sessions and servers that end ------------------------------------------------------------------------------------


async def test_a_logout_ends_the_streams_of_all_pages_of_the_session() -> None:
    token, entry = new_token("ada")
    security = parse_security(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    async with console_of(echo_agent(), security=security) as server:
        browser = await server.browser()
        await browser.log_in_with(token)
        page = await browser.page()
        await page.open("c1", "a2a", url="/", request=streaming("wait"))
        await page.frame("c1")
        await browser.post("/console/api/session/logout", {})
        frames = [frame for frame in await page.rest() if "error" in frame]
        assert [(frame["channel"], frame["error"]["code"], frame["is_final"]) for frame in frames] == [
            ("c1", "unauthenticated", True)
        ]


async def test_a_session_that_another_process_has_ended_gets_nothing_more(channels: Callable[..., None]) -> None:
    go_on = asyncio.Event()

    async def secrets(call: ChannelCall) -> AsyncGenerator[object]:
        yield "before"
        await go_on.wait()
        yield "after"

    channels("secrets", secrets)
    token, entry = new_token("ada")
    security = parse_security(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    settings = ConsoleSettings(recheck_seconds=0, heartbeat_seconds=60)
    async with console_of(echo_agent(), security=security, settings=settings) as server:
        browser = await server.browser()
        await browser.log_in_with(token)
        page = await browser.page()
        await page.open("c1", "secrets")
        assert (await page.frame("c1"))["data"] == "before"
        records = server.app.store.records
        for record in await records.list("console-sessions", "", limit=10):
            await records.write(DeleteRecord(record.key))
        go_on.set()
        frames = await page.rest()
        assert "after" not in json.dumps(frames)
        assert [frame["error"]["code"] for frame in frames] == ["unauthenticated"]


async def test_a_server_that_stops_tells_pages_to_come_back_and_they_miss_nothing(tmp_path: Path) -> None:
    token, entry = new_token("ada")
    security = parse_security(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'parley.db'}", "security": security}
    serving = Serving(port=0, allowed_hosts=("console.example",))
    async with console_of(echo_agent(), serving=serving, **options) as server:
        browser = await server.browser(is_loaded=False)
        browser.client.headers["Host"] = "console.example"
        await browser.load()
        await browser.log_in_with(token)
        page = await browser.page()
        await page.open("c1", "a2a", url="/", request=streaming("wait"))
        first = (await page.frame("c1"))["data"]
        second = (await page.frame("c1"))["data"]
        server.stop.set()
        *_, last = await page.rest()
        assert (last["channel"], last["error"]["code"], last["is_final"]) == ("c1", "unavailable", False)
        cookies = browser.client.cookies
    async with console_of(echo_agent(), serving=serving, **options) as server:
        again = await server.browser(is_loaded=False)
        again.client.headers["Host"] = "console.example"
        again.client.cookies = cookies
        again.csrf = browser.csrf
        page = await again.page()  # without a word from the page: the session is the same
        task = first["response"]["result"]["task"]["id"]
        await page.open("c1", "a2a", url="/", request=subscribing(task), after=first["id"])
        frame = (await page.frame("c1"))["data"]
        assert (frame["id"], frame["response"]["result"]) == (second["id"], second["response"]["result"])


async def test_a_draining_server_takes_no_new_pages() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        server.console.drain()
        reply = await browser.get("/console/api/stream")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "unavailable")


async def test_an_opener_refuses_before_it_gives_anything(channels: Callable[..., None]) -> None:
    async def refusing(call: ChannelCall) -> AsyncGenerator[object]:
        with suppress(ValueError):
            raise ConsoleError("forbidden", "Not for you", path="$.task")
        yield None

    channels("refusing", refusing)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c1", "refusing")
        error = {"code": "forbidden", "message": "Not for you", "path": "$.task"}
        assert await page.frame("c1") == {"channel": "c1", "error": error, "is_final": True}
