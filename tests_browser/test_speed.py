"""The page stays fast: every figure of `speed` is within its budget and a half, because machines are noisy.

`make browser` runs these alone, after the others: a second browser beside this one would be measured too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests_browser.servers import serve_command, serving
from tests_browser.speed import MEASUREMENTS


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_page_keeps_its_budget(browser: Browser, tmp_path: Path, name: str) -> None:
    prepare, measure = MEASUREMENTS[name]
    with serving(tmp_path, *serve_command(tmp_path)) as server:
        prepare(server)
        figures = measure(browser, server)
    for figure in figures:
        print(f"{figure.name}: {figure.value:,.0f} {figure.unit} (budget {figure.budget:,.0f})")
    assert [figure for figure in figures if not figure.is_kept] == []
