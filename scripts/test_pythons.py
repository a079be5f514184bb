"""Runs the tests on every supported interpreter found on this machine, each in an environment of its own.

Looks for python3.11 to python3.14 on the PATH and among pyenv's; one that is missing is named, not silently left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def find(version: str) -> str | None:
    """A working interpreter of this version; version managers leave commands on the PATH that only print a hint."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python")]
    for command in filter(None, candidates):
        if subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(command)
    return None


def install(version: str, interpreter: str) -> Path:
    """The environment for a version, created from the lock if it is missing or older than the lock."""
    home = ROOT / ".venvs" / f"py{version}"
    stamp, lock = home / ".installed", ROOT / "locks" / "dev.lock"
    python = home / "bin" / "python"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        print(f"== Python {version}: installing", flush=True)
        run(interpreter, "-m", "venv", "--clear", str(home))
        run(str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock))
        run(
            str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)
        )
        stamp.touch()
    return python


def run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> int:
    outcomes: dict[str, str] = {}
    for version in SUPPORTED:
        interpreter = find(version)
        if interpreter is None:
            outcomes[version] = "not found"
            continue
        python = install(version, interpreter)
        print(f"== Python {version}: testing", flush=True)
        done = subprocess.run([str(python), "-m", "pytest", "-q", "-n", "auto"], cwd=ROOT, check=False)
        outcomes[version] = "passed" if done.returncode == 0 else "FAILED"
    for version, outcome in outcomes.items():
        print(f"Python {version}: {outcome}")
    return 1 if "FAILED" in outcomes.values() or "passed" not in outcomes.values() else 0


if __name__ == "__main__":
    sys.exit(main())
