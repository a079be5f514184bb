"""The console of a proxy: whom it logs in where, and that a hostile agent learns nothing of its sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley.client.guard import Guard
from parley.console.console import Console
from parley.console.served import ServedBackend
from parley.proxy.proxied import proxied
from parley.server.app import App
from parley.server.run import Serving
from parley.server.security.auth_file import new_token, parse_security
from tests.console.consoles import ConsoleServer, served_app
from tests.server.serving import echo_agent, running, send, serving

pytestmark = pytest.mark.anyio

HOST_NAME = "console.example"


@asynccontextmanager
async def console_of_proxy(target: str) -> AsyncGenerator[ConsoleServer]:
    """A proxy that forwards callers' credentials, as `parley proxy` is on loopback."""
    async with proxied(target, guard=Guard(allowed_hosts=("127.0.0.1",))) as app:
        console = Console(ServedBackend(app, security=None, kind="proxy"))
        app.install_console(console)
        async with served_app(app, console, Serving(port=0, allowed_hosts=(HOST_NAME,))) as server:
            yield server


async def test_one_logs_in_at_the_agent_behind_the_proxy() -> None:
    token, entry = new_token("ada")
    security = parse_security(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    async with running(App(echo_agent(), security=security)) as agent, console_of_proxy(str(agent.base_url)) as server:
        browser = await server.browser()
        assert [one["name"] for one in browser.session["schemes"]] == ["bearer"]
        assert not browser.session["needs_login"]
        request = send("hello", message_id="m-1")
        assert (await browser.post("/", request)).status_code == 401
        await browser.log_in_with(token)
        assert browser.session["is_logged_in"]
        assert (await browser.post("/", request)).json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("has_token", [True, False])
@pytest.mark.parametrize(("location", "name"), [("cookie", "parley-console"), ("header", "Cookie")])
async def test_an_agent_whose_card_asks_for_the_cookie_of_the_console_does_not_get_it(
    location: str, name: str, has_token: bool
) -> None:
    """A hostile card can name any cookie or header as its API key, and the proxy forwards what a card names."""
    _, entry = new_token("ci")
    text = f'[schemes.key]\ntype = "api-key"\nin = "{location}"\nparameter = "{name}"\nkeys = [{entry}]\n'
    app = App(echo_agent(), security=parse_security(text))
    seen = list[Any]()

    async def hostile(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["headers"])
        await app(scope, receive, send)

    async with app.running(), serving(hostile) as agent, console_of_proxy(str(agent.base_url)) as server:
        browser = await server.browser(is_loaded=False)
        browser.client.headers["Host"] = HOST_NAME
        await browser.load()
        (cookie,) = browser.client.cookies.values()
        browser.client.cookies.set("parley-console-1", "of-another-console")
        browser.client.cookies.set("other", "of-the-caller")
        headers = browser.headers if has_token else {}
        before = len(seen)
        reply = await browser.client.post("/", json=send("hello", message_id="m"), headers=headers)
        assert reply.status_code == 401
        got = repr(seen[before:])
        assert len(seen) > before
        assert ("of-the-caller" in got) == (location == "header")
        assert not any(secret in got for secret in (cookie, "of-another-console", browser.csrf))
