"""Resolves every environment again and writes its lock: exact versions with hashes, for all platforms, naming no host.

python scripts/lock.py            all of them
python scripts/lock.py dev        only locks/dev.lock
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"
DEV = ["pyproject.toml", "--extra", "all", "--group", "dev"]
LOWEST = ["pyproject.toml", "--extra", "all", "--resolution", "lowest-direct"]
"""The lowest versions that pyproject.toml allows, which `tests/test_installing.py` serves an agent with."""
IMAGE_EXTRAS = ("grpc", "nats", "postgres")
IMAGE = ["pyproject.toml", *(word for name in IMAGE_EXTRAS for word in ("--extra", name)), "-c", "locks/dev.lock"]
"""What the container image has, in the versions that the tests run with."""


def environments() -> dict[str, list[str]]:
    """What each lock is resolved from. Frameworks share an environment with Parley, other peers do not."""
    return {"dev": DEV, "lowest": LOWEST, "image": IMAGE} | {
        source.stem: [*(["pyproject.toml"] if source.stem.startswith("framework-") else []), f"locks/{source.name}"]
        for source in sorted(LOCKS.glob("*.in"))
    }


def lock(name: str, sources: list[str]) -> None:
    options = [
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--quiet",
    ]
    command = [sys.executable, "-m", "uv", "pip", "compile", *sources, *options, "--upgrade"]
    subprocess.run([*command, "--output-file", f"locks/{name}.lock"], cwd=ROOT, check=True)
    print(f"wrote locks/{name}.lock")


def main(names: list[str]) -> None:
    known = environments()
    for name in names or known:
        lock(name, known[name])


if __name__ == "__main__":
    main(sys.argv[1:])
