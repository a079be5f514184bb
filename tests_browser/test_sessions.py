"""Logging in and out in a browser, at a host and at a server with tokens, and sessions that are refused or survive."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from parley.server.security.auth_file import new_token
from tests_browser.chatting import composer, count_text, ended, log, open_chat, say
from tests_browser.conftest import ADMIN_TOKEN
from tests_browser.hosts import log_in, native, new_tenant, try_token
from tests_browser.servers import Server, serve_command, serving


def test_the_printed_link_leads_to_a_streamed_answer_with_one_click_and_works_once(
    open_page: Callable[..., Page], host: Server
) -> None:
    link, page = host.link, open_page()
    page.goto(link)
    page.get_by_role("link", name="5 miles in km and 100 USD in EUR").click()
    ended(page)
    expect(log(page)).to_contain_text("8.04672")
    assert "once" not in page.url
    assert ADMIN_TOKEN not in page.url

    other = open_page()
    other.goto(link)
    expect(other.get_by_role("alert").filter(has_text="The link did not log you in")).to_be_visible()
    expect(other.get_by_label("Token")).to_be_visible()
    assert "once" not in other.url


def test_a_wrong_token_is_refused_and_logging_out_asks_for_one_again(page: Page, host: Server) -> None:
    page.goto(host.console)
    try_token(page, "not-a-token")
    expect(page.get_by_role("main").get_by_role("alert")).to_have_text("The server does not accept these credentials")
    log_in(page, ADMIN_TOKEN)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_a_tenant_that_is_disabled_in_the_middle_of_a_session_is_refused_at_once(page: Page, host: Server) -> None:
    tenant = new_tenant(host, "Short")
    page.goto(host.console)
    log_in(page, tenant["token"])
    open_chat(page, host, "units")
    say(page, "5 miles in km")
    ended(page)
    native(host, "PATCH", f"/admin/tenants/{tenant['id']}", {"disabled": True})
    say(page, "6 miles in km")
    expect(page.get_by_label("Token")).to_be_visible()


def test_what_one_tenant_has_said_is_not_there_for_the_next_who_logs_in_on_the_same_page(
    page: Page, host: Server
) -> None:
    first, following = new_tenant(host, "First"), new_tenant(host, "Following")
    page.goto(host.console)
    log_in(page, first["token"])
    open_chat(page, host, "units")
    say(page, "17 miles in km")
    ended(page)
    conversations = page.get_by_role("navigation", name="Conversations")
    expect(conversations.get_by_role("link", name="17 miles in km")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    log_in(page, following["token"])
    expect(composer(page)).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("17 miles in km")
    say(page, "18 miles in km")
    ended(page)
    expect(page.get_by_role("main")).not_to_contain_text("17 miles in km")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """`parley serve` that wants a token, and the token."""
    folder = tmp_path_factory.mktemp("guarded")
    token, entry = new_token("ada")
    (folder / "auth.toml").write_text(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    with serving(folder, *serve_command(folder, "scripted", options=["--auth", "auth.toml"])) as server:
        yield server, token


def test_a_server_that_is_killed_in_the_middle_of_a_reply_costs_neither_the_login_nor_a_word(
    page: Page, guarded: tuple[Server, str]
) -> None:
    server, token = guarded
    page.goto(server.console)
    log_in(page, token)
    open_chat(page, server)
    say(page, "say before")
    ended(page)
    say(page, "count 150 0.03")
    reply = log(page).get_by_role("article").last
    expect(reply).to_contain_text("18 19 20")
    server.kill()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    server.start()
    expect(page.get_by_text("Connection lost")).to_be_hidden()
    ended(page)
    assert reply.locator(".artifact").inner_text().strip() == count_text(150)
    expect(log(page).get_by_role("article")).to_have_count(2)
    expect(reply.get_by_text("count 150 0.03", exact=True)).to_have_count(1)
    say(page, "say after")
    ended(page)
    expect(composer(page)).to_be_focused()


def test_an_answer_that_a_dying_server_did_not_read_arrives_after_its_restart(
    page: Page, guarded: tuple[Server, str]
) -> None:
    server, token = guarded
    page.goto(server.console)
    log_in(page, token)
    open_chat(page, server)
    say(page, "ask")
    ended(page, "Needs input")
    server.freeze()
    say(page, "Oslo")
    server.kill()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    server.start()
    expect(log(page)).to_contain_text("You said Oslo.")
    ended(page)
    expect(log(page).get_by_text("Oslo", exact=True)).to_have_count(1)


def test_the_card_of_an_own_agent_names_what_it_declares_and_has_no_login_of_its_own(
    open_page: Callable[..., Page], served: Server, guarded: tuple[Server, str]
) -> None:
    page = open_page()
    page.goto(f"{served.console}agents/scripted")
    expect(page.get_by_role("main")).to_contain_text("The card declares no security scheme")
    expect(page.get_by_text("Log in", exact=False)).to_have_count(0)

    server, token = guarded
    page = open_page()
    page.goto(f"{server.console}agents/scripted")
    log_in(page, token)
    main = page.get_by_role("main")
    expect(main.get_by_role("heading", name="Security")).to_be_visible()
    expect(main).to_contain_text("bearer")
    expect(main.get_by_text("Log out")).to_have_count(0)


def test_no_secret_is_in_an_address_or_in_the_storage_of_the_browser(page: Page, guarded: tuple[Server, str]) -> None:
    server, token = guarded
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(server.console)
    log_in(page, token)
    open_chat(page, server)
    say(page, "say hello")
    ended(page)
    (cookie,) = page.context.cookies()
    csrf = page.evaluate("fetch('/console/api/session').then((reply) => reply.json())")["csrf"]
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}]) + document.cookie")
    for secret in (token, cookie["value"], csrf):
        assert secret not in stored
        assert not any(secret in address for address in addresses)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
