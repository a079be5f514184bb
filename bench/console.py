"""Measures the page of the console in a real browser, and writes CONSOLE.md.

python bench/console.py [NAME…]

Each figure has a budget. `make browser` fails when one is exceeded by half, so the page cannot become slow unnoticed.
With names of measurements, only those are made and nothing is written.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_browser.browser import running_browser
from tests_browser.servers import serve_command, serving
from tests_browser.speed import MEASUREMENTS, Figure

RESULTS = Path(__file__).parent / "CONSOLE.md"

HEAD = """# The console

Written by `make bench`, in one run of {browser}, {cores} cores; the browser, the server and the driver share
them. Each figure is taken in the page: frames by `requestAnimationFrame`, long tasks and keys by the browser's own
observers. `make browser` fails when a budget is exceeded by half.

| what | measured | budget |
| --- | ---: | ---: |
"""


def row(figure: Figure) -> str:
    """A line of the table."""
    return f"| {figure.name} | {figure.value:,.0f} {figure.unit} | {figure.budget:,.0f} {figure.unit} |\n"


def main(names: list[str]) -> int:
    figures: list[Figure] = []
    with running_browser() as browser:
        version = f"Chromium {browser.version} on Python {platform.python_version()}"
        for name, (prepare, measure) in MEASUREMENTS.items():
            if names and name not in names:
                continue
            with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *serve_command(Path(folder))) as server:
                prepare(server)
                for figure in measure(browser, server):
                    figures.append(figure)
                    print(row(figure), end="", flush=True)
    if not names:
        RESULTS.write_text(HEAD.format(browser=version, cores=os.cpu_count()) + "".join(map(row, figures)))
    broken = [figure.name for figure in figures if not figure.is_kept]
    if broken:
        print(f"Above the budget by more than half: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
