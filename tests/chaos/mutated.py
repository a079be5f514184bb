"""A copy of Parley's sources with a mistake of scripts/mutations.toml in it, for replicas that must be found out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from scripts.mutations import ROOT, mistakes


@contextmanager
def mutated_source(name: str | None) -> Generator[Path | None]:
    """The folder of the copy until the block ends; None without a name."""
    if name is None:
        yield None
        return
    mistake = next(mistake for mistake in mistakes() if mistake.name == name)
    with tempfile.TemporaryDirectory(prefix="parley-mutated-") as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
        assert mistake.fits(tree), f"The mistake does not fit the sources: {name}"
        with mistake.made(tree):
            yield tree / "src"
