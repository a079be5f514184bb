"""The console without a mouse: journeys with keys alone, where the focus always is, and what screen readers hear."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests_browser.chatting import composer, ended, log, open_chat, say
from tests_browser.servers import Server, send

FOCUS = """() => {
  const element = document.activeElement;
  if (element === document.body || element === null) return null;
  const hasRing = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const isShown = (style) => hasRing(style) || style.boxShadow !== "none";
  const around = element.parentElement.closest("form, dialog, div");
  const styles = [getComputedStyle(element), getComputedStyle(element, "::after"), getComputedStyle(around ?? element)];
  return {
    name: element.getAttribute("aria-label") ?? element.textContent.slice(0, 60),
    isVisible: styles.some(isShown) || element.matches("h1, main"),
  };
}"""
"""What has the focus. A ring may be drawn by the element, by a layer over its row, or by the box around a field."""


def focused(page: Page) -> dict:
    """What has the focus, and whether that is to be seen."""
    found = page.evaluate(FOCUS)
    assert found is not None, "nothing has the focus"
    return found


def tab_to(page: Page, target: Locator, most: int = 40) -> None:
    """Press Tab until an element has the focus; on the way it is never lost or invisible."""
    expect(target).to_be_visible()
    for _ in range(most):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            assert focused(page)["isVisible"]
            return
        found = page.evaluate(FOCUS)
        assert found is None or found["isVisible"], found  # None: the browser's own controls come between
    raise AssertionError(f"{most} tabs do not reach {target}")


def test_the_skip_link_is_first_and_leads_to_the_content(page: Page, served: Server) -> None:
    page.goto(served.console)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_pages_are_reached_with_keys_and_the_focus_is_on_their_heading(page: Page, served: Server) -> None:
    page.goto(served.console)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for keys, title in (("g t", "Tasks"), ("g a", "Agents"), ("g w", "Wire"), ("g h", "Welcome to Parley")):
        for key in keys.split():
            page.keyboard.press(key)
        heading = page.get_by_role("heading", level=1, name=title)
        expect(heading).to_be_focused()
    tab_to(page, page.get_by_role("link", name="Tasks", exact=True), 80)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Tasks")).to_be_focused()


def test_keys_without_ctrl_can_be_switched_off(page: Page, served: Server) -> None:
    page.goto(served.console)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Keys without Ctrl").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("?")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search, go to, do")).to_be_focused()
    expect(page.get_by_role("dialog", name="Shortcuts")).to_have_count(0)


def test_the_palette_finds_an_agent_and_gives_the_focus_back(page: Page, served: Server) -> None:
    page.goto(f"{served.console}tasks")
    field = page.get_by_role("textbox", name="Search messages").or_(page.get_by_role("searchbox")).first
    field.focus()
    page.keyboard.press("Control+k")
    palette = page.get_by_role("combobox", name="Search, go to, do")
    expect(palette).to_be_focused()
    page.keyboard.press("Escape")
    expect(field).to_be_focused()
    page.keyboard.press("Control+k")
    expect(palette).to_be_focused()
    page.keyboard.type("chat scripted")
    expect(page.get_by_role("option", name="Chat with Scripted")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(composer(page)).to_be_focused()


def test_a_form_is_filled_in_and_sent_with_keys(page: Page, served: Server) -> None:
    open_chat(page, served)
    page.keyboard.type("form")
    page.keyboard.press("Enter")
    city = log(page).get_by_label("City")
    expect(city).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        if city.evaluate("element => element === document.activeElement"):
            break
    expect(city).to_be_focused()
    page.keyboard.type("Rome")
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    tab_to(page, log(page).get_by_role("button", name="Send"))
    page.keyboard.press("Enter")
    expect(log(page)).to_contain_text("3 days in Rome.")
    assert focused(page)["name"]  # the form is gone, and the focus is not


def test_a_task_is_opened_scrubbed_and_its_tree_walked_with_keys(page: Page, served: Server) -> None:
    send(f"{served.url}/agents/scripted", "steps 5")
    page.goto(f"{served.console}tasks")
    expect(page.get_by_role("link", name="steps 5").first).to_be_visible()
    tab_to(page, page.get_by_role("link", name="steps 5").first, 60)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="steps 5")).to_be_focused()
    tab_to(page, page.get_by_role("tab", name="Task"), 60)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
    slider = page.get_by_role("slider", name="Task after event")
    tab_to(page, slider)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("2")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("2"))
    page.get_by_role("tab", name="Timeline").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Runs")).to_be_focused()
    row = page.get_by_role("treegrid", name="Runs").get_by_role("row").nth(1)
    tab_to(page, row)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("treegrid").get_by_role("row").nth(2)).to_be_focused()
    page.keyboard.press("ArrowLeft")  # to its parent
    expect(row).to_be_focused()
    page.keyboard.press("ArrowLeft")  # which folds
    expect(row).to_have_attribute("aria-expanded", "false")


def test_a_question_is_confirmed_with_keys_and_the_focus_comes_back(page: Page, served: Server) -> None:
    task = send(f"{served.url}/agents/scripted", "ask")
    page.goto(f"{served.console}tasks/scripted/{task['id']}")
    cancel = page.get_by_role("main").get_by_role("button", name="Cancel")
    tab_to(page, cancel, 60)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Cancel this task?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(cancel).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, dialog.get_by_role("button", name="Cancel the task"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_text("Canceled", exact=True).first).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()  # the button is gone, and the focus is not


def test_screen_readers_hear_a_streamed_reply_by_the_sentence(page: Page, served: Server) -> None:
    page.add_init_script("""
      window.heard = [];
      new MutationObserver(() => {
        for (const region of document.querySelectorAll("[role=status][aria-live=polite]")) {
          if (region.textContent && heard.at(-1) !== region.textContent) heard.push(region.textContent);
        }
      }).observe(document, { subtree: true, childList: true, characterData: true });
    """)
    open_chat(page, served)
    say(page, "sentences 4")
    ended(page)
    expect(log(page)).to_contain_text("This is sentence 3.")
    # A sentence may have to wait for the one before it.
    heard: list[str] = page.evaluate("""() => new Promise((done) => {
        const look = () => heard.some((text) => text.includes("sentence 3.")) ? done(heard) : setTimeout(look, 50);
        look();
    })""")
    spoken = [text for text in heard if "sentence" in text]
    assert " ".join(spoken).count("This is sentence") == 4  # each is heard, and once
    assert all(re.search(r"\.\s*$|\.\xa0$", text) for text in spoken), spoken  # and whole
    assert log(page).get_attribute("aria-live") == "off"  # or everything would be heard twice
