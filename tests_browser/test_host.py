"""A host in a browser: runs as a tree, approvals, and what operators and tenants manage there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests_browser.chatting import copied, ended, log, open_chat, say
from tests_browser.conftest import ADMIN_TOKEN
from tests_browser.hosts import log_in, native, new_tenant
from tests_browser.servers import Server, send

ORCHESTRATION = "5 miles in km and 100 USD in EUR, then write that to notes.md"

SCRIBE = {
    "id": "scribe",
    "name": "Scribe",
    "role": "writer",
    "goal": "Keeps notes for customers.",
    "model": "parley/drafts",
    "approvals": [{"on": "command", "match": ["write"], "message": "Customers read these notes."}],
}


@pytest.fixture(scope="module")
def tenant(host: Server) -> dict[str, Any]:
    """A tenant with an agent whose writing needs an approval."""
    made = new_tenant(host, "Acme")
    native(host, "POST", "/agents", SCRIBE, token=made["token"])
    return made


def enter(page: Page, host: Server, token: str) -> None:
    """Open the console and log in."""
    page.goto(host.console)
    log_in(page, token)


def confirmed(page: Page, action: str) -> None:
    """Agree to what a dialog asks."""
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def row_of(page: Page, table: str, text: str) -> Locator:
    """A row of a table."""
    return page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def test_an_orchestration_is_a_waterfall_of_sub_agents_steps_and_tokens(
    page: Page, host: Server, tenant: dict[str, Any]
) -> None:
    enter(page, host, tenant["token"])
    open_chat(page, host, "index")
    say(page, ORCHESTRATION)
    ended(page)
    log(page).locator("footer").get_by_role("link", name="Task").click()
    page.get_by_role("tab", name="Runs").click()
    tree = page.get_by_role("treegrid")
    for node in ("task index", "delegate units", "task Unit converter", "model parley/currency", "tool write:notes.md"):
        expect(tree.get_by_role("row", name=f"{node} completed").first).to_be_visible()
    expect(tree.locator(".tree-bar").first).to_be_visible()
    expect(page.locator(".tree-sums")).to_contain_text(re.compile(r"[\d,]+ \+ [\d,]+ tokens"))
    node = tree.get_by_role("row", name=re.compile("^task Unit converter")).first
    node.click()
    page.get_by_role("region", name="Chosen node").get_by_role("link", name="Open the task").click()
    expect(page).to_have_url(re.compile("/tasks/units/"))


def test_an_approval_waits_in_the_tree_and_in_the_inbox_and_the_run_goes_on_when_it_is_given(
    page: Page, host: Server, tenant: dict[str, Any]
) -> None:
    token = tenant["token"]
    enter(page, host, token)
    waiting = page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile("Approvals"))
    task = send(f"{host.url}/v1/a2a/agents/scribe", 'write "hello" to a.md', token=token)["id"]
    expect(waiting).to_contain_text("1 waiting")
    page.goto(f"{host.console}tasks/scribe/{task}?view=tree")
    tree = page.get_by_role("treegrid")
    expect(tree).to_contain_text("needs approval")
    before = tree.get_by_role("row").count()
    other = page.context.new_page()
    other.goto(f"{host.console}approvals")
    card = other.get_by_role("article").filter(has_text="a.md")
    expect(card).to_contain_text("Waiting")
    card.get_by_role("textbox", name="Comment").fill("Fine for customers.")
    card.get_by_role("button", name="Approve…").click()
    confirmed(other, "Approve")
    expect(card).to_have_count(0)
    expect(waiting).not_to_contain_text("waiting")
    expect(page.get_by_role("main").get_by_text("Completed").first).to_be_visible()
    expect(tree).not_to_contain_text("needs approval")
    expect(tree.get_by_role("row").nth(before)).to_be_attached()  # it has grown without being loaded again
    other.get_by_role("tab", name="Decided").click()
    expect(other.get_by_role("main")).to_contain_text("Fine for customers.")


def test_a_tenant_is_created_with_a_token_that_is_shown_once_and_quotas_that_hold(page: Page, host: Server) -> None:
    enter(page, host, ADMIN_TOKEN)
    page.goto(f"{host.console}operate/tenants")
    page.get_by_role("button", name="Create a tenant").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("Umbrella")
    page.get_by_role("dialog").get_by_role("button", name="Create a tenant").click()
    dialog = page.get_by_role("dialog", name="Copy the token now")
    token = dialog.locator("code").inner_text()
    dialog.get_by_role("button", name="Copy the token").click()
    expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    assert copied(page) == token
    dialog.get_by_role("button", name="Done").click()
    assert token not in page.content()
    assert send(f"{host.url}/v1/a2a/agents/units", "5 miles in km", token=token)["status"]["state"]

    row_of(page, "Tenants", "Umbrella").get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("Requests a minute").fill("many")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    expect(page.get_by_role("dialog")).to_contain_text("must be a number")
    page.get_by_role("dialog").get_by_label("Requests a minute").fill("7")
    confirmed(page, "Change")
    (umbrella,) = [each for each in native(host, "GET", "/admin/tenants")["tenants"] if each["name"] == "Umbrella"]
    assert umbrella["quotas"]["requests_per_minute"] == 7


def test_a_constitution_is_rolled_back_after_a_look_at_what_changes(
    page: Page, host: Server, tenant: dict[str, Any]
) -> None:
    native(host, "PATCH", "/agents/scribe", {**SCRIBE, "goal": "Keeps notes badly."}, token=tenant["token"])
    enter(page, host, tenant["token"])
    page.goto(f"{host.console}operate/agents/scribe")
    page.get_by_role("tab", name="Versions").click()
    main = page.get_by_role("main")
    expect(
        main.locator("del, .diff-removed, [class*=diff]").filter(has_text="Keeps notes for customers.").first
    ).to_be_visible()
    page.get_by_role("group", name="Actions of version 1").get_by_role("button", name="Go back to it").click()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing is lost")
    confirmed(page, "Go back")
    expect(main).to_contain_text("version 3")
    assert native(host, "GET", "/agents/scribe", token=tenant["token"])["goal"] == "Keeps notes for customers."


def test_the_kill_switch_asks_first_stops_an_agent_and_the_audit_has_it(
    page: Page, host: Server, tenant: dict[str, Any]
) -> None:
    enter(page, host, tenant["token"])
    page.goto(f"{host.console}operate/agents")
    row_of(page, "Agents", "units").get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its work ends within a second")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(dialog.get_by_label("Reason")).to_be_focused()  # it is required
    dialog.get_by_label("Reason").fill("It converts wrongly.")
    confirmed(page, "Stop")
    expect(row_of(page, "Agents", "units")).to_contain_text("It converts wrongly.")
    open_chat(page, host, "units")
    say(page, "5 miles in km")
    expect(log(page)).to_contain_text("It converts wrongly.")
    page.goto(f"{host.console}operate/audit")
    page.get_by_role("table", name="Audit").get_by_role("row", name="stop_agent").get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("It converts wrongly.")
    page.goto(f"{host.console}operate/agents")
    row_of(page, "Agents", "units").get_by_role("button", name="Resume").click()
    expect(row_of(page, "Agents", "units")).not_to_contain_text("It converts wrongly.")


def test_a_tenant_sees_neither_the_operators_sections_nor_other_tenants(
    page: Page, host: Server, tenant: dict[str, Any]
) -> None:
    other = new_tenant(host, "Other")
    task = send(f"{host.url}/v1/a2a/agents/units", "7 miles in km", token=other["token"])["id"]
    enter(page, host, tenant["token"])
    page.goto(f"{host.console}operate")
    sections = page.get_by_role("navigation", name="Sections")
    expect(sections.get_by_role("link", name="Agents")).to_be_visible()
    expect(sections.get_by_role("link", name="Tenants")).to_have_count(0)
    page.goto(f"{host.console}tasks/units/{task}")
    expect(page.get_by_role("main")).to_contain_text("The task cannot be shown")
    page.goto(f"{host.console}tasks")
    expect(page.get_by_role("main")).not_to_contain_text("7 miles in km")


def test_an_operator_is_asked_to_choose_a_tenant_where_everything_belongs_to_one(page: Page, host: Server) -> None:
    enter(page, host, ADMIN_TOKEN)
    for path in ("", "agents", "chat", "approvals", "check", "operate/budgets"):
        page.goto(f"{host.console}{path}")
        expect(page.get_by_role("main").get_by_text("Choose a tenant")).to_be_visible()
    page.goto(f"{host.console}approvals")
    page.get_by_label("Act for tenant").select_option("default")
    expect(page.get_by_role("tab", name="Waiting")).to_be_visible()
