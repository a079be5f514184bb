"""Sessions: cookies, CSRF tokens, other origins, logging in and out, and what the store keeps."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley.console.api.errors import ConsoleError
from parley.console.once_links import OnceLinks
from parley.console.session_cookie import SessionSecret
from parley.console.sessions import (
    BY_CALLER,
    COLLECTION,
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_BYTES,
    TOUCH_SECONDS,
    Session,
    SessionContent,
    SessionCredentials,
    Sessions,
)
from parley.server.limits import ServerLimits
from parley.server.run import Serving
from parley.server.security.auth_file import new_token, new_user, parse_security
from parley.server.security.authentication import Security
from parley.server.security.throttle import RateLimits
from parley.stores.interface import PutRecord, RecordKey
from parley.stores.memory import MemoryStore
from parley.testing.clock import FakeClock
from tests.console.consoles import Browser, console_of
from tests.server.serving import echo_agent, send

pytestmark = pytest.mark.anyio

COOKIE = re.compile(r"parley-console-\d+=[\w-]{43}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict")

LOGGED_IN = SessionCredentials({"authorization": "Bearer secret-token"})


def secured(*, is_optional: bool = False) -> tuple[Security, str]:
    """A server's authentication, and the token of ada."""
    token, entry = new_token("ada")
    require = "require = [{}, {bearer = []}]\n" if is_optional else ""
    return parse_security(f'{require}[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n'), token


def error_of(reply: httpx2.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def test_an_open_server_gives_every_browser_a_session_and_stores_nothing() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser(is_loaded=False)
        reply = await browser.client.get("/console/api/session")
        assert COOKIE.fullmatch(reply.headers["set-cookie"])
        assert reply.headers["cache-control"] == "no-store"
        shown = reply.json()
        assert shown.pop("csrf")
        assert isinstance(shown.pop("build"), str)
        assert shown == {
            "server": {"kind": "serve", "name": "Echo", "version": "0.1.0", "url": server.url},
            "is_logged_in": False,
            "needs_login": False,
            "caller": {"name": "", "tenant": "", "tenant_name": "", "scopes": [], "is_operator": False},
            "schemes": [],
            "features": ["agents", "chat", "tasks", "trees", "wire", "checks", "remote"],
        }
        again = await browser.client.get("/console/api/session")
        assert "set-cookie" not in again.headers
        assert again.json()["csrf"] == reply.json()["csrf"]
        assert await server.app.store.records.count(COLLECTION, "") == 0


async def test_a_session_with_its_csrf_token_calls_agents_and_one_without_it_is_nobody() -> None:
    security, token = secured()
    async with console_of(echo_agent(), security=security) as server:
        browser = await server.browser()
        assert (browser.session["needs_login"], browser.session["caller"]) == (True, None)
        assert error_of(await browser.post("/console/api/session/tenant", {})) == (401, "unauthenticated")
        await browser.log_in_with(token)
        assert browser.session["caller"]["name"] == "ada"
        request = send("hello", message_id="m-1")
        assert (await browser.post("/", request)).json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await browser.client.post("/", json=request)).status_code == 401
        wrong = {"X-Parley-Csrf": SessionSecret.new().csrf}
        assert (await browser.client.post("/", json=request, headers=wrong)).status_code == 401
        api = await browser.client.post("/console/api/session/tenant", json={}, headers=wrong)
        assert error_of(api) == (401, "unauthenticated")


async def test_the_cookie_is_for_tls_only_where_there_is_tls_and_no_subdomain_can_set_it() -> None:
    proxied = {"Host": "agents.example.com", "X-Forwarded-Proto": "https"}

    async def cookie(serving: Serving, public_url: str | None = "https://agents.example.com") -> str:
        async with (
            console_of(echo_agent(), public_url=public_url, serving=serving) as server,
            server.program(**proxied) as browser,
        ):
            return (await browser.get("/console/api/session")).headers["set-cookie"]

    trusting, others = Serving(port=0, trusted_proxies=("127.0.0.1",)), Serving(port=0)
    accepting = Serving(port=0, allowed_hosts=("agents.example.com",))
    for secure in (await cookie(trusting), await cookie(others)):
        assert re.fullmatch(
            r"__Host-parley-console=[\w-]{43}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure", secure
        )
    # Anybody can send the header, and the public URL is that of another host.
    for plain in (await cookie(accepting, None), await cookie(accepting, "https://other.example.com")):
        assert plain.startswith("parley-console=")
        assert "Secure" not in plain


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_pages_of_other_origins_are_refused_even_where_they_may_call_agents(headers: dict[str, str]) -> None:
    async with console_of(echo_agent(), cors_origins=["*"]) as server:
        browser = await server.browser()
        assert error_of(await browser.client.get("/console/api/session", headers=headers)) == (403, "forbidden")
        with_token = {**browser.headers, **headers}
        body = {"scheme": "bearer"}
        reply = await browser.client.post("/console/api/session/login", json=body, headers=with_token)
        assert error_of(reply) == (403, "forbidden")
        request = send("hello", message_id="m-1")
        assert error_of(await browser.client.post("/", json=request, headers=with_token)) == (403, "forbidden")
        own = {**browser.headers, "Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        assert (await browser.client.post("/", json=request, headers=own)).status_code == 200


async def test_a_login_gives_the_session_a_new_secret_and_the_former_is_worth_nothing() -> None:
    security, token = secured()
    async with console_of(echo_agent(), security=security) as server:
        browser = await server.browser()
        planted = dict(browser.client.cookies), browser.csrf
        await browser.log_in_with(token)
        assert dict(browser.client.cookies) != planted[0]
        async with server.program() as thief:
            thief.cookies.update(planted[0])
            assert not (await thief.get("/console/api/session")).json()["is_logged_in"]
            reply = await thief.post("/", json=send("x", message_id="m"), headers={"X-Parley-Csrf": planted[1]})
            assert reply.status_code == 401


async def test_wrong_credentials_are_refused_and_count_against_the_address() -> None:
    security, token = secured()
    limits = ServerLimits(rates=RateLimits(failures_per_minute=3))
    async with console_of(echo_agent(), security=security, limits=limits) as server:
        browser = await server.browser()
        for _ in range(3):
            reply = await browser.log_in(scheme="bearer", values={"token": "wrong"})
            assert error_of(reply) == (401, "unauthenticated")
            assert "www-authenticate" not in reply.headers
        refused = await browser.log_in(scheme="bearer", values={"token": token})
        assert error_of(refused) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) >= 1


async def test_wrong_codes_of_links_count_too() -> None:
    limits = ServerLimits(rates=RateLimits(failures_per_minute=2))
    async with console_of(echo_agent(), security=secured()[0], limits=limits) as server:
        browser = await server.browser()
        assert [error_of(await browser.log_in(once="guess"))[0] for _ in range(3)] == [401, 401, 429]


@pytest.mark.parametrize(
    ("body", "status", "path"),
    [
        ({"scheme": "nobody", "values": {}}, 400, "$.scheme"),
        ({"scheme": "bearer", "values": {}}, 400, "$.values.token"),
        ({"scheme": "bearer", "values": {"token": "a\r\nb"}}, 400, "$.values.token"),
        ({"scheme": "bearer", "values": {"token": "ä"}}, 400, "$.values.token"),
        ({"scheme": "bearer", "values": {"token": 3}}, 400, "$.values"),
        ({"scheme": 7}, 400, "$.scheme"),
        ([], 400, "$"),
    ],
)
async def test_a_login_that_is_not_valid_names_the_member_at_fault(body: Any, status: int, path: str) -> None:
    async with console_of(echo_agent(), security=secured()[0]) as server:
        browser = await server.browser()
        reply = await browser.post("/console/api/session/login", body)
        assert (reply.status_code, reply.json()["error"].get("path", "$")[: len(path)]) == (status, path), reply.text


async def test_users_log_in_with_a_password_and_keys_in_headers_queries_and_cookies() -> None:
    async def caller(scheme: str, values: dict[str, str]) -> str:
        async with console_of(echo_agent(), security=parse_security(scheme)) as server:
            browser = await server.browser()
            (shown,) = browser.session["schemes"]
            assert [one["name"] for one in shown["fields"]] == list(values)
            reply = await browser.log_in(scheme="only", values=values)
            assert reply.status_code == 200, reply.text
            answer = await browser.post("/", send("hello", message_id="m-1"))
            assert answer.status_code == 200, answer.text
            return browser.session["caller"]["name"]

    basic = f'[schemes.only]\ntype = "basic"\nusers = [{new_user("grace", "pass: wörd")}]\n'
    assert await caller(basic, {"username": "grace", "password": "pass: wörd"}) == "grace"
    for location in ("header", "query", "cookie"):
        key, entry = new_token("ci")
        text = f'[schemes.only]\ntype = "api-key"\nin = "{location}"\nparameter = "X-Key"\nkeys = [{entry}]\n'
        assert await caller(text, {"key": key}) == "ci"


async def test_the_browser_does_not_ask_for_a_password_in_the_place_of_the_page() -> None:
    basic = f'[schemes.only]\ntype = "basic"\nusers = [{new_user("grace", "secret")}]\n'
    async with console_of(echo_agent(), security=parse_security(basic)) as server:
        browser = await server.browser()
        request = send("hello", message_id="m-1")
        refused = await browser.post("/", request)
        assert (refused.status_code, "www-authenticate" in refused.headers) == (401, False)
        assert "www-authenticate" in (await browser.client.post("/", json=request)).headers


async def test_a_logout_ends_the_session_everywhere() -> None:
    security, token = secured()
    async with console_of(echo_agent(), security=security) as server:
        browser = await server.browser()
        await browser.log_in_with(token)
        before = dict(browser.client.cookies), browser.csrf
        reply = await browser.post("/console/api/session/logout", {})
        assert (reply.status_code, reply.json()) == (200, {})
        assert re.search(r"=; Path=/; Max-Age=0; HttpOnly", reply.headers["set-cookie"])
        assert not browser.client.cookies
        async with server.program() as thief:
            thief.cookies.update(before[0])
            assert not (await thief.get("/console/api/session")).json()["is_logged_in"]
        assert await server.app.store.records.count(COLLECTION, "") == 0


async def test_the_next_person_to_log_in_finds_nothing_of_the_one_before() -> None:
    security, token = secured(is_optional=True)
    async with console_of(echo_agent(), security=security) as server:
        browser = await server.browser()
        secret = _secret_of(browser)
        await (await server.console.sessions.find(secret)).put("agents", ["https://a.example"])
        await browser.log_in_with(token)
        session = await server.console.sessions.find(_secret_of(browser))
        assert session.get("agents", list[str]) == ["https://a.example"]  # it was the same person before
        await browser.log_in_with(token)
        session = await server.console.sessions.find(_secret_of(browser))
        assert session.get("agents", list[str]) is None


async def test_programs_use_their_own_credentials_and_have_no_session_to_write() -> None:
    security, token = secured()
    async with console_of(echo_agent(), security=security) as server:
        async with server.program(Authorization=f"Bearer {token}") as program:
            shown = (await program.get("/console/api/session")).json()
            assert shown["is_logged_in"]
            assert shown["caller"]["name"] == "ada"
            program.cookies.clear()
            reply = await program.post("/console/api/session/login", json={"scheme": "bearer", "values": {}})
            assert error_of(reply) == (403, "forbidden")
            assert error_of(await program.post("/console/api/session/tenant", json={})) == (403, "forbidden")
        async with server.program() as nobody:
            assert error_of(await nobody.get("/console/api/stream")) == (401, "unauthenticated")


async def test_the_cookie_of_the_console_is_never_seen_by_what_is_behind_it() -> None:
    async with console_of(echo_agent(), security=secured()[0]) as server:
        browser = await server.browser()
        seen = list[dict[str, str]]()
        security = server.app.shared.security
        assert security is not None
        original = security.authenticate

        async def authenticate(credentials: Any) -> Any:
            seen.append(dict(credentials.headers))
            return await original(credentials)

        security.authenticate = authenticate  # pyright: ignore[reportAttributeAccessIssue]
        browser.client.cookies.set("other", "kept")
        await browser.post("/", send("hello", message_id="m"))
        assert (seen[-1].get("cookie"), "x-parley-csrf" in seen[-1]) == ("other=kept", False)


async def test_a_server_that_others_can_reach_needs_a_login_although_its_agents_do_not() -> None:
    security, _ = secured(is_optional=True)
    async with console_of(echo_agent(), security=security, is_loopback=False) as server:
        browser = await server.browser()
        assert browser.session["needs_login"]
        assert error_of(await browser.get("/console/api/stream")) == (401, "unauthenticated")
        assert (await browser.client.post("/", json=send("x", message_id="m"))).status_code == 200


async def test_a_session_survives_a_restart_and_its_file_reveals_nothing(tmp_path: Path) -> None:
    security, token = secured()
    store = f"sqlite:///{tmp_path / 'parley.db'}"
    async with console_of(echo_agent(), security=security, store=store) as server:
        browser = await server.browser()
        await browser.log_in_with(token)
        cookies, csrf = list(browser.client.cookies.items()), browser.csrf
    async with console_of(echo_agent(), security=security, store=store) as server:
        again = await server.browser(is_loaded=False)
        (name, value), port = cookies[0], httpx2.URL(server.url).port
        again.client.cookies.set(re.sub(r"\d+$", str(port), name), value)
        assert (await again.load())["caller"]["name"] == "ada"
        assert again.csrf == csrf
        assert (await again.post("/", send("hello", message_id="m-1"))).status_code == 200
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert token.encode() not in kept
    assert value.encode() not in kept
    assert csrf.encode() not in kept


def _secret_of(browser: Browser) -> SessionSecret:
    (value,) = browser.client.cookies.values()
    secret = SessionSecret.from_text(value)
    assert secret is not None
    return secret


# --- the records ------------------------------------------------------------------------------------------------------


async def new_sessions(clock: FakeClock | None = None) -> tuple[Sessions, MemoryStore]:
    store = MemoryStore()
    await store.open()
    return Sessions(store.records, clock or FakeClock()), store


async def test_a_record_is_worthless_without_the_cookie_and_one_that_was_changed_is_not_believed() -> None:
    sessions, store = await new_sessions()
    session = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    (record,) = await store.records.list(COLLECTION, "", limit=10)
    assert "secret-token" not in json.dumps(record.value)
    other = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    assert other.secret is not None
    await store.records.write(PutRecord(RecordKey(COLLECTION, "", other.id), record.value))  # somebody else's
    assert not (await sessions.find(other.secret)).content.credentials
    assert session.secret is not None
    assert (await sessions.find(session.secret)).content.credentials == LOGGED_IN


async def test_a_session_ends_when_it_is_not_used_and_after_a_week_at_the_latest() -> None:
    clock = FakeClock()
    sessions, store = await new_sessions(clock)
    idle = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    used = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    assert idle.secret is not None
    assert used.secret is not None
    hours = LONGEST_SECONDS // 3600
    for hour in range(hours):
        assert (await sessions.find(used.secret)).is_stored, hour
        await clock.advance(3600)
    assert not (await sessions.find(used.secret)).is_stored
    assert not (await sessions.find(idle.secret)).is_stored
    assert await store.records.count(COLLECTION, "") == 0
    assert IDLE_SECONDS > 3600 > TOUCH_SECONDS


async def test_changes_at_the_same_time_lose_nothing() -> None:
    sessions, _ = await new_sessions()
    session = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    assert session.secret is not None
    copies = [await sessions.find(session.secret) for _ in range(8)]

    def added(number: int) -> Callable[[list[int] | None], list[int]]:
        return lambda known: [*(known or []), number]

    await asyncio.gather(*[copy.update("numbers", list[int], added(n)) for n, copy in enumerate(copies)])
    found = (await sessions.find(session.secret)).get("numbers", list[int])
    assert sorted(found or []) == list(range(8))


async def test_a_session_that_was_ended_is_not_brought_back_by_a_late_change() -> None:
    sessions, store = await new_sessions()
    session = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    assert session.secret is not None
    late = await sessions.find(session.secret)
    await sessions.end(session)
    with pytest.raises(ConsoleError, match="The session has ended"):
        await late.put("agents", ["x"])
    assert await store.records.count(COLLECTION, "") == 0


async def test_a_session_holds_a_bounded_amount_and_there_are_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    sessions, store = await new_sessions(clock)
    session = await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    with pytest.raises(ConsoleError, match="may keep up to 256 KB"):
        await session.put("agents", "x" * MOST_BYTES)
    monkeypatch.setattr("parley.console.sessions.MOST_SESSIONS", 120)
    for _ in range(130):
        await clock.advance(1)
        await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN))
    assert await store.records.count(COLLECTION, "") == 120


async def test_a_caller_who_logs_in_without_end_ends_sessions_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.console.sessions.MOST_OF_CALLER", 3)
    clock = FakeClock()
    sessions, store = await new_sessions(clock)

    async def logged_in(caller: str) -> Session:
        await clock.advance(1)
        return await sessions.renew(sessions.begin(), SessionContent(LOGGED_IN, caller=caller))

    ada = await logged_in("ada")
    eves = [await logged_in("eve") for _ in range(5)]
    assert [await is_kept(sessions, one) for one in (ada, *eves)] == [True, False, False, True, True, True]
    await sessions.end(eves[4])  # which makes room
    eves.append(await logged_in("eve"))
    assert [await is_kept(sessions, one) for one in eves[2:]] == [True, True, False, True]
    for session in (ada, *eves):
        await sessions.end(session)
    assert (await store.records.list_all(BY_CALLER, limit=10), await store.records.count(COLLECTION, "")) == ([], 0)


async def is_kept(sessions: Sessions, session: Session) -> bool:
    assert session.secret is not None
    return (await sessions.find(session.secret)).is_stored


async def test_a_code_is_good_for_one_use_within_ten_minutes() -> None:
    clock, store = FakeClock(), MemoryStore()
    await store.open()
    links = OnceLinks(store.records, clock)
    code = await links.create("1")
    results = await asyncio.gather(*[links.use(code) for _ in range(5)], return_exceptions=True)
    assert [one for one in results if isinstance(one, str)] == ["1"]
    assert {type(one) for one in results if not isinstance(one, str)} == {ConsoleError}
    late = await links.create("1")
    await clock.advance(600)
    with pytest.raises(ConsoleError, match="older than ten minutes"):
        await links.use(late)
    for _ in range(150):
        await links.create("1")
    assert await store.records.count("console-links", "") <= 100
