"""What a user does in a chat, for the tests that have one."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests_browser.servers import Server


def open_chat(page: Page, server: Server, agent: str = "scripted") -> None:
    """Open a new conversation with an agent of a server."""
    page.goto(f"{server.console}chat/{agent}")
    expect(composer(page)).to_be_focused()


def composer(page: Page) -> Locator:
    """Where the user writes: a message, or the answer to a question."""
    return page.get_by_role("textbox", name=re.compile("^(Message to|Your answer)"))


def log(page: Page) -> Locator:
    """The conversation."""
    return page.get_by_role("log", name="Conversation")


def say(page: Page, text: str) -> None:
    """Send a message with the keyboard."""
    composer(page).fill(text)
    composer(page).press("Enter")
    expect(composer(page)).to_have_value("")


def ended(page: Page, state: str = "Completed") -> None:
    """Wait until the newest reply has ended."""
    expect(log(page).get_by_role("article").last.locator("footer").get_by_text(state, exact=True)).to_be_visible()


def count_text(last: int) -> str:
    """What the scripted agent replies to `count`."""
    return "".join(f"{number} " for number in range(last)).strip()


def copied(page: Page) -> str:
    """What the page has copied last: pages of the console may not read the clipboard, so it is pasted into a field."""
    other = page.context.new_page()
    other.set_content("<textarea></textarea>")
    other.get_by_role("textbox").focus()
    other.keyboard.press("Control+V")
    text = other.get_by_role("textbox").input_value()
    other.close()
    return text
