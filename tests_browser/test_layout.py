"""Every page at 320 pixels, which is also 1,280 pixels at a zoom of 400 %, and at 640: nothing is cut off."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests_browser.chatting import open_chat, say
from tests_browser.servers import Server, send
from tests_browser.test_accessibility import views_of_host, views_of_served
from tests_browser.tour import View

__all__ = ["views_of_host", "views_of_served"]

WIDE = """() => {
  const own = ".table-scroll, pre, .data-tree, .data-table, .md-table-scroll, .tree-grid";
  const endsWithDots = (element) =>
    element && (getComputedStyle(element).textOverflow === "ellipsis" || endsWithDots(element.parentElement));
  const isCut = (element) => {
    const style = getComputedStyle(element);
    if (style.position === "absolute" || style.clipPath !== "none") return true;
    return endsWithDots(element.parentElement) || element.closest(".visually-hidden, svg");
  };
  const found = [];
  for (const element of document.querySelectorAll("body, body *")) {
    if (element.closest(own) && !element.matches(own)) continue;
    const { left, right, width } = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    const name = `${element.tagName.toLowerCase()}.${element.className}`;
    const isOutside = right > innerWidth + 1 || left < -1;
    if (width && isOutside && !isCut(element)) found.push(`${name} ends at ${Math.round(right)}`);
    const mayScroll = ["auto", "scroll"].includes(style.overflowX) && !element.matches(own);
    if (mayScroll && element.scrollWidth > element.clientWidth + 1) found.push(`${name} scrolls`);
  }
  const hidden = [...document.querySelectorAll("button, a, input, select, textarea, h1, h2")].filter((element) => {
    if (element.closest(own) || isCut(element) || !element.checkVisibility()) return false;
    const { width, height } = element.getBoundingClientRect();
    return width < 1 || height < 1;
  });
  return [...found, ...hidden.map((element) => `${element.outerHTML.slice(0, 80)} has no size`)].slice(0, 5);
}"""
"""Elements wider than the screen. Texts may be cut where dots say so, in lists that link to the whole. Code,
tables and trees of data may scroll by themselves, as WCAG 1.4.10 allows."""


def wide_views(views: dict[str, View], open_page: Callable[..., Page], **options: object) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, open_view in views.items():
        page = open_page(**options)
        open_view(page)
        if elements := page.evaluate(WIDE):
            found[name] = elements
        page.context.close()
    return found


NARROW: dict[str, object] = {"viewport": {"width": 320, "height": 640}}
ZOOMED: dict[str, object] = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}


@pytest.mark.parametrize("options", [NARROW, ZOOMED], ids=["320 pixels", "200 percent"])
def test_no_page_of_a_server_scrolls_sideways(
    views_of_served: dict[str, View], open_page: Callable[..., Page], options: dict[str, object]
) -> None:
    assert wide_views(views_of_served, open_page, **options) == {}


@pytest.mark.parametrize("options", [NARROW, ZOOMED], ids=["320 pixels", "200 percent"])
def test_no_page_of_a_host_scrolls_sideways(
    views_of_host: dict[str, View], open_page: Callable[..., Page], options: dict[str, object]
) -> None:
    assert wide_views(views_of_host, open_page, **options) == {}


def test_all_that_a_page_does_can_be_reached_on_a_small_screen(open_page: Callable[..., Page], served: Server) -> None:
    page = open_page(viewport={"width": 320, "height": 480})
    page.goto(f"{served.console}tasks")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Chat", exact=True).click()
    page.get_by_role("link", name="Scripted").first.click()
    say(page, "say hello")
    expect(page.get_by_role("log")).to_contain_text("You said: say hello")
    page.get_by_role("link", name="Task", exact=True).click()
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    expect(
        page.get_by_role("option", selected=True).or_(page.locator("[aria-selected=true][role=row]"))
    ).to_be_visible()


def test_a_line_of_a_full_wire_is_read_on_a_small_screen(open_page: Callable[..., Page], served: Server) -> None:
    page = open_page(viewport={"width": 320, "height": 640})
    page.goto(f"{served.console}wire")
    expect(page.get_by_text("Nothing has passed yet")).to_be_visible()
    for number in range(15):
        send(f"{served.url}/agents/scripted", f"say {number}")
    page.get_by_role("listbox", name="Lines").get_by_role("option").nth(5).click()
    page.get_by_role("heading", name="Wire").hover()
    page.mouse.wheel(0, 2000)  # not over the list, which would scroll instead
    expect(page.get_by_role("region", name="The selected line").get_by_role("heading").first).to_be_in_viewport()


def test_what_an_empty_conversation_says_is_read_from_its_start(open_page: Callable[..., Page], served: Server) -> None:
    page = open_page(viewport={"width": 320, "height": 640})
    open_chat(page, served, "hostile")
    expect(page.get_by_role("log").get_by_text("Say something to Hostile")).to_be_in_viewport()


def test_a_form_that_is_longer_than_the_screen_is_read_from_its_question(
    open_page: Callable[..., Page], served: Server
) -> None:
    page = open_page(viewport={"width": 320, "height": 480})
    open_chat(page, served)
    say(page, "form")
    form = page.get_by_role("region", name="The agent asks")
    expect(form.get_by_text("Where to?")).to_be_in_viewport()
    page.get_by_role("button", name="To the end").click()
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("alert").or_(form.locator(".field-error")).first).to_be_visible()
    form.get_by_role("textbox", name="City").fill("Rome")
    form.get_by_label("Days").fill("3")
    form.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log").get_by_text("3 days in Rome.")).to_be_in_viewport()


@pytest.mark.parametrize("width", [320, 1280])
def test_a_message_at_the_edge_of_the_page_does_not_cover_where_one_writes(
    open_page: Callable[..., Page], served: Server, width: int
) -> None:
    page = open_page(viewport={"width": width, "height": 640})
    open_chat(page, served)
    files = [{"name": f"{number}.txt", "mimeType": "text/plain", "buffer": b"x"} for number in range(21)]
    page.locator("input[type=file]").set_input_files(files)  # one more than a message takes
    page.get_by_role("button", name=re.compile("^Remove")).first.wait_for()
    expect(page.locator(".toast")).to_contain_text("Not added")
    message, writing = page.locator(".toast").bounding_box(), page.get_by_role("button", name="Send").bounding_box()
    assert message is not None
    assert writing is not None
    assert message["y"] + message["height"] <= writing["y"]


def test_why_a_task_failed_has_the_width_of_a_small_screen(open_page: Callable[..., Page], served: Server) -> None:
    page = open_page(viewport={"width": 320, "height": 640})
    task = send(f"{served.url}/agents/scripted", "fail")["id"]
    page.goto(f"{served.console}tasks/scripted/{task}")
    reason = page.locator(".task-reason .problem-text")
    expect(reason).to_contain_text("closed on Sundays")
    assert reason.evaluate("element => element.clientWidth") > 200


def test_nothing_moves_for_people_who_want_no_motion(open_page: Callable[..., Page], served: Server) -> None:
    page = open_page(reduced_motion="reduce")
    open_chat(page, served)
    say(page, "count 200")
    expect(page.get_by_role("log")).to_contain_text("0 1 2")
    running = "() => document.getAnimations().filter((each) => each.effect.getComputedTiming().endTime > 50).length"
    assert page.evaluate(running) == 0
