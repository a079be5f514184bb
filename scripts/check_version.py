"""Fails if the newest release in CHANGELOG.md is not the version in the package, or if there is no Unreleased head."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from parley import __version__

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def main() -> int:
    heads = re.findall(r"^## \[?([^\]\s]+)\]?", CHANGELOG.read_text(), re.MULTILINE)
    if not heads or heads[0] != "Unreleased":
        print("CHANGELOG.md must begin with an Unreleased section")
        return 1
    released = heads[1] if len(heads) > 1 else None
    if released not in (None, __version__):
        print(f"CHANGELOG.md speaks of {released}, the package of {__version__}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
