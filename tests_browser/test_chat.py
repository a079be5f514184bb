"""Chat in a browser: streamed replies, Markdown, files, data, questions, forms, cancel, and what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests_browser.chatting import copied, count_text, ended, log, open_chat, say
from tests_browser.servers import Server, send


def test_a_reply_is_streamed_and_the_link_of_its_conversation_shows_it_again(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "gated 60 30 streamed")
    expect(log(page)).to_contain_text("0 1 2 3")
    expect(log(page)).to_contain_text("27 28 29")
    expect(log(page)).not_to_contain_text("30 31")
    send(f"{served.url}/agents/scripted", "open streamed")
    expect(log(page)).to_contain_text("57 58 59")
    ended(page)
    link = page.url
    page.goto(served.console)
    page.goto(link)
    expect(log(page)).to_contain_text("57 58 59")


def test_a_page_that_is_loaded_again_in_the_middle_of_a_stream_goes_on_with_it(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "gated 100 50 loaded-again")
    expect(log(page)).to_contain_text("47 48 49")
    page.reload()
    expect(log(page)).to_contain_text("47 48 49")
    expect(log(page)).not_to_contain_text("50 51")
    send(f"{served.url}/agents/scripted", "open loaded-again")
    ended(page)
    expect(log(page)).to_contain_text(count_text(100))
    expect(log(page).get_by_role("article")).to_have_count(1)


NOTE_ADDRESS_WHEN_SHOWN = """text => {
  const log = document.querySelector("[role=log]");
  const look = () => { if (log.textContent.includes(text)) window.addressWhenShown ??= location.pathname; };
  new MutationObserver(look).observe(log, {subtree: true, childList: true, characterData: true});
}"""


def test_the_address_of_a_conversation_is_there_before_its_reply_is_shown(page: Page, served: Server) -> None:
    """Otherwise a page that is loaded again at that moment shows an empty conversation."""
    open_chat(page, served)
    page.evaluate(NOTE_ADDRESS_WHEN_SHOWN, "You said: say hello")
    say(page, "say hello")
    ended(page)
    assert page.evaluate("window.addressWhenShown").startswith("/console/chat/scripted/")


def test_several_conversations_are_kept_apart_and_each_is_a_click_away(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "say the first")
    ended(page)
    page.get_by_role("button", name="New conversation").click()
    say(page, "say the second")
    ended(page)
    expect(log(page)).not_to_contain_text("the first")
    conversations = page.get_by_role("navigation", name="Conversations")
    conversations.get_by_role("link", name="say the first").click()
    expect(log(page)).to_contain_text("You said: say the first")
    expect(log(page)).not_to_contain_text("the second")
    say(page, "say the third")
    ended(page)
    expect(log(page).get_by_role("article")).to_have_count(2)


def test_markdown_is_rendered_with_tables_links_and_highlighted_code_to_copy(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "markdown")
    expect(log(page).get_by_role("heading", name="A plan")).to_be_visible()
    expect(log(page).get_by_role("cell", name="Vatican")).to_be_visible()
    link = log(page).get_by_role("link", name="link")
    expect(link).to_have_attribute("href", "https://example.com/page")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(log(page).locator("pre code [class*=keyword]").first).to_be_visible()
    log(page).get_by_role("button", name="Copy", exact=True).click()
    expect(log(page).get_by_role("button", name="Copied")).to_be_visible()
    assert copied(page).strip() == "def answer() -> int:\n    return 42"
    expect(log(page).get_by_role("button", name="Copied")).to_have_count(0)
    log(page).get_by_role("button", name="Copy the reply").click()
    expect(log(page).get_by_role("button", name="Copied")).to_be_visible()
    assert copied(page).startswith("# A plan")


def test_a_question_is_answered_in_place(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "ask")
    expect(log(page).get_by_role("region", name="The agent asks")).to_contain_text("Which city?")
    ended(page, "Needs input")
    say(page, "Oslo")
    expect(log(page)).to_contain_text("You said Oslo.")
    ended(page)
    expect(log(page).get_by_role("article")).to_have_count(1)  # one task


def test_a_form_names_what_is_wrong_and_is_sent_when_it_is_right(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "form")
    form = log(page).locator("form")
    form.get_by_label("City").fill("R")
    form.get_by_label("Days").fill("90")
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_label("City")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("Days")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("City").fill("Rome")
    form.get_by_label("Days").fill("3")
    form.get_by_label("Class").select_option("first")
    form.get_by_role("button", name="Send").click()
    expect(log(page)).to_contain_text("3 days in Rome.")


def test_a_permission_from_elsewhere_is_asked_for_with_its_address_and_the_run_goes_on(
    page: Page, served: Server
) -> None:
    open_chat(page, served)
    say(page, "auth")
    asked = log(page).get_by_role("region", name="The agent needs a permission")
    ended(page, "Needs login")
    opened = asked.get_by_role("link", name="Open login.example.com")
    expect(opened).to_have_attribute("href", "https://login.example.com/start")
    expect(opened).to_have_attribute("target", "_blank")
    asked.get_by_role("button", name="I have done this: continue").click()
    expect(log(page)).to_contain_text("Got 17 characters.")


EVERYTHING_KEPT = (
    "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, history.state, location.href])"
)


def test_a_credential_is_given_once_and_the_page_keeps_it_nowhere(page: Page, served: Server) -> None:
    credential = "k3y-of-the-calendar"
    open_chat(page, served)
    say(page, "key")
    asked = log(page).get_by_role("region", name="The agent needs a permission")
    ended(page, "Needs login")
    expect(asked.get_by_role("link", name="Open keys.example.com")).to_be_visible()
    expect(asked.get_by_role("button", name="I have done this")).to_have_count(0)
    field = asked.get_by_label("Credential (ApiKey)")
    expect(field).to_have_attribute("type", "password")
    expect(field).to_have_attribute("autocomplete", "off")
    field.fill(credential)
    field.press("Enter")
    expect(log(page)).to_contain_text("Got a key of 19 characters.")
    ended(page)
    expect(log(page)).to_contain_text("Authorized.")
    assert credential not in page.content() + page.evaluate(EVERYTHING_KEPT)
    page.reload()
    expect(log(page)).to_contain_text("Got a key of 19 characters.")
    assert credential not in page.content()
    log(page).get_by_role("link", name="Task", exact=True).click()
    page.get_by_role("tab", name="Timeline").click()
    expect(page.get_by_role("main")).to_contain_text("user: ********")
    assert credential not in page.content()


def test_a_credential_that_did_not_arrive_is_asked_for_again(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "key")
    ended(page, "Needs login")
    asked = log(page).get_by_role("region", name="The agent needs a permission")
    asked.get_by_label("Credential (ApiKey)").fill("k3y " * 5_000)  # longer than a credential may be
    asked.get_by_role("button", name="Send").click()
    expect(log(page).get_by_role("alert")).to_contain_text("The answer was not taken: ")
    expect(asked.get_by_label("Credential (ApiKey)")).to_have_value("")
    assert "k3y" not in page.content()
    asked.get_by_label("Credential (ApiKey)").fill("k3y")
    asked.get_by_role("button", name="Send").click()
    expect(log(page)).to_contain_text("Got a key of 3 characters.")


def test_files_go_up_by_the_picker_and_by_drag_and_drop_and_come_down(
    page: Page, served: Server, tmp_path: Path
) -> None:
    open_chat(page, served)
    upload = tmp_path / "plan.txt"
    upload.write_text("Day 1: the Forum.")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add files").click()
    chooser.value.set_files(upload)
    files = page.get_by_role("list", name="Files of this message")
    expect(files).to_contain_text("plan.txt")
    dropped = page.evaluate_handle(
        """() => {
            const dropped = new DataTransfer();
            dropped.items.add(new File(["1,2,3"], "table.csv", {type: "text/csv"}));
            return dropped;
        }"""
    )
    page.get_by_role("region", name="Conversation with Scripted").dispatch_event("drop", {"dataTransfer": dropped})
    expect(files.get_by_role("listitem")).to_have_count(2)
    say(page, "received")
    expect(log(page)).to_contain_text("Received plan.txt (17 bytes), table.csv (5 bytes).")

    say(page, "files")
    picture = log(page).get_by_role("img", name="pixel.png")
    expect(picture).to_be_visible()
    assert (picture.get_attribute("src") or "").startswith("blob:")
    notes = log(page).locator(".file", has_text="notes.txt")
    with page.expect_download() as download:
        notes.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename == "notes.txt"
    assert download.value.path().read_text() == "Some notes."


def test_data_is_a_table_where_it_is_one_and_a_tree(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "table")
    expect(log(page).get_by_role("cell", name="Oslo")).to_be_visible()
    log(page).get_by_role("button", name="Tree", exact=True).click()
    expect(log(page).get_by_role("cell")).to_have_count(0)
    items = log(page).get_by_role("tree").get_by_role("treeitem")
    expect(items).to_have_count(4)
    items.filter(has_text="1: {2 members}").click()
    shown = ["▾{1 member}", "▾rows: [2 items]", "▸0: {2 members}", "▾1: {2 members}", 'city: "Oslo"', "days: 2"]
    expect(items).to_have_text(shown)
    items.filter(has_text="rows: [2 items]").click()
    expect(items).to_have_count(2)


def test_a_run_is_canceled_and_tried_again(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "wait 60")
    expect(log(page)).to_contain_text("Waiting…")
    log(page).get_by_role("button", name="Cancel").click()
    ended(page, "Canceled")
    log(page).get_by_role("button", name="Try again").click()
    expect(log(page).get_by_role("article")).to_have_count(2)
    ended(page, "Working")
    page.locator("form.composer").get_by_role("button", name="Cancel").click()
    ended(page, "Canceled")


def test_a_failed_reply_says_so_at_once_and_leads_to_the_reason(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "fail")
    ended(page, "Failed")
    expect(log(page).get_by_role("group", name="Failed")).to_contain_text("The agent failed.")
    log(page).get_by_role("link", name="What happened, event by event").click()
    expect(page.get_by_role("main")).to_contain_text("ValueError: The rate service is closed on Sundays.")


@pytest.mark.parametrize("message", ["html", "svg", "data", "form"])
def test_nothing_that_a_hostile_agent_sends_runs_or_loads(page: Page, served: Server, message: str) -> None:
    foreign: list[str] = []
    page.on("request", lambda request: foreign.append(request.url) if "attacker" in request.url else None)
    open_chat(page, served, "hostile")
    say(page, message)
    ended(page, "Needs input" if message == "form" else "Completed")
    page.wait_for_timeout(300)
    assert page.evaluate("window.attacked") is None
    assert foreign == []
    assert page.locator("[role=log] script, [role=log] iframe, [role=log] [onerror], [role=log] [onload]").count() == 0
    assert page.locator("[role=log] a[href^=javascript], [role=log] a[href^=data]").count() == 0
    page.get_by_role("link", name="Agents", exact=True).click()  # the page is still usable
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()


def test_a_file_of_50_megabytes_is_offered_and_not_drawn(page: Page, served: Server) -> None:
    open_chat(page, served)
    say(page, "big 50000000")
    ended(page)
    expect(log(page)).to_contain_text("big.bin")
    say(page, "say still there")
    expect(log(page)).to_contain_text("You said: say still there")
