"""The wire of a server in a browser: lines as they come, filters, pause, and what a line holds."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests_browser.chatting import ended, say
from tests_browser.servers import Server, send


def lines(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Lines").get_by_role("option")


def open_wire(page: Page, server: Server) -> None:
    """Open the wire, and wait until the server records, which the page says."""
    page.goto(f"{server.console}wire")
    expect(page.get_by_text("Nothing has passed yet")).to_be_visible()


def test_requests_and_replies_appear_as_they_come_and_can_be_read(page: Page, served: Server) -> None:
    open_wire(page, served)
    send(f"{served.url}/agents/scripted", "say over the wire")
    request = lines(page).filter(has_text="caller → server").filter(has_text="SendMessage")
    expect(request.first).to_be_visible()
    expect(lines(page).filter(has_text="server → caller").first).to_be_visible()
    request.first.click()
    chosen = page.get_by_role("region", name="The selected line")
    chosen.get_by_role("button", name="JSON").click()
    expect(chosen).to_contain_text('"text": "say over the wire"')


def test_filters_are_in_the_address_and_a_pause_loses_nothing(page: Page, served: Server) -> None:
    open_wire(page, served)
    agent = f"{served.url}/agents/scripted"
    send(agent, "say first")
    expect(lines(page).filter(has_text="server → caller").first).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    before = lines(page).count()
    send(agent, "say second")
    expect(page.get_by_text(re.compile("Paused: [1-9].* new lines? wait"))).to_be_visible()
    assert lines(page).count() == before
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("searchbox", name="Text").fill("say second")
    expect(page).to_have_url(re.compile("text=say"))
    expect(lines(page).filter(has_text="say first")).to_have_count(0)
    expect(lines(page).first).to_be_visible()
    assert lines(page).count() < before + 4
    page.get_by_role("button", name="Remove filters").click()
    page.get_by_role("combobox", name="Direction").select_option("server → caller")
    expect(lines(page).filter(has_text="caller → server")).to_have_count(0)
    expect(lines(page).filter(has_text="server → caller").first).to_be_visible()


def test_the_message_that_an_empty_wire_suggests_appears_on_it(page: Page, served: Server) -> None:
    open_wire(page, served)
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Send a message").click()
    chat = opened.value
    chat.get_by_role("main").get_by_role("link", name="Scripted").click()
    say(chat, "say seen from the wire")
    ended(chat)
    expect(lines(page).filter(has_text="SendStreamingMessage").first).to_be_visible()
