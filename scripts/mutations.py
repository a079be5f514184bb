"""Puts mistakes into a copy of the sources, one at a time, and says which of them the tests notice.

    python scripts/mutations.py                 all of mutations.toml
    python scripts/mutations.py engine stores   only mistakes whose names begin so

Each mistake names the tests nearest to it. They must pass without it; then it is noticed if one of them fails. The
working tree is copied once and not touched: the copy comes first on PYTHONPATH, for the tests and for every process
that they start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".toml")
LONGEST_RUN = 300
"""Seconds. Tests that hang fail by deadlines of their own, long before."""


@dataclass(frozen=True)
class Mistake:
    """A text in a file below `src/parley`, what stands there by mistake instead, and the tests nearest to it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def fits(self, tree: Path = ROOT) -> bool:
        """Whether it can be made: its text is there, exactly once."""
        path = tree / "src/parley" / self.file
        return path.exists() and path.read_text().count(self.old) == 1 and self.old != self.new

    @contextmanager
    def made(self, tree: Path) -> Iterator[None]:
        """Make it, for as long as the block lasts."""
        path = tree / "src/parley" / self.file
        right = path.read_text()
        path.write_text(right.replace(self.old, self.new))
        try:
            yield
        finally:
            path.write_text(right)


def mistakes() -> list[Mistake]:
    """All mistakes in the list, by name."""
    tables = tomllib.loads(LIST.read_text())
    return [Mistake(name, t["file"], t["old"], t["new"], tuple(t["tests"])) for name, t in tables.items()]


def copied_tree(folder: Path) -> Path:
    """A copy of the working tree, with the same environments."""
    environments = [".venv", ".peers"]
    unwanted = shutil.ignore_patterns(
        ".git", ".*_cache", ".hypothesis", "__pycache__", ".venvs", ".frameworks", "node_modules", *environments
    )
    tree = Path(shutil.copytree(ROOT, folder / ROOT.name, ignore=unwanted))
    for name in environments:
        (tree / name).symlink_to(ROOT / name)
    return tree


def run_tests(tests: tuple[str, ...], tree: Path) -> bool | None:
    """Whether the tests pass on a tree; None if there is no such test."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            code = process.wait(LONGEST_RUN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return False
    return None if code in (4, 5) else code == 0


def main(wanted: list[str]) -> int:
    """Try the mistakes whose names begin with one of these words; 0 if each of them was noticed."""
    chosen = [mistake for mistake in mistakes() if not wanted or mistake.name.startswith(tuple(wanted))]
    outcomes: dict[str, list[str]] = {}
    passing: dict[tuple[str, ...], bool | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = copied_tree(Path(folder))
        for mistake in chosen:
            begun = time.perf_counter()
            outcome = "could not be applied"
            if mistake.fits(tree):
                if mistake.tests not in passing:
                    passing[mistake.tests] = run_tests(mistake.tests, tree)
                if not passing[mistake.tests]:
                    outcome = "tests fail without it"
                else:
                    with mistake.made(tree):
                        outcome = "NOT noticed" if run_tests(mistake.tests, tree) else "noticed"
            outcomes.setdefault(outcome, []).append(mistake.name)
            print(f"{outcome:22}{time.perf_counter() - begun:6.1f} s  {mistake.name}", flush=True)
    print(", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items()))
    return 0 if set(outcomes) <= {"noticed"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
