"""Every page of the console in a state with something to see: what the tests of accessibility and layout look at.

`tour_of_served` fills `parley serve` with tasks of all kinds, and `tour_of_host` a host; each gives views by name. A
view is opened in any browser session, however wide or dark; those of a host log in first.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests_browser.chatting import ended, log, open_chat, say
from tests_browser.conftest import ADMIN_TOKEN
from tests_browser.servers import Server, send

View = Callable[[Page], None]
"""Opens a page and waits until it shows what it should."""

OPERATOR_SECTIONS = ("health", "tenants", "replicas", "queues", "host-usage", "host-audit")
TENANT_SECTIONS = (
    *("agents", "budgets", "usage", "schedules", "queue", "mcp", "tokens", "accounts", "roles", "stops", "audit"),
)

RICH = {"markdown": "Vatican", "files": "notes.txt", "table": "Oslo", "fail": "Try again", "form": "Where to?"}
"""Messages to the scripted agent, and what its replies contain."""


def settle(page: Page) -> None:
    """Wait until nothing says that it loads."""
    expect(page.locator("main h1, dialog[open] h2").first).to_be_visible()
    # From the first rendering on, where the words come after 300 ms.
    expect(page.locator("main .progress, dialog[open] .progress")).to_have_count(0)
    expect(page.get_by_text(re.compile(r"^(Loading|Connecting).*…$"))).to_have_count(0)


def at(url: str, *texts: str) -> View:
    """The view of a URL, with texts that it shows once it is complete."""

    def open_view(page: Page) -> None:
        page.goto(url)
        settle(page)
        for text in texts:
            expect(page.get_by_role("main").get_by_text(text).first).to_be_visible()

    return open_view


def then(view: View, *steps: View) -> View:
    """A view, and what is done there."""

    def open_view(page: Page) -> None:
        view(page)
        for step in steps:
            step(page)
        settle(page)

    return open_view


def press(*keys: str) -> View:
    """Press keys."""

    def do(page: Page) -> None:
        for key in keys:
            page.keyboard.press(key)

    return do


def shows_rows(page: Page) -> None:
    """Wait for the rows of a list."""
    expect(page.locator("main .virtual-row").first).to_be_visible()


def shows_section(page: Page) -> None:
    """The section of a link is there."""
    expect(page.get_by_text("There is no such section")).to_have_count(0)


def click(role: str, name: str) -> View:
    """Click something."""
    return lambda page: page.get_by_role(role, name=name).first.click()  # type: ignore[arg-type]


def log_in(page: Page, server: Server, token: str, tenant: str | None = None) -> None:
    """Log a browser session in, as the form does."""
    api = f"{server.url}/console/api/session"
    csrf = page.request.get(api).json()["csrf"]
    body = {"scheme": "bearer", "values": {"token": token}}
    reply = page.request.post(f"{api}/login", data=body, headers={"X-Parley-Csrf": csrf})
    assert reply.ok, reply.text()
    if tenant is not None:
        headers = {"X-Parley-Csrf": reply.json()["csrf"]}
        acted = page.request.post(f"{api}/tenant", data={"tenant": tenant}, headers=headers)
        assert acted.ok, acted.text()


def post(url: str, body: object, token: str | None = None) -> Any:
    """What a server replies to JSON."""
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def rich_conversation(page: Page, server: Server) -> str:
    """Have a conversation with Markdown, files, a table, a failure and a form; gives its URL."""
    open_chat(page, server)
    for text, reply in RICH.items():
        say(page, text)
        expect(log(page).get_by_role("article").last.get_by_text(reply).last).to_be_visible()
        ended(page, {"fail": "Failed", "form": "Needs input"}.get(text, "Completed"))
    return page.url


def tour_of_served(server: Server, page: Page) -> dict[str, View]:
    """The views of `parley serve`. `page` is used to have a conversation."""
    agent, console = f"{server.url}/agents/scripted", server.console
    tasks = {text: send(agent, text)["id"] for text in ("markdown", "steps 6", "fail", "count 40 0", "ask", "files")}
    watched = tasks["ask"]
    config = {"taskId": watched, "id": "hook", "url": "http://127.0.0.1:9/hook", "token": "t"}
    post(agent, {"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": config})
    chat = rich_conversation(page, server)
    locked = send(agent, "key")["contextId"]

    def task(text: str, search: str = "", *texts: str) -> View:
        return at(f"{console}tasks/scripted/{tasks[text]}{search}", *texts)

    def run_check(page: Page) -> None:
        page.get_by_role("button", name="Run the check").click()
        expect(page.get_by_role("main").get_by_text(re.compile(r"passed", re.IGNORECASE)).first).to_be_visible(
            timeout=60_000
        )

    home = at(console)
    compare = f"{console}compare?a=scripted/{tasks['steps 6']}&b=scripted/{tasks['count 40 0']}"
    return {
        "home": home,
        "agents": at(f"{console}agents", "Scripted"),
        "add an agent": at(f"{console}agents?add=1"),
        "agent": at(f"{console}agents/scripted", "obey"),
        "agent as JSON": then(at(f"{console}agents/scripted"), click("tab", "JSON")),
        "hostile agent": at(f"{console}agents/hostile"),
        "new chat": at(f"{console}chat/scripted"),
        "chat": at(chat, "Vatican", "Where to?"),
        "chat with a request for a credential": at(f"{console}chat/scripted/{locked}", "Credential (ApiKey)"),
        "chat with a hostile agent": at(f"{console}chat/hostile"),
        "tasks": then(at(f"{console}tasks"), shows_rows),
        "no tasks": at(f"{console}tasks?text=nothing-has-this"),
        "task": task("files"),
        "failed task": task("fail", "", "The rate service is closed on Sundays."),
        "timeline": task("steps 6", "?view=timeline&at=5"),
        "tree": task("steps 6", "?view=tree"),
        "webhooks": task("ask", "?view=webhooks", "127.0.0.1:9"),
        "request": task("ask", "?view=request"),
        "compare": at(compare),
        "compare nothing": at(f"{console}compare"),
        "wire": at(f"{console}wire"),
        "check": at(f"{console}check?agent=scripted"),
        "report of a check": then(at(f"{console}check?agent=scripted"), run_check),
        "palette": then(home, press("Control+k")),
        "shortcuts": then(home, press("?")),
        "confirmation": then(task("ask"), click("button", "Cancel")),
        "no such page": at(f"{console}nowhere"),
    }


def tour_of_host(server: Server) -> dict[str, View]:
    """The views of a host, as its operator and as a tenant."""
    (token,) = re.findall(r"^\s+(atr_\w+)$", server.printed, re.MULTILINE)
    fill_host(server, token)
    console = server.console

    def as_tenant(path: str, *texts: str) -> View:
        return lambda page: (log_in(page, server, token), at(f"{console}{path}", *texts)(page))[1]

    def as_operator(path: str, *texts: str) -> View:
        return lambda page: (log_in(page, server, ADMIN_TOKEN, "1"), at(f"{console}{path}", *texts)(page))[1]

    return {
        "login": at(console),
        "home": as_tenant(""),
        "approvals": as_tenant("approvals", "a.md"),
        "tasks": as_tenant("tasks", "5 miles"),
        "tree": as_tenant(f"tasks/index/{task_of(server, token)}?view=tree", "index"),
        **{
            f"operate {section}": then(as_operator(f"operate/{section}"), shows_section)
            for section in (*OPERATOR_SECTIONS, *TENANT_SECTIONS)
        },
        "operate agent": as_operator("operate/agents/scribe", "Scribe"),
        "new token": then(as_operator("operate/tokens"), click("button", "Create a token")),
    }


def fill_host(server: Server, token: str) -> None:
    """Give a host an agent whose writing waits for an approval, and tasks."""
    scribe = {
        "id": "scribe", "name": "Scribe", "role": "writer", "goal": "Keeps notes for customers.",
        "model": "parley/drafts",
        "approvals": [{"on": "command", "match": ["write"], "message": "Customers read these notes."}],
    }  # fmt: skip
    post(f"{server.url}/v1/agents", scribe, token)
    send(f"{server.url}/v1/a2a/agents/scribe", 'write "hello" to a.md', token=token)
    send(
        f"{server.url}/v1/a2a/agents/index",
        "5 miles in km and 100 USD in EUR, then write that to notes.md",
        token=token,
    )


def task_of(server: Server, token: str) -> str:
    """The newest task of the orchestrator."""
    request = urllib.request.Request(
        f"{server.url}/console/api/tasks?agent=index", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["tasks"][0]["id"]
