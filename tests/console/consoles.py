"""Servers with a console, on real ports in the test's own event loop, and browsers that use it.

async with console_of(echo_agent()) as server:
    browser = await server.browser()
    page = await browser.page()
    await page.open("c1", "a2a", url="/", request=…)
    assert (await page.frame("c1"))["data"]["response"] == …
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from parley import Agent
from parley.console.console import Console
from parley.console.hosted import HostedBackend
from parley.console.served import ServedBackend
from parley.console.settings import ConsoleSettings
from parley.console.static_files import StaticFiles
from parley.host.host import AppOptions, Host, HostSettings
from parley.server.app import App
from parley.server.contracts import CallerAuthenticator
from parley.server.run import Bound, Serving, serve
from parley.wire.sse import Decoder
from tests.deadlines import fail_after

ADMIN_TOKEN = "adm_secret-of-the-tests"

Frame = dict[str, Any]


class Page:
    """A page that is open in a browser, and reads its stream all the time."""

    def __init__(self, browser: Browser, reply: httpx2.Response) -> None:
        self._browser = browser
        self._reply = reply
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._kept: list[Frame] = []
        self.comments = 0
        self.id = ""
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        decoder = Decoder()
        try:
            async for chunk in self._reply.aiter_raw():
                self.comments += chunk.count(b":\n\n")
                for frame in decoder.feed(chunk):
                    self._frames.put_nowait(msgspec.json.decode(frame.data))
        finally:
            self._frames.put_nowait(None)

    async def begin(self) -> Page:
        """Read the first frame, which names the page."""
        first = await self._frames.get()
        assert first is not None
        self.id = first["page"]
        return self

    async def open(self, channel: str, kind: str, **parameters: Any) -> httpx2.Response:
        """Open a channel."""
        body = {"channel": channel, "kind": kind, **parameters}
        return await self._browser.post(f"/console/api/stream/{self.id}/open", body)

    async def close_channel(self, channel: str) -> httpx2.Response:
        """Close a channel."""
        return await self._browser.post(f"/console/api/stream/{self.id}/close", {"channel": channel})

    async def frame(self, channel: str | None = None) -> Frame:
        """The next frame, of a channel if one is named. An error of the test if the stream ends before."""
        for index, frame in enumerate(self._kept):
            if channel in (None, frame["channel"]):
                return self._kept.pop(index)
        while True:
            frame = await self._frames.get()
            assert frame is not None, "The stream has ended"
            if channel in (None, frame["channel"]):
                return frame
            self._kept.append(frame)

    async def rest(self) -> list[Frame]:
        """All frames to the end of the stream."""
        found = self._kept
        while (frame := await self._frames.get()) is not None:
            found.append(frame)
        return found

    async def rest_of(self, channel: str) -> list[Frame]:
        """All frames of a channel to its end."""
        found: list[Frame] = []
        while True:
            found.append(await self.frame(channel))
            if "data" not in found[-1]:
                return found

    async def vanish(self) -> None:
        """Close the connection without a word."""
        self._task.cancel()
        await self._reply.aclose()


@dataclass(slots=True)
class Browser:
    """A browser: it keeps cookies, and the page's CSRF token in its memory."""

    client: httpx2.AsyncClient
    csrf: str = ""
    session: dict[str, Any] = field(default_factory=dict[str, Any])
    _pages: list[Page] = field(default_factory=list[Page])

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Parley-Csrf": self.csrf}

    async def load(self) -> dict[str, Any]:
        """Ask for the session, as the page does when it is loaded."""
        reply = await self.client.get("/console/api/session")
        assert reply.status_code == 200, reply.text
        return self._keep(reply)

    def _keep(self, reply: httpx2.Response) -> dict[str, Any]:
        self.session = reply.json()
        self.csrf = self.session["csrf"]
        return self.session

    async def get(self, path: str) -> httpx2.Response:
        return await self.client.get(path, headers=self.headers)

    async def post(self, path: str, body: Any) -> httpx2.Response:
        return await self.client.post(path, json=body, headers=self.headers)

    async def log_in(self, **body: Any) -> httpx2.Response:
        """Log in, and go on with the new session if that succeeds."""
        reply = await self.post("/console/api/session/login", body)
        if reply.status_code == 200:
            self._keep(reply)
        return reply

    async def log_in_with(self, token: str) -> None:
        """Log in with a bearer token."""
        reply = await self.log_in(scheme="bearer", values={"token": token})
        assert reply.status_code == 200, reply.text

    async def page(self) -> Page:
        """Open a page."""
        request = self.client.build_request("GET", "/console/api/stream", headers=self.headers)
        reply = await self.client.send(request, stream=True)
        assert reply.status_code == 200, await reply.aread()
        page = Page(self, reply)
        self._pages.append(page)
        return await page.begin()

    async def close(self) -> None:
        for page in self._pages:
            await page.vanish()
        await self.client.aclose()


@dataclass(slots=True)
class ConsoleServer:
    """A server with a console."""

    url: str
    app: App
    console: Console
    _stack: AsyncExitStack
    stop: asyncio.Event
    host: Host | None = None

    def program(self, **headers: str) -> httpx2.AsyncClient:
        """A client that keeps no cookies of its own. The caller closes it."""
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, verify=False)

    async def browser(self, *, is_loaded: bool = True) -> Browser:
        """A new browser, which has loaded the page."""
        browser = Browser(httpx2.AsyncClient(base_url=self.url, timeout=20, verify=False))
        self._stack.push_async_callback(browser.close)
        if is_loaded:
            await browser.load()
        return browser

    def same_cookies(self, browser: Browser, url: str) -> Browser:
        """The same browser at another replica, which has the same name for it."""
        other = Browser(httpx2.AsyncClient(base_url=url, timeout=20, verify=False), browser.csrf)
        self._stack.push_async_callback(other.close)
        return other


@asynccontextmanager
async def console_of(
    *agents: Agent,
    security: CallerAuthenticator | None = None,
    is_loopback: bool = True,
    settings: ConsoleSettings | None = None,
    folder: Path | None = None,
    serving: Serving | None = None,
    **options: Any,
) -> AsyncGenerator[ConsoleServer]:
    """A server of some agents, as `parley serve` has it."""
    app = App(*agents, security=security, drain_seconds=0.1, **options)
    console = Console(
        ServedBackend(app, security=security, is_loopback=is_loopback),
        settings,
        files=None if folder is None else StaticFiles(folder),
    )
    app.install_console(console)
    async with served_app(app, console, serving) as server:
        yield server


@asynccontextmanager
async def console_of_host(
    *,
    store: Any = "memory:",
    settings: ConsoleSettings | None = None,
    serving: Serving | None = None,
    options: AppOptions | None = None,
    **host_settings: Any,
) -> AsyncGenerator[ConsoleServer]:
    """A host, as `parley up` has it."""
    chosen: AppOptions = {"drain_seconds": 0.1, **(options or {})}
    host = Host(HostSettings(admin_token=ADMIN_TOKEN, **host_settings), store=store, **chosen)
    console = Console(HostedBackend(host), settings)
    host.app.install_console(console)
    async with served_app(host.app, console, serving) as server:
        server.host = host
        yield server


@asynccontextmanager
async def served_app(app: App, console: Console, serving: Serving | None = None) -> AsyncGenerator[ConsoleServer]:
    """An app with its console, served until the block ends."""
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    with fail_after(30):
        running = asyncio.create_task(serve(app, serving or Serving(port=0), on_ready=ready.set_result, stop=stop))
        try:
            await asyncio.wait({ready, running}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                await running  # raises why it could not start
            async with AsyncExitStack() as stack:
                yield ConsoleServer(ready.result().url, app, console, stack, stop)
        finally:
            stop.set()
            await running


def streaming(text: str, message_id: str = "m-1", **params: Any) -> dict[str, Any]:
    """A JSON-RPC request that streams."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message, **params}}


def subscribing(task_id: str) -> dict[str, Any]:
    """A JSON-RPC request that follows a task."""
    return {"jsonrpc": "2.0", "id": 2, "method": "SubscribeToTask", "params": {"id": task_id}}
