"""Web pages against a server on real sockets: names that were rebound to it, and pages of other origins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest

from parley import Agent
from parley.agents.turn import Turn
from parley.server.app import App
from parley.server.run import Bound, Serving, serve
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

SEND = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": SEND}
REQUESTS = [
    ("POST", "/", RPC),
    ("POST", "/message:send", SEND),
    ("POST", "/v1/message:send", SEND),
    ("GET", "/tasks", None),
    ("GET", "/.well-known/agent-card.json", None),
    ("GET", "/openapi.json", None),
    ("GET", "/docs", None),
    ("GET", "/", None),
    ("GET", "/metrics", None),
    ("GET", "/healthz", None),
    ("GET", "/livez", None),
    ("GET", "/readyz", None),
    ("GET", "/nowhere", None),
    ("OPTIONS", "/", None),
]


class Served:
    """A server, and the messages that its agent was given."""

    def __init__(self, port: int, heard: list[str]) -> None:
        self.port = port
        self.heard = heard

    async def ask(
        self, headers: Mapping[str, str], verb: str = "GET", path: str = "/docs", body: object = None
    ) -> tuple[int, str]:
        """The status and the text of an answer; `{port}` stands for the server's port in the headers."""
        content = json.dumps(body).encode() if body is not None else b""
        lines = [f"{verb} {path} HTTP/1.1", "Connection: close", f"Content-Length: {len(content)}"]
        lines += ["Content-Type: application/json"] if content else []
        lines += [f"{name}: {value.replace('{port}', str(self.port))}" for name, value in headers.items()]
        with fail_after(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write("\r\n".join([*lines, "\r\n"]).encode() + content)
            reply = (await reader.read()).decode()
            writer.close()
        head, _, text = reply.partition("\r\n\r\n")
        return int(head.split()[1]), text

    async def status(self, **headers: str) -> int:
        """The status of the docs page for a request with these headers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await self.ask({"host": "localhost:{port}", **named}))[0]


@asynccontextmanager
async def served(
    serving: Serving | None = None, *, public_url: str | None = None, cors_origins: tuple[str, ...] = ()
) -> AsyncGenerator[Served]:
    heard: list[str] = []
    agent = Agent("Echo")

    @agent.on_message
    async def echo(turn: Turn) -> str:
        heard.append(turn.text)
        return turn.text

    app = App(agent, public_url=public_url, cors_origins=cors_origins, telemetry=Telemetry(metrics=Metrics()))
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    running = asyncio.create_task(serve(app, serving or Serving(port=0), on_ready=ready.set_result, stop=stop))
    with fail_after(10):
        await asyncio.wait([ready, running], return_when=asyncio.FIRST_COMPLETED)
    yield Served(int((await ready).url.rpartition(":")[2]), heard)
    stop.set()
    await running


async def test_a_name_that_was_rebound_to_loopback_is_refused_on_every_path() -> None:
    """What a page of evil.example sends when its name means 127.0.0.1 all at once: to itself, as it believes."""
    page = {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"}
    async with served() as server:
        answers = [await server.ask(page, *request) for request in REQUESTS]
        assert {status for status, _ in answers} == {421}
        assert "--allowed-host evil.example" in answers[0][1]
        assert server.heard == []


async def test_a_page_of_another_origin_is_refused_on_every_path() -> None:
    page = {"Host": "localhost:{port}", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    async with served() as server:
        answers = [await server.ask(page, *request) for request in REQUESTS]
        assert {status for status, _ in answers} == {403}
        assert "--cors-origin https://evil.example" in answers[0][1]
        for unnamed in ("null", ""):  # which --cors-origin does not take
            assert "--cors-origin" not in (await server.ask({**page, "Origin": unnamed}, *REQUESTS[0]))[1]
        assert server.heard == []


async def test_on_loopback_only_loopback_names_and_those_that_were_given_are_served() -> None:
    serving = Serving(port=0, allowed_hosts=("agents.example", ".team.example", "192.0.2.7"))
    async with served(serving, public_url="https://Public.example:8443/agents") as server:
        for host in ("localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"):
            assert (await server.status(host=f"{host}:{{port}}"), await server.status(host=host)) == (200, 200)
        for host in ("agents.example", "Agents.Example:1", "a.team.example", "public.example", "192.0.2.7:80", ""):
            assert await server.status(host=host) == 200
        for host in ("a.agents.example", "team.example", "evil.example", "localhost.evil.example", "notlocalhost"):
            assert await server.status(host=host) == 421
        for host in ("192.0.2.8", "127.0.0.1.evil.example", "0.0.0.0", "[::2]", "127.0.0.1@evil", "a b", "localhost:x"):
            assert await server.status(host=host) == 421
        assert (await server.ask({}, "GET", "/docs HTTP/1.0\r\nX-Was:"))[0] == 200  # HTTP/1.0 needs no Host


async def test_a_server_on_the_network_answers_to_every_name_unless_it_was_told_its_names() -> None:
    network = Serving(host="0.0.0.0", port=0, allow_anonymous=True)
    async with served(network, public_url="https://public.example") as server:
        assert await server.status(host="service.namespace.svc") == 200
        assert await server.status(origin="https://evil.example") == 403
    named = Serving(host="0.0.0.0", port=0, allow_anonymous=True, allowed_hosts=("agents.example",))
    async with served(named, public_url="https://public.example") as server:
        for host in ("agents.example", "public.example", "localhost", "192.0.2.8:80", "[2001:db8::1]:80"):
            assert await server.status(host=host) == 200
        assert await server.status(host="evil.example") == 421


async def test_programs_links_and_own_pages_are_served() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    async with served(public_url="https://public.example") as server:
        assert await server.status() == 200
        assert await server.status(sec_fetch_mode="cors") == 200  # fetch() of Node
        assert await server.status(**link) == 200
        assert await server.status(sec_fetch_site="none") == 200
        assert await server.status(origin="http://LocalHost:{port}", sec_fetch_site="same-origin") == 200
        assert await server.status(origin="https://public.example", sec_fetch_site="same-origin") == 200
        for foreign in ("null", "http://localhost:1", "https://public.example.evil", "", "http://localhost:{port}/"):
            assert await server.status(origin=foreign, sec_fetch_site="same-site") == 403
        assert await server.status(sec_fetch_site="same-site") == 403
        assert await server.status(**{**link, "sec_fetch_dest": "iframe"}) == 403
        assert (await server.ask({"Host": "localhost", "Sec-Fetch-Site": "cross-site"}, "POST", "/", RPC))[0] == 403
        assert (await server.ask({"Host": "localhost"}, "POST", "/", RPC))[0] == 200


async def test_pages_of_allowed_origins_may_call() -> None:
    page = {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}
    async with served(cors_origins=("https://ui.example",)) as server:
        assert (await server.ask({**page, "Origin": "https://ui.example"}, "POST", "/", RPC))[0] == 200
        assert (await server.ask({**page, "Origin": "https://evil.example"}, "POST", "/", RPC))[0] == 403
    async with served(cors_origins=("*",)) as server:
        assert (await server.ask({**page, "Origin": "https://any.example"}, "POST", "/", RPC))[0] == 200
        assert (await server.ask({"Host": "evil.example", "Origin": "https://any.example"}, "POST", "/", RPC))[0] == 421
