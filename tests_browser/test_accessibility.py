"""Every page of the console in light and dark as axe judges it, by the rules of WCAG 2.0 to 2.2, A and AA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests_browser.browser import AXE
from tests_browser.conftest import watched_context
from tests_browser.servers import Server, serve_command, serving
from tests_browser.tour import View, tour_of_host, tour_of_served

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def views_of_served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, View]]:
    """Every page of `parley serve`."""
    folder = tmp_path_factory.mktemp("tour")
    with (
        serving(folder, *serve_command(folder, options=["--webhooks", "any"])) as server,
        watched_context(browser) as context,
    ):
        yield tour_of_served(server, context.new_page())


@pytest.fixture(scope="module")
def views_of_host(host: Server) -> dict[str, View]:
    """Every page of a host."""
    return tour_of_host(host)


def violations(page: Page) -> list[str]:
    """What axe finds: the rule, the element, and why."""
    page.evaluate(AXE.read_text())  # not by a script element, which the page's policy refuses
    report: dict[str, Any] = page.evaluate("rules => axe.run({runOnly: rules})", RULES)
    assert len(report["passes"]) > 5  # it has looked at something
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for rule in report["violations"]
        for node in rule["nodes"][:5]
    ]


def violations_of(views: dict[str, View], open_page: Callable[..., Page], **options: object) -> dict[str, list[str]]:
    """What axe finds in all views; those without a fault are left out."""
    found: dict[str, list[str]] = {}
    for name, open_view in views.items():
        page = open_page(viewport={"width": 1280, "height": 800}, **options)
        open_view(page)
        if faults := violations(page):
            found[name] = faults
        page.context.close()
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_on_the_pages_of_a_server(
    views_of_served: dict[str, View], open_page: Callable[..., Page], scheme: str
) -> None:
    assert violations_of(views_of_served, open_page, color_scheme=scheme) == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_on_the_pages_of_a_host(
    views_of_host: dict[str, View], open_page: Callable[..., Page], scheme: str
) -> None:
    assert violations_of(views_of_host, open_page, color_scheme=scheme) == {}


def test_axe_finds_no_violation_on_a_narrow_screen(
    views_of_served: dict[str, View], open_page: Callable[..., Page]
) -> None:
    found: dict[str, list[str]] = {}
    for name in ("home", "agents", "chat", "tasks", "timeline", "tree", "wire", "report of a check"):
        page = open_page(viewport={"width": 320, "height": 640})
        views_of_served[name](page)
        if faults := violations(page):
            found[name] = faults
    assert found == {}
