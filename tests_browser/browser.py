"""The browser that the tests drive: the machine's Chromium if it has one, otherwise the one of an npm package.

`python -m tests_browser.browser` installs the latter into `.peers/chromium`; `make browser` does that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.interop.javascript import find_node, install

ROOT = Path(__file__).parent.parent
MANIFEST = Path(__file__).parent / "chromium"
ENVIRONMENT = ROOT / ".peers" / "chromium"
AXE = ENVIRONMENT / "node_modules" / "axe-core" / "axe.min.js"
SYSTEM = ("chromium", "chromium-browser", "google-chrome")


def install_browser() -> None:
    """Install the packages, and unpack the browser beside them."""
    install(MANIFEST, ENVIRONMENT)
    shutil.copy(MANIFEST / "unpack.mjs", ENVIRONMENT)
    node, _ = find_node()
    subprocess.run([node, "unpack.mjs"], cwd=ENVIRONMENT, check=True, timeout=300)


def executable() -> tuple[Path, dict[str, str]]:
    """The browser, and the environment it needs."""
    found = next(filter(None, map(shutil.which, SYSTEM)), None)
    if found is not None and not os.environ.get("PARLEY_PACKED_BROWSER"):
        return Path(found), dict(os.environ)
    unpacked = ENVIRONMENT / "browser"
    libraries = os.pathsep.join([str(unpacked / "al2023" / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    # Only where the machine lacks one: a library of another system may not fit those that are there.
    linked = subprocess.run(["ldd", unpacked / "chromium"], capture_output=True, text=True, timeout=30).stdout
    needed = {"LD_LIBRARY_PATH": libraries.rstrip(os.pathsep)} if "not found" in linked else {}
    fonts = {"FONTCONFIG_PATH": str(unpacked / "fonts" / "fonts")} if not Path("/etc/fonts").exists() else {}
    return unpacked / "chromium", {**os.environ, **needed, **fonts}


@contextmanager
def running_browser() -> Generator[Browser]:
    """The browser, until the block ends."""
    path, environment = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            env=dict(environment),
            chromium_sandbox=False,  # root cannot have one, and every page is our own
            args=["--disable-gpu", "--force-color-profile=srgb", "--font-render-hinting=none"],
        )
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    install_browser()
