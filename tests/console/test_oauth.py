"""The authorization code flow: the redirect, the page that the browser comes back to, and attacks on it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from msgspec import structs
from starlette.responses import JSONResponse

from parley.client.credentials.origins import origin_of
from parley.console.agents import callback
from parley.console.agents.connections import RemoteConnections
from parley.console.agents.logins import StoredLogins, logins_of
from parley.console.agents.pending import PendingLogins
from parley.console.settings import ConsoleSettings
from tests.console.consoles import Browser, ConsoleServer, console_of
from tests.console.foreign_agents import added, agent_elsewhere, card, details, foreign_server
from tests.console.test_login import logged_in, oauth_security, session_of, works
from tests.interop.javascript import find_node
from tests.server.authorization_server import CLIENT, PUBLIC_CLIENT, AuthorizationServer, authorization_server
from tests.server.serving import echo_agent

pytestmark = pytest.mark.anyio


@dataclass
class Begun:
    """A login that a browser has begun."""

    issuer: AuthorizationServer
    server: ConsoleServer
    browser: Browser
    agent: dict[str, Any]
    url: str

    async def answer(self) -> dict[str, str]:
        """What the authorization server sends the browser back with, as the callback page posts it."""
        async with httpx2.AsyncClient() as client:
            sent_back = await client.get(self.url, follow_redirects=False)
        assert sent_back.status_code == 302, sent_back.text
        target = urlsplit(sent_back.headers["location"])
        assert f"{target.scheme}://{target.netloc}{target.path}" == f"{self.server.url}/console/oauth/callback"
        return dict(parse_qsl(target.query))


async def finish(browser: Browser, answer: dict[str, str]) -> httpx2.Response:
    return await browser.post("/console/api/agents/oauth", answer)


@asynccontextmanager
async def begun_login(**values: str) -> AsyncGenerator[Begun]:
    async with authorization_server() as issuer:
        security = oauth_security(issuer, "authorization_code")
        async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
            browser = await server.browser()
            agent = await added(browser, url)
            chosen = {"client_id": PUBLIC_CLIENT, **values}
            reply = await logged_in(browser, agent, scheme="company", values=chosen)
            assert reply["state"] == "redirect"
            yield Begun(issuer, server, browser, agent, reply["url"])


async def test_a_redirect_logs_in_and_the_token_is_renewed_and_kept() -> None:
    async with begun_login() as login:
        query = dict(parse_qsl(urlsplit(login.url).query))
        assert query["code_challenge_method"] == "S256"
        assert query["scope"] == "agent:call"
        done = await finish(login.browser, await login.answer())
        assert (done.status_code, done.json()) == (200, {"state": "done", "agent": login.agent["id"]})
        assert await works(login.browser, login.agent)
        assert (await details(login.browser, login.agent["id"]))["login"]["is_logged_in"] is True
        # When the token has expired, its refresh token, which is good once, gives another one, and the session has it.
        session = await session_of(login.server, login.browser)
        await _expire(session)
        connections = login.server.console.shared(RemoteConnections)
        await connections.drop(session, login.agent["id"])
        assert await works(login.browser, login.agent, "m-2")
        await connections.drop(session, login.agent["id"])
        forms = len(login.issuer.forms)
        assert await works(login.browser, login.agent, "m-3")
        assert len(login.issuer.forms) == forms


async def _expire(session: Any) -> None:
    def change(stored: StoredLogins | None) -> StoredLogins:
        assert stored is not None
        (only,) = stored.logins
        assert only.tokens is not None
        past = structs.replace(only.tokens, expires_at=time.time() - 10, issued_at=time.time() - 100)
        return StoredLogins((structs.replace(only, tokens=past),))

    await session.update("agent-logins", StoredLogins, change)


async def test_a_client_with_a_secret_redeems_the_code_with_it() -> None:
    async with authorization_server() as issuer:
        security = oauth_security(issuer, "authorization_code")
        async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
            browser = await server.browser()
            agent = await added(browser, url)
            values = {"client_id": CLIENT[0], "client_secret": CLIENT[1], "issuer": issuer.url}
            reply = await logged_in(browser, agent, scheme="company", values=values)
            begun = Begun(issuer, server, browser, agent, reply["url"])
            assert CLIENT[1] not in json.dumps(reply)
            assert (await finish(browser, await begun.answer())).status_code == 200
            assert await works(browser, agent)


async def test_a_code_is_redeemed_once() -> None:
    async with begun_login() as login:
        answer = await login.answer()
        assert (await finish(login.browser, answer)).status_code == 200
        forms = len(login.issuer.forms)
        again = await finish(login.browser, answer)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
        assert len(login.issuer.forms) == forms


@pytest.mark.parametrize("state", ["", "wrong", "x" * 5_000])
async def test_a_wrong_state_redeems_nothing_and_leaves_the_login_open(state: str) -> None:
    async with begun_login() as login:
        answer = await login.answer()
        forged = await finish(login.browser, {**answer, "state": state})
        assert (forged.status_code, forged.json()["error"]["path"]) == (409, "$.state")
        assert login.issuer.forms == []
        assert (await finish(login.browser, answer)).status_code == 200


async def test_another_session_cannot_finish_a_login_and_gets_none() -> None:
    async with begun_login() as login:
        other = await login.server.browser()
        await added(other, login.agent["address"])
        answer = await login.answer()
        stolen = await finish(other, answer)
        assert stolen.status_code == 409
        assert login.issuer.forms == []
        assert (await finish(login.browser, answer)).status_code == 200
        assert not await works(other, login.agent)


async def test_a_login_that_has_expired_cannot_be_finished() -> None:
    async with begun_login() as login:
        answer = await login.answer()
        session = await session_of(login.server, login.browser)

        def change(stored: PendingLogins | None) -> PendingLogins:
            assert stored is not None
            return PendingLogins(tuple(structs.replace(one, expires_at=time.time() - 1) for one in stored.logins))

        await session.update("pending-logins", PendingLogins, change)
        assert (await finish(login.browser, answer)).status_code == 409
        assert login.issuer.forms == []


async def test_an_error_of_the_authorization_server_is_shown_and_ends_the_login() -> None:
    async with begun_login() as login:
        login.issuer.on_authorize = lambda answer: {
            "error": "access_denied",
            "error_description": "Ada said no",
            "state": answer["state"],
        }
        answer = await login.answer()
        refused = await finish(login.browser, answer)
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "agent_error")
        assert "access_denied" in refused.json()["error"]["message"]
        assert (await finish(login.browser, answer)).status_code == 409


async def test_an_error_of_the_token_endpoint_quotes_no_secret() -> None:
    async with begun_login() as login:
        answer = await login.answer()
        login.issuer.token_answers = [
            JSONResponse({"error": "invalid_grant", "error_description": f"bad code {answer['code']}"}, status_code=400)
        ]
        refused = await finish(login.browser, answer)
        assert refused.json()["error"]["code"] == "agent_error"
        assert answer["code"] not in refused.text


async def test_a_redirect_of_another_authorization_server_is_refused() -> None:
    async with authorization_server() as issuer:
        issuer.metadata = {"authorization_response_iss_parameter_supported": True}
        security = oauth_security(issuer, "authorization_code")
        async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
            browser = await server.browser()
            agent = await added(browser, url)
            values = {"client_id": PUBLIC_CLIENT, "issuer": issuer.url}
            reply = await logged_in(browser, agent, scheme="company", values=values)
            answer = await Begun(issuer, server, browser, agent, reply["url"]).answer()
            mixed_up = await finish(browser, {**answer, "iss": "https://evil.example"})
            assert mixed_up.status_code == 400
            assert issuer.forms == []


async def test_the_callback_needs_the_sessions_token_and_a_page_of_the_same_origin() -> None:
    async with begun_login() as login:
        answer = await login.answer()
        client = login.browser.client
        without = await client.post("/console/api/agents/oauth", json=answer)
        assert without.status_code in (401, 409, 501)
        foreign = {**login.browser.headers, "origin": "https://evil.example"}
        assert (await client.post("/console/api/agents/oauth", json=answer, headers=foreign)).status_code == 403
        assert (await client.get("/console/api/agents/oauth", params=answer)).status_code in (401, 404, 501)
        assert login.issuer.forms == []
        assert (await finish(login.browser, answer)).status_code == 200


async def test_the_callback_page_holds_nothing_of_the_request_and_runs_only_its_own_script() -> None:
    async with console_of(echo_agent()) as server:
        async with server.program() as client:
            plain = await client.get("/console/oauth/callback")
            attacked = await client.get(
                "/console/oauth/callback", params={"code": "<script>alert(1)</script>", "state": "s"}
            )
            script = await client.get("/console/oauth/callback.js")
        assert plain.content == attacked.content
        assert (plain.status_code, plain.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = plain.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert plain.headers["referrer-policy"] == "no-referrer"
        assert plain.headers["cache-control"] == "no-store"
        assert "set-cookie" not in plain.headers
        assert "<script>" not in plain.text
        assert " style=" not in plain.text
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "innerHTML" not in script.text


async def test_a_card_cannot_send_people_to_one_server_and_their_code_to_another() -> None:
    async with (
        authorization_server() as good,
        authorization_server() as evil,
        foreign_server() as foreign,
        console_of(echo_agent()) as server,
    ):
        flow: dict[str, Any] = {
            "authorizationUrl": f"{good.url}/authorize",
            "tokenUrl": f"{evil.url}/token",
            "scopes": {},
        }
        scheme: dict[str, Any] = {"oauth2SecurityScheme": {"flows": {"authorizationCode": flow}}}
        foreign.card = card(foreign.url, securitySchemes={"company": scheme})
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        body = {"scheme": "company", "values": {"client_id": PUBLIC_CLIENT}}
        reply = await browser.post(f"/console/api/agents/{agent['id']}/login", body)
        assert reply.status_code == 400, reply.text
        assert "does not list the latter" in reply.json()["error"]["message"]


async def test_a_shared_console_lets_nobody_name_a_private_authorization_server() -> None:
    async with (
        authorization_server() as issuer,
        agent_elsewhere(security=oauth_security(issuer, "authorization_code")) as url,
    ):
        settings = ConsoleSettings(is_loopback=False, agents=(url,))
        async with console_of(echo_agent(), settings=settings) as server:
            browser = await server.browser()
            listed = (await browser.get("/console/api/agents")).json()["agents"]
            agent = next(one for one in listed if one["address"] == url)
            asked = sum(issuer.asked.values())
            body = {"scheme": "company", "values": {"client_id": "x", "client_secret": "y", "issuer": issuer.url}}
            reply = await browser.post(f"/console/api/agents/{agent['id']}/login", body)
            assert reply.status_code in (400, 502)
            assert sum(issuer.asked.values()) == asked


async def test_logging_in_again_replaces_the_login() -> None:
    async with begun_login() as login:
        await finish(login.browser, await login.answer())
        again = await logged_in(login.browser, login.agent, scheme="company", values={"client_id": PUBLIC_CLIENT})
        await finish(login.browser, await Begun(login.issuer, login.server, login.browser, {}, again["url"]).answer())
        session = await session_of(login.server, login.browser)
        assert len(logins_of(session, origin_of(login.agent["address"]))) == 1


# --- the script of the callback page ----------------------------------------------------------------------------------

HARNESS = """
const [script, href, reply] = process.argv.slice(1);
const seen = { requests: [], told: [], shown: "", closed: false, address: null };
const url = new URL(href);
Object.assign(globalThis, {
  location: { href, search: url.search, pathname: url.pathname },
  history: { replaceState: (state, title, address) => { seen.address = address; } },
  window: { close: () => { seen.closed = true; } },
  document: { getElementById: () => ({ set textContent(text) { seen.shown = text; } }) },
  BroadcastChannel: class { postMessage(message) { seen.told.push(message); } close() {} },
  fetch: async (target, options) => {
    seen.requests.push([String(target), options.method ?? "GET", options.headers ?? {}, options.body ?? null]);
    const [status, body] = String(target).endsWith("/session") ? [200, { csrf: "c-1" }] : JSON.parse(reply);
    return { ok: status === 200, status, json: async () => body };
  },
});
await import(script);
console.log(JSON.stringify(seen));
"""


def run_callback(href: str, status: int, body: dict[str, Any]) -> dict[str, Any]:
    """What the script does when the browser comes back to an address, and the API replies so."""
    script = Path(callback.__file__).with_name("callback.js").as_uri()
    command = [find_node()[0], "--input-type=module", "-e", HARNESS, script, href, json.dumps([status, body])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_posts_the_code_as_the_session_and_closes_its_window() -> None:
    href = "http://127.0.0.1:8080/console/oauth/callback?code=c&state=s&iss=https%3A%2F%2Fi.example&session_state=x"
    seen = run_callback(href, 200, {"state": "done", "agent": "r-1"})
    assert [request[:2] for request in seen["requests"]] == [
        ["http://127.0.0.1:8080/console/api/session", "GET"],
        ["http://127.0.0.1:8080/console/api/agents/oauth", "POST"],
    ]
    _, _, headers, body = seen["requests"][1]
    assert headers["x-parley-csrf"] == "c-1"
    assert json.loads(body) == {"code": "c", "state": "s", "iss": "https://i.example"}
    assert seen["address"] == "/console/oauth/callback", "The code stays in the address"
    assert (seen["told"], seen["closed"]) == ([{"agent": "r-1", "error": None}], True)


def test_the_script_shows_why_a_login_failed_and_stays_open() -> None:
    error = {"error": {"code": "conflict", "message": "<b>begin again</b>"}}
    seen = run_callback("http://127.0.0.1/console/oauth/callback?state=s", 409, error)
    assert seen["shown"] == "The login failed: <b>begin again</b>"
    assert (seen["told"], seen["closed"]) == ([{"agent": None, "error": "<b>begin again</b>"}], False)


async def test_the_browser_may_come_back_from_a_page_of_another_site() -> None:
    async with console_of(echo_agent()) as server, server.program() as client:
        navigation = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        page = await client.get("/console/oauth/callback?code=c&state=s", headers=navigation)
        assert page.status_code == 200
