"""Makes the pictures in docs/images from real runs, in light and dark: a host with its starter agents, and examples.

python -m scripts.screenshots [NAME…]

`make screenshots` runs it. It needs the built page and the browser of the tests (`make console`, `.peers/chromium`).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, expect
from scripts.png_palette import with_palette
from tests_browser.browser import running_browser
from tests_browser.chatting import ended, open_chat, say
from tests_browser.conftest import ADMIN_TOKEN
from tests_browser.servers import Server, send, serving
from tests_browser.tour import fill_host, log_in, post, settle, task_of

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LARGEST = 80_000
"""Bytes of a picture."""

Scene = Callable[[Page], None]


def take(browser: Browser, name: str, scene: Scene, *, width: int = 1200, height: int = 720) -> None:
    """Take one picture in both schemes."""
    for scheme in SCHEMES:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = context.new_page()
        scene(page)
        settle(page)
        page.wait_for_timeout(500)  # fonts and late lines
        picture = with_palette(page.screenshot(animations="disabled", caret="hide"))
        context.close()
        path = IMAGES / f"console-{name}-{scheme}.png"
        path.write_bytes(picture)
        print(f"{path.relative_to(ROOT)}  {len(picture):,} bytes", flush=True)
        if len(picture) > LARGEST:
            raise SystemExit(f"{path} is larger than {LARGEST:,} bytes")


def host_scenes(server: Server) -> dict[str, Scene]:
    """Pages of a host, as its tenant and as its operator."""
    (token,) = re.findall(r"^\s+(atr_\w+)$", server.printed, re.MULTILINE)
    index = f"{server.url}/v1/a2a/agents/index"
    for text in ("17 C in F", "Who are you?", "12 kg in lb and 3 EUR in JPY"):
        send(index, text, token=token)
    fill_host(server, token)
    request = task_of(server, token)

    def as_tenant(path: str) -> Scene:
        return lambda page: (log_in(page, server, token), page.goto(f"{server.console}{path}"))[0]

    def as_operator(path: str) -> Scene:
        return lambda page: (log_in(page, server, ADMIN_TOKEN, "1"), page.goto(f"{server.console}{path}"))[0]

    def chat(page: Page) -> None:
        log_in(page, server, token)
        open_chat(page, server, "index")
        say(page, "days between 2026-01-01 and 2026-11-17")
        ended(page)
        say(page, "5 miles in km and 100 USD in EUR, then write that to notes.md")
        ended(page)

    def palette(page: Page) -> None:
        as_tenant("tasks")(page)
        settle(page)
        page.keyboard.press("Control+k")
        page.keyboard.type("miles")
        expect(page.get_by_role("option").filter(has_text="5 miles").first).to_be_visible()

    return {
        "home": as_tenant(""),
        "agents": as_tenant("agents"),
        "chat": chat,
        "tasks": as_tenant("tasks"),
        "tree": as_tenant(f"tasks/index/{request}?view=tree"),
        "approvals": as_tenant("approvals"),
        "operate": as_operator("operate/agents/scribe"),
        "palette": palette,
    }


def served_scenes(server: Server) -> dict[str, Scene]:
    """Pages of `parley serve` with the example of a trip planner."""
    planner = f"{server.url}/"
    task, other = plan_trip(planner, "Rome")["id"], plan_trip(planner, "Oslo")["id"]

    def timeline(page: Page) -> None:
        page.goto(f"{server.console}tasks/trip-planner/{task}?view=timeline")
        slider = page.get_by_role("slider")
        expect(slider).to_be_visible()
        slider.focus()
        for _ in range(12):
            page.keyboard.press("ArrowLeft")

    def wire(page: Page) -> None:
        page.goto(f"{server.console}wire")
        settle(page)
        expect(page.get_by_text("Connected")).to_be_visible()
        page.wait_for_timeout(1000)
        plan_trip(planner, "Lisbon")
        rows = page.locator(".virtual-row")
        expect(rows.nth(3)).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        rows.nth(1).click()

    def check(page: Page) -> None:
        page.goto(f"{server.console}check?agent=currency")
        page.get_by_role("button", name="Run the check").click()
        expect(page.get_by_text("No rule is broken.", exact=True)).to_be_visible(timeout=120_000)

    return {
        "agent": lambda page: (page.goto(f"{server.console}agents/trip-planner"), None)[1],
        "timeline": timeline,
        "compare": lambda page: (
            page.goto(f"{server.console}compare?a=trip-planner/{task}&b=trip-planner/{other}"),
            None,
        )[1],
        "wire": wire,
        "check": check,
    }


def plan_trip(agent: str, city: str) -> dict[str, Any]:
    """Have a trip planned, and answer what the planner asks."""
    task = send(agent, city)
    for answer in ("3 days", "700 USD", "EUR"):
        if task["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
            break
        said = {"messageId": f"{task['id']}-{answer}", "role": "ROLE_USER", "parts": [{"text": answer}]}
        message = {**said, "taskId": task["id"], "contextId": task["contextId"]}
        task = post(agent, {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})[
            "result"
        ]["task"]
    return task


def main(names: list[str]) -> int:
    IMAGES.mkdir(exist_ok=True)
    with running_browser() as browser, tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        up = ["up", "--store", f"sqlite:///{folder}/host.db", "--drain-seconds", "0", "--log-level", "warning"]
        trip = [
            "serve",
            str(ROOT / "examples/trip.py"),
            str(ROOT / "examples/currency.py"),
            "--root-agent",
            "trip-planner",
        ]
        with (
            serving(where, *up, variables={"PARLEY_ADMIN_TOKEN": ADMIN_TOKEN}) as host,
            serving(where, *trip, "--store", f"sqlite:///{folder}/trip.db", "--drain-seconds", "0") as served,
        ):
            for name, scene in {**host_scenes(host), **served_scenes(served)}.items():
                if not names or name in names:
                    take(browser, name, scene)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
