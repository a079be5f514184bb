"""The wire: what pages see of requests and replies, who sees what, and what it costs those who are seen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from parley import Agent
from parley.console.console import Console
from parley.console.served import ServedBackend
from parley.console.wire import ring as ring_module
from parley.console.wire.recorder import WireRecorder
from parley.console.wire.ring import MOST_ENTRIES, WireRing
from parley.console.wire.weight import weight_of
from parley.console.wire.wire import Wire, WireFilter, WireFrame
from parley.protocol.messages import Message, Role, TextPart
from parley.proxy.proxied import proxied
from parley.proxy.trace import Trace
from parley.server.app import App
from parley.server.bindings.http import AsgiRequest
from parley.server.security.authentication import Security
from parley.server.security.reloading import ReloadableSecurity
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.console.consoles import (
    ADMIN_TOKEN,
    Browser,
    ConsoleServer,
    Page,
    console_of,
    console_of_host,
    served_app,
    streaming,
)
from tests.console.foreign_agents import added, agent_elsewhere
from tests.server.serving import echo_agent, running, send

pytestmark = pytest.mark.anyio


async def watch(page: Page, channel: str = "w", **wanted: Any) -> None:
    """Look at the wire, from now on: the first frame, without lines, says that it is recorded."""
    await page.open(channel, "wire", **wanted)
    assert (await page.frame(channel))["data"] == {"lines": [], "missed": 0}


async def watching(browser: Browser, **wanted: Any) -> Page:
    """A page that looks at the wire."""
    page = await browser.page()
    await watch(page, **wanted)
    return page


async def lines_until(page: Page, number: int) -> list[dict[str, Any]]:
    """The next lines, at least this many."""
    found: list[dict[str, Any]] = []
    while len(found) < number:
        found += (await page.frame("w"))["data"]["lines"]
    return found


async def test_a_request_and_its_reply_are_lines_with_one_exchange() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await watching(browser)
        await browser.post("/", send("hello", message_id="m-1"))
        request, reply = await lines_until(page, 2)
        assert (request["direction"], request["kind"], request["operation"]) == (
            "caller → server",
            "request",
            "SendMessage",
        )
        assert (reply["direction"], reply["kind"]) == ("server → caller", "reply")
        assert request["exchange"] == reply["exchange"]
        assert reply["number"] == request["number"] + 1
        assert request["body"]["message"]["parts"] == [{"text": "hello"}]
        assert (request["agent"], request["version"], request["binding"]) == ("echo", "1.0", "JSONRPC")
        assert request["size"] == len(json.dumps(request["body"], separators=(",", ":")))
        assert (request["milliseconds"], request["failed"]) == (None, False)
        assert reply["milliseconds"] > 0
        assert reply["body"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_secrets_of_callers_and_of_sessions_are_masked() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await watching(browser)
        config = {"taskPushNotificationConfig": {"url": "https://hook.example/secret-path?k=1", "token": "hook-token"}}
        body = send("hello", message_id="m-1", configuration=config)
        headers = {**browser.headers, "authorization": "Bearer of-ada", "x-api-key": "k-1", "cookie": "own=1"}
        await browser.client.post("/", json=body, headers=headers)
        lines = await lines_until(page, 2)
        shown = json.dumps(lines)
        secrets = ("of-ada", "k-1", "hook-token", "secret-path", browser.csrf, "own=1")
        assert [secret for secret in secrets if secret in shown] == []
        assert lines[0]["headers"]["authorization"] == "Bearer ••••"


async def test_api_keys_are_masked_in_the_header_of_now_and_in_that_before_a_reload() -> None:
    key, names = StoredSecret(name="ada", hash=hash_secret("of-ada")), iter(("X-First-Caller", "X-Second-Caller"))
    security = ReloadableSecurity(lambda: Security({"key": ApiKeys([key], parameter=next(names))}))
    app, ring = App(echo_agent(), security=security), WireRing()
    ring.join()
    WireRecorder(ring, app).attach()
    async with running(app) as client:
        for name in ("X-First-Caller", "X-Second-Caller"):
            headers = {"A2A-Version": "1.0", "X-First-Caller": "of-ada", name: "of-ada"}
            await client.post("/", json=send("hello", message_id=name), headers=headers)
            if name == "X-First-Caller":
                security.reload()
    requests = [entry.show().headers for entry in ring.after(0, 100)[0] if entry.kind == "request" and entry.show]
    assert [request["x-first-caller"] for request in requests] == ["••••", "••••"]
    assert requests[1]["x-second-caller"] == "••••"


async def test_nothing_is_recorded_while_no_page_looks() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        assert server.app.shared.conversation_observer is None
        page = await watching(browser)
        await browser.post("/", send("hello", message_id="m-1"))
        await lines_until(page, 2)
        await page.close_channel("w")
        while server.app.shared.conversation_observer is not None:
            await asyncio.sleep(0.001)
        await browser.post("/", send("hello", message_id="m-2"))
        assert not server.console.shared(Wire)._ring._entries  # pyright: ignore[reportPrivateUsage]


async def test_events_of_a_stream_that_was_open_before_are_seen_too() -> None:
    goes_on = asyncio.Event()
    agent = Agent("Slow", description="Waits in the middle")

    @agent.on_message
    async def answer(turn: Any) -> Any:
        yield "before"
        await goes_on.wait()
        yield "after"

    async with console_of(agent) as server:
        browser = await server.browser()
        page = await browser.page()
        await page.open("c", "a2a", url="/", request=streaming("hello"))
        while "artifactUpdate" not in (await page.frame("c"))["data"]["response"]["result"]:
            pass
        await watch(page)
        goes_on.set()
        lines = await lines_until(page, 2)
        assert {line["kind"] for line in lines} == {"event"}
        assert "after" in json.dumps(lines)
        assert len({line["exchange"] for line in lines}) == 1


async def test_filters_choose_by_agent_direction_operation_text_and_failure() -> None:
    async with console_of(echo_agent("One"), echo_agent("Two")) as server:
        browser = await server.browser()
        page = await watching(browser, agent="two", direction="server → caller", text="NEEDLE")
        await browser.post("/agents/one", send("needle", message_id="m-1"))
        await browser.post("/agents/two", send("other", message_id="m-2"))
        await browser.post("/agents/two", send("a needle", message_id="m-3"))
        (line,) = await lines_until(page, 1)
        assert (line["agent"], line["kind"]) == ("two", "reply")
        await watch(page, "f", failed_only=True)
        await browser.post("/agents/one", {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "nope"}})
        failed = (await page.frame("f"))["data"]["lines"]
        assert [(one["kind"], one["failed"], one["what"]) for one in failed] == [("error", True, "TaskNotFoundError")]


async def test_a_caller_sees_only_what_it_sends_itself() -> None:
    tokens = [StoredSecret(name=name, hash=hash_secret(f"t-{name}")) for name in ("ada", "bob")]
    async with console_of(echo_agent(), security=Security({"token": BearerTokens(tokens)})) as server:
        ada, bob = await server.browser(), await server.browser()
        for browser, name in ((ada, "ada"), (bob, "bob")):
            assert (await browser.log_in(scheme="token", values={"token": f"t-{name}"})).status_code == 200
        page, other = await watching(ada), await watching(bob)
        await bob.post("/", send("of bob", message_id="m-1"))
        await bob.post("/", {"jsonrpc": "2.0", "id": 1, "method": "Nope"})
        await ada.post("/", send("of ada", message_id="m-2"))
        lines = await lines_until(page, 2)
        assert {line["caller"] for line in lines} == {"ada"}
        assert "of bob" not in json.dumps(lines)
        assert {line["caller"] for line in await lines_until(other, 2)} == {"bob"}


async def test_an_operator_of_a_host_sees_all_tenants_and_a_tenant_its_own() -> None:
    async with console_of_host() as server:
        assert server.host is not None
        tokens = [(await server.host.create_tenant(name))[1] for name in ("Acme", "Other")]
        browsers = [await server.browser() for _ in range(3)]
        scheme = browsers[0].session["schemes"][0]["name"]
        for browser, token in zip(browsers, (*tokens, ADMIN_TOKEN), strict=True):
            reply = await browser.log_in(scheme=scheme, values={"token": token})
            assert reply.status_code == 200, reply.text
        acme, other, operator = browsers
        pages = [await watching(browser) for browser in (acme, operator)]
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
        await other.post("/v1/a2a/agents/index", body)
        await acme.post("/v1/a2a/agents/index", body)
        own = await lines_until(pages[0], 2)
        assert {line["agent"] for line in own} == {"index"}
        assert len({line["exchange"] for line in own}) == 1
        everything = await lines_until(pages[1], 4)
        assert len({line["exchange"] for line in everything}) == 2


async def test_both_sides_of_a_remote_agent_are_seen_by_its_session_only() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser, other = await server.browser(), await server.browser()
        agent = await added(browser, url)
        page, others = await watching(browser), await watching(other)
        await browser.post(agent["url"], send("hello", message_id="m-1"))
        lines = await lines_until(page, 4)
        assert [line["direction"] for line in lines] == [
            "caller → proxy",
            "proxy → agent",
            "agent → proxy",
            "proxy → caller",
        ]
        assert {line["agent"] for line in lines} == {agent["id"]}
        assert len({line["exchange"] for line in lines}) == 1
        assert lines[2]["milliseconds"] > 0
        await other.post("/", send("own", message_id="m-2"))
        seen = await lines_until(others, 2)
        assert {line["agent"] for line in seen} == {"echo"}


async def test_the_traffic_of_a_proxy_is_seen_with_both_sides() -> None:
    async with agent_elsewhere() as url, proxied(url, trace=Trace()) as app:
        console = Console(ServedBackend(app, security=None, kind="proxy"))
        app.install_console(console)
        async with served_app(app, console) as server:
            browser = await server.browser()
            page = await browser.page()
            (agent,) = app.agents
            await watch(page, agent=agent.id)
            await browser.post("/", send("hello", message_id="m-1"))
            lines = await lines_until(page, 4)
            assert [line["direction"] for line in lines] == [
                "caller → proxy",
                "proxy → agent",
                "agent → proxy",
                "proxy → caller",
            ]


async def test_a_body_that_is_too_long_is_named_with_its_size_and_not_held() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await watching(browser)
        await browser.post("/", send("x" * 200_000, message_id="m-1"))
        request, reply = await lines_until(page, 2)
        assert (request["body"], request["is_cut"]) == (None, True)
        assert 200_000 < request["size"] < 220_000
        assert reply["is_cut"] is True


async def test_a_slow_viewer_misses_lines_and_slows_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST_ENTRIES", 10)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        wire = server.console.shared(Wire)
        caller = await server.console.backend.authenticate(_request(server))
        frames = wire.frames(caller, "", WireFilter())
        assert await anext(frames) == WireFrame([], 0)
        first = asyncio.create_task(anext(frames))
        await asyncio.sleep(0)
        for number in range(20):
            await browser.post("/", send("hello", message_id=f"m-{number}"))
        assert len((await first).lines) == 1
        late = await anext(frames)
        assert (len(late.lines), late.missed) == (10, 29)
        await frames.aclose()


def _request(server: ConsoleServer) -> Any:
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [],
        "query_string": b"",
        "scheme": "http",
    }

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    return AsgiRequest(scope, nothing, nothing)


def test_the_ring_keeps_no_entries_without_readers_and_a_bounded_number_with() -> None:
    states: list[bool] = []
    ring = WireRing(states.append)
    one, two = ring.join(), ring.join()
    assert states == [True]
    one.leave()
    two.leave()
    assert states == [True, False]
    assert MOST_ENTRIES == 2_000


def test_a_weight_is_found_without_looking_at_everything() -> None:
    message = Message("m", Role.USER, (TextPart("x" * 1_000),))
    assert 1_000 < weight_of(message) < 1_300
    assert weight_of([1] * 1_000_000) >= 1_000_000


async def test_an_app_without_observers_takes_the_quick_path() -> None:
    app = App(echo_agent())
    assert app.shared.conversation_observer is None
    trace = Trace()
    with app.observing(trace):
        assert app.shared.conversation_observer is trace
        with app.observing(Trace()):
            assert app.shared.conversation_observer is not trace
        assert app.shared.conversation_observer is trace
    assert app.shared.conversation_observer is None
