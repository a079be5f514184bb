"""Tasks in a browser: lists that live, timelines, the past of a task, dialects, comparisons, webhooks and failures."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from playwright.sync_api import Locator, Page, expect

from tests_browser.chatting import copied, count_text
from tests_browser.servers import SECONDS, Server, send, serve_command, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`parley serve`, which calls webhooks on this machine."""
    folder = tmp_path_factory.mktemp("tasks")
    options = ["--webhooks", "any", "--webhook-host", "127.0.0.1"]
    with serving(folder, *serve_command(folder, options=options)) as running:
        yield running


def agent(server: Server) -> str:
    return f"{server.url}/agents/scripted"


def call(server: Server, method: str, **params: object) -> dict:
    """What the agent replies to a request of 1.0."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    request = urllib.request.Request(agent(server), json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)["result"]


def begin(server: Server, text: str) -> str:
    """Have the agent work without waiting for it; gives the id of the task."""
    message = {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": [{"text": text}]}
    return call(server, "SendMessage", message=message, configuration={"returnImmediately": True})["task"]["id"]


def open_task(page: Page, server: Server, task: str, **query: object) -> None:
    """Open the page of a task."""
    search = "&".join(f"{name}={value}" for name, value in query.items())
    page.goto(f"{server.console}tasks/scripted/{task}?{search}")
    expect(page.get_by_role("tab", name="Timeline")).to_be_visible()


def rows(page: Page) -> Locator:
    """The rows of the list of tasks that are shown."""
    return page.locator(".task-list .task-row:not(.task-row-head)")


def test_a_failed_task_is_three_clicks_from_its_reason(page: Page, server: Server) -> None:
    send(agent(server), "fail")
    page.goto(server.console)
    page.get_by_role("main").get_by_role("link", name=re.compile("Failed.*fail")).first.click()
    expect(page.get_by_role("main")).to_contain_text("ValueError: The rate service is closed on Sundays.")


def test_tasks_that_others_send_appear_and_change_their_state_by_themselves(page: Page, server: Server) -> None:
    page.goto(f"{server.console}tasks")
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    send(agent(server), "say something first")
    expect(rows(page).filter(has_text="say something first")).to_be_visible()
    task = begin(server, "wait 30")
    row = rows(page).filter(has_text="wait 30")
    expect(row).to_contain_text("Working")
    call(server, "CancelTask", id=task)
    expect(row).to_contain_text("Canceled")


def test_filters_are_in_the_address_and_the_search_reads_what_was_said(page: Page, server: Server) -> None:
    send(agent(server), "say that the needle is here")
    send(agent(server), "fail")
    page.goto(f"{server.console}tasks")
    page.get_by_role("button", name="Failed", exact=True).click()
    expect(page).to_have_url(re.compile("state=failed"))
    expect(rows(page).filter(has_text="needle")).to_have_count(0)
    expect(rows(page).filter(has_text="fail").first).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Failed", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Clear", exact=True).click()
    page.get_by_role("searchbox", name="Search in tasks").fill("NEEDLE is")
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile("text=NEEDLE"))
    page.keyboard.press("ControlOrMeta+k")
    page.get_by_role("combobox", name="Search, go to, do").fill("needle")
    page.get_by_role("option", name=re.compile("say that the needle")).click()
    expect(page.get_by_role("heading", name="say that the needle is here")).to_be_visible()


def test_a_long_list_of_tasks_holds_only_what_is_seen_and_keys_reach_its_end(page: Page, tmp_path: Path) -> None:
    command = [*serve_command(tmp_path), "--rate", "off", "--store", "memory:"]
    with serving(tmp_path, *command) as server:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: send(agent(server), f"say {number}"), range(1000)))
        page.goto(f"{server.console}tasks")
        expect(page.get_by_text("1,000 tasks")).to_be_visible()
        assert rows(page).count() < 200
        rows(page).first.get_by_role("link").focus()
        oldest = page.locator("[data-index='999']")
        for _ in range(1200):  # pages are loaded on the way, slowly beside other work
            page.keyboard.press("End")
            page.wait_for_timeout(50)
            if oldest.count():
                break
        expect(oldest).to_be_visible()
        expect(oldest.get_by_role("link")).to_be_focused()
        assert rows(page).count() < 200


def test_a_timeline_has_every_event_with_number_time_size_pause_and_kind(page: Page, server: Server) -> None:
    task = send(agent(server), "count 5 0.6")["id"]
    open_task(page, server, task, view="timeline")
    events = page.get_by_role("listbox", name="Events").get_by_role("option")
    third = r"^7 \d\d:\d\d:\d\d\.\d{3} \+(\d+ ms|\d+\.\d s) artifact 3 \d+ B"
    expect(page.get_by_role("option", name=re.compile(third))).to_be_visible()
    expect(events.first).to_contain_text("created")
    shown = [int(text.split()[0]) for text in events.all_inner_texts()]
    assert shown == list(range(1, len(shown) + 1))
    kinds = page.get_by_role("group", name="Kinds of events")
    kinds.get_by_role("button", name="artifact").click()
    expect(events.filter(has_text="artifact")).to_have_count(0)


def test_a_timeline_that_is_open_while_the_server_is_killed_misses_no_event(page: Page, server: Server) -> None:
    task = begin(server, "count 60 0.05")
    open_task(page, server, task, view="timeline")
    events = page.get_by_role("listbox", name="Events").get_by_role("option")
    expect(events.filter(has_text="artifact").nth(8)).to_be_visible()
    server.restart()
    expect(page.get_by_role("main").get_by_text("Completed").first).to_be_visible()
    expect(page.get_by_role("region", name=re.compile("^Task after event"))).to_contain_text(count_text(60))
    last = page.request.get(f"{server.console}api/tasks/{task}/log?agent=scripted").json()["last"]
    expect(page.get_by_text(f"of {last}", exact=True)).to_be_visible()
    shown = [int(text.split()[0]) for text in events.all_inner_texts()]
    assert shown == list(range(shown[0], last + 1))


def test_the_slider_shows_the_task_as_it_was_after_each_event(page: Page, server: Server) -> None:
    task = send(agent(server), "count 9 0")["id"]
    open_task(page, server, task, view="timeline")
    then = page.get_by_role("region", name=re.compile("^Task after event"))
    expect(then).to_contain_text("0 1 2 3 4 5 6 7 8")
    page.get_by_role("textbox", name="Go to event number").fill("1")
    page.keyboard.press("Enter")
    expect(then).not_to_contain_text("0 1")
    slider = page.get_by_role("slider", name="Task after event")
    slider.focus()
    events = page.request.get(f"{server.console}api/tasks/{task}/log?agent=scripted").json()["events"]
    (at,) = [event["seq"] for event in events if event["kind"] == "artifact" and event["summary"].strip() == "2"]
    for number in range(2, at + 1):
        slider.press("ArrowRight")
        expect(slider).to_have_value(str(number))
    expect(then).to_contain_text("0 1 2")
    expect(then).not_to_contain_text("2 3")
    expect(page).to_have_url(re.compile(f"at={at}"))
    page.reload()
    expect(then).to_contain_text("0 1 2")
    expect(then).not_to_contain_text("2 3")
    expect(slider).to_have_value(str(at))


def test_an_event_is_shown_in_each_dialect_and_binding(page: Page, server: Server) -> None:
    task = send(agent(server), "count 3 0")["id"]
    last = page.request.get(f"{server.console}api/tasks/{task}/log?agent=scripted").json()["events"]
    at = next(event["seq"] for event in last if event["kind"] == "artifact")
    open_task(page, server, task, view="timeline", at=at)
    page.get_by_role("button", name=f"Event {at}", exact=True).click()
    page.get_by_role("tab", name="On the wire").click()
    shown = page.locator(".event-detail pre")
    for version, binding, word in (
        ("1.0", "JSON-RPC", "artifactUpdate"), ("1.0", "REST", "artifactUpdate"), ("1.0", "gRPC", "artifactUpdate"),
        ("0.3", "JSON-RPC", '"artifact-update"'), ("0.2", "JSON-RPC", '"artifact-update"'),
        ("0.1", "JSON-RPC", '"artifact"'),
    ):  # fmt: skip
        page.get_by_role("group", name="Version of A2A").get_by_role("button", name=version, exact=True).click()
        page.get_by_role("group", name="Binding").get_by_role("button", name=binding, exact=True).click()
        expect(shown).to_contain_text(word)


@pytest.mark.parametrize(("version", "binding"), [("1.0", "JSON-RPC"), ("1.0", "REST"), ("0.3", "JSON-RPC")])
def test_the_request_copied_as_curl_works_in_a_shell(page: Page, server: Server, version: str, binding: str) -> None:
    task = send(agent(server), 'say it\'s "quoted" $HOME `id`')["id"]
    open_task(page, server, task, view="request")
    page.get_by_role("group", name="Version of A2A").get_by_role("button", name=version, exact=True).click()
    page.get_by_role("group", name="Binding").get_by_role("button", name=binding, exact=True).click()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    done = subprocess.run(["sh", "-c", copied(page)], capture_output=True, text=True, timeout=30)
    assert 'You said: say it\'s \\"quoted\\" $HOME `id`' in done.stdout, done


def test_the_request_copied_as_python_works(page: Page, server: Server) -> None:
    task = send(agent(server), "say python")["id"]
    open_task(page, server, task, view="request")
    page.get_by_role("group", name="Form of the request").get_by_role("button", name="Python").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    done = subprocess.run([".venv/bin/python", "-c", copied(page)], capture_output=True, text=True, timeout=60)
    assert "You said: say python" in done.stdout, done


def test_two_tasks_are_compared_word_by_word_and_event_by_event(page: Page, server: Server) -> None:
    send(agent(server), "say one thing")
    task = send(agent(server), "say another thing")["id"]
    open_task(page, server, task)
    page.get_by_role("button", name="Compare with…").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("say one thing")).first.click()
    main = page.get_by_role("main")
    expect(main.locator("del", has_text="another").first).to_be_visible()
    expect(main.locator("ins", has_text="one").first).to_be_visible()
    expect(main.get_by_role("status").filter(has_text=re.compile(r"rows? of \d+ differ"))).to_be_visible()
    assert "a=scripted" in page.url
    assert "b=scripted" in page.url


class Receiver(HTTPServer):
    """A webhook that refuses until it is told not to."""

    def __init__(self) -> None:
        self.is_broken, self.received = True, Queue[dict]()
        super().__init__(("127.0.0.1", 0), Deliveries)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Deliveries(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.server.is_broken:
            self.server.received.put(body)
        self.send_response(503 if self.server.is_broken else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_webhook_that_fails_says_why_and_gets_everything_when_it_works_again(page: Page, server: Server) -> None:
    task = send(agent(server), "ask")["id"]
    with receiver() as hook:
        call(server, "CreateTaskPushNotificationConfig", taskId=task, id="hook", url=hook.url, token="secret-of-hook")
        message = {"messageId": "m-answer", "taskId": task, "role": "ROLE_USER", "parts": [{"text": "Oslo"}]}
        call(server, "SendMessage", message=message)
        open_task(page, server, task, view="webhooks")
        card = page.get_by_role("article").filter(has_text=f"127.0.0.1:{hook.server_port}")
        expect(card).to_contain_text("Failing")
        expect(card).to_contain_text("503")
        expect(card).not_to_contain_text("secret-of-hook")
        # Asked for while it fails: afterwards the server may have sent everything by itself.
        card.get_by_role("button", name="Send undelivered now").click()
        send_now = page.get_by_role("dialog").get_by_role("button", name="Send now")
        expect(send_now).to_be_visible()
        hook.is_broken = False
        send_now.click()
        expect(card).to_contain_text("Up to date")
        assert not hook.received.empty()
        hook.received.queue.clear()
        card.get_by_role("button", name="Send again from…").click()
        page.get_by_role("dialog").get_by_role("button", name="Send again").click()
        expect(page.locator(".toast-text", has_text="are being sent again")).to_be_visible()
        assert hook.received.get(timeout=SECONDS)
