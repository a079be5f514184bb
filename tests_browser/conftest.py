"""Fixtures: a browser for all tests, pages that fail a test for errors they log, and servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests_browser.browser import running_browser
from tests_browser.servers import Server, serve_command, serving

SECONDS = float(os.environ.get("PARLEY_BROWSER_SECONDS", "60"))
"""How long a page may take to show something; a machine under load takes its time."""

expect.set_options(timeout=SECONDS * 1000)

EXPECTED = ("Failed to load resource", "net::ERR_", "the server responded with a status")
"""What a browser logs by itself of requests that fail; whether they may fail is up to each test."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser."""
    with running_browser() as running:
        yield running


@contextmanager
def watched_context(browser: Browser, **options: object) -> Generator[BrowserContext]:
    """A browser session of its own. Errors that its pages log, and refusals by their policy, fail the test."""
    # With a window, a click is enough to copy; without one, browsers want the permission.
    usual = {"reduced_motion": "reduce", "accept_downloads": True, "permissions": ["clipboard-write"]}
    context = browser.new_context(**{**usual, **options})  # type: ignore[arg-type]
    context.set_default_timeout(SECONDS * 1000)
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in EXPECTED):
            errors.append(message.text)

    context.on("console", note)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    try:
        yield context
    finally:
        context.close()
    assert errors == []


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, each in a browser session of its own, with options of Playwright's contexts."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(watched_context(browser, **options)).new_page()


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A page of usual size."""
    return open_page(viewport={"width": 1280, "height": 800})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`parley serve` with the scripted agents, which the tests of a module share."""
    folder: Path = tmp_path_factory.mktemp("served")
    with serving(folder, *serve_command(folder)) as server:
        yield server


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`parley up` with its starter agents and an operator, which the tests of a module share."""
    folder: Path = tmp_path_factory.mktemp("host")
    command = ["up", "--store", f"sqlite:///{folder}/host.db", "--drain-seconds", "0", "--log-level", "warning"]
    with serving(folder, *command, variables={"PARLEY_ADMIN_TOKEN": ADMIN_TOKEN}) as server:
        yield server


ADMIN_TOKEN = "admin-token-of-the-browser-tests"
