"""Attacks in a browser: pages of other origins, frames, hostile names, and a console that is off."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, expect

from parley.server.security.auth_file import new_token
from tests_browser.chatting import ended, log, open_chat, say
from tests_browser.hosts import log_in
from tests_browser.servers import Server, serve_command, serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """`parley serve` that wants a token, and the token."""
    folder = tmp_path_factory.mktemp("guarded")
    token, entry = new_token("ada")
    (folder / "auth.toml").write_text(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    with serving(folder, *serve_command(folder, options=["--auth", "auth.toml"])) as server:
        yield server, token


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Elsewhere</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def other_origin() -> Iterator[str]:
    """A page on another port: of the same site, so that the browser sends the cookie there."""
    with HTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


CALL = """async ([url, method, body, headers]) => {
    try {
        const reply = await fetch(url, {method, body, headers, credentials: "include"});
        return [reply.status, await reply.text()];
    } catch (error) {
        return ["blocked", ""];
    }
}"""

SEND = (
    '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":'
    '{"messageId":"forged","role":"ROLE_USER","parts":[{"text":"say forged"}]}}}'
)


def test_a_page_of_another_origin_gets_nothing_with_the_cookie(browser: Browser, guarded: tuple[Server, str]) -> None:
    server, token = guarded
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.console)
    log_in(page, token)
    csrf = page.evaluate("fetch('/console/api/session').then((reply) => reply.json())")["csrf"]
    with other_origin() as url:
        attacker = context.new_page()
        attacker.goto(url)
        api, agent = f"{server.console}api", f"{server.url}/agents/scripted"
        text, json = {"content-type": "text/plain"}, {"content-type": "application/json", "a2a-version": "1.0"}
        for request in (
            (f"{api}/session", "GET", None, {}),
            (f"{api}/tasks", "GET", None, {}),
            (f"{api}/tasks", "GET", None, {"x-parley-csrf": csrf}),
            (f"{api}/session/logout", "POST", "{}", text),
            (f"{api}/session/logout", "POST", "{}", {**json, "x-parley-csrf": csrf}),
            (agent, "POST", SEND, text),
            (agent, "POST", SEND, {**json, "x-parley-csrf": csrf}),
        ):
            status, _ = attacker.evaluate(CALL, list(request))
            assert status == "blocked", request
        # Submitting returns before the browser leaves the page, and that navigation would abort the next.
        with attacker.expect_navigation():
            attacker.evaluate(
                """([url, body]) => {
                    const form = document.createElement("form");
                    Object.assign(form, {method: "post", action: url, enctype: "text/plain"});
                    form.append(Object.assign(document.createElement("input"), {name: body.slice(0, -1), value: "}"}));
                    document.body.append(form);
                    form.submit();
                }""",
                [agent, SEND],
            )
        attacker.goto(url)
        attacker.evaluate(
            "(url) => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))", server.console
        )
        attacker.wait_for_timeout(500)
        assert all("Parley" not in frame.content() for frame in attacker.frames[1:])
    page.reload()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    page.goto(f"{server.console}tasks")
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("say forged")
    context.close()


def test_the_cookie_counts_for_nothing_without_the_token_of_the_session(
    page: Page, guarded: tuple[Server, str]
) -> None:
    server, token = guarded
    page.goto(server.console)
    log_in(page, token)
    status, _ = page.evaluate(CALL, [f"{server.console}api/tasks", "GET", None, {}])
    assert status == 401
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    status, _ = page.evaluate(CALL, [f"{server.url}/agents/scripted", "POST", SEND, headers])
    assert status == 401


def test_names_of_a_hostile_agent_are_text_wherever_they_are_shown(page: Page, served: Server) -> None:
    foreign: list[str] = []
    page.on("request", lambda request: foreign.append(request.url) if "attacker" in request.url else None)
    open_chat(page, served, "hostile")
    say(page, "<img src=x onerror='window.attacked = 8'>\u202egnp")
    ended(page)
    log(page).locator("footer").get_by_role("link", name="Task").click()
    expect(page.get_by_role("tab", name="Timeline")).to_be_visible()
    visited = [
        page.url,
        *(f"{served.console}{path}" for path in ("", "agents", "agents/hostile", "tasks", "chat", "check")),
    ]
    for address in (*visited, f"{page.url}?view=timeline", f"{page.url}?view=tree", f"{page.url}?view=request"):
        page.goto(address)
        expect(page.get_by_role("main").get_by_role("heading").first).to_be_visible()
        page.wait_for_timeout(150)
        assert page.evaluate("window.attacked") is None, address
        assert page.locator("main script, main iframe, main [onerror], main [onload], main img[src=x]").count() == 0
        assert "\u202e" not in page.locator("body").inner_text(), address
        assert "\u202e" not in page.title(), address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    page.keyboard.press("ControlOrMeta+k")
    page.get_by_role("combobox", name="Search, go to, do").fill("hostile")
    expect(page.get_by_role("option", name="Hostile <b>agent</b>").first).to_be_visible()
    page.get_by_role("combobox", name="Search, go to, do").fill("img src")
    page.wait_for_timeout(500)
    assert page.evaluate("window.attacked") is None
    assert foreign == []


def test_the_policy_of_the_page_lets_nothing_else_run(browser: Browser, served: Server) -> None:
    page = browser.new_page()  # which may log that it refused something
    page.goto(served.console)
    reply = page.request.get(served.console)
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None
    # The browser reports what it has refused a moment after the request has failed.
    refused = page.evaluate("""new Promise((resolve) => {
        addEventListener("securitypolicyviolation", (event) => resolve(event.blockedURI));
        setTimeout(resolve, 20_000);
        fetch("https://attacker.invalid/").catch(() => 0);
    })""")
    assert refused == "https://attacker.invalid/"
    page.context.close()


def test_a_console_that_is_off_is_not_there(tmp_path: Path) -> None:
    with serving(tmp_path, *serve_command(tmp_path, options=["--console", "off"])) as server:
        for path in ("", "api/session", "assets/index.js"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(server.console + path, timeout=10)
            with refused.value as reply:
                assert reply.code == 404
