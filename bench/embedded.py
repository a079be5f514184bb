"""What the embedded default costs: one process on SQLite, without PostgreSQL and NATS, today and at an earlier commit.

Import time, time until `parley serve` is ready, size of the wheel, and the speed of sends and of a stream. Each is
measured in turns, with the sources of the two commits and the same environment.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cluster_results import BEFORE, NOW
from contenders import OURS_DURABLE, ROOT, Contender, Server, load
from replica_load import send, text_of
from replicas import SQLITE_STORE, Replica
from results import Figures
from server import progress

SERVING = ("parley.cli.main", "parley.server.app", "parley.server.run", "parley.stores.sqlite.store")
"""What `parley serve` imports on SQLite."""
NEVER = ("asyncpg", "nats")
"""Packages that the embedded default must not import."""
TIMED = "import time; begun = time.perf_counter(); import {}; print(time.perf_counter() - begun)"


def embedded(before: str | None, figures: Figures, *, rounds: int, starts: int, seconds: float) -> None:
    """Measure the embedded default of this commit and, if it is named, of an earlier one."""
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        # Installed packages have bytecode; the first of all rounds makes it here, too.
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}
        sources = {NOW: ROOT}
        if before is not None:
            sources = {BEFORE: _checked_out(before, Path(folder, "before")), NOW: ROOT}
        for contender, source in sources.items():
            figures.add("wheel", contender.name, _wheel_bytes(source, Path(folder, contender.name)))
        for round_ in range(starts):
            for contender, source in sources.items():
                progress(f"imports and starts, round {round_ + 1} of {starts}: {contender.name}")
                _imports(contender, source / "src", figures)
        for round_ in range(rounds):
            for contender, source in sources.items():
                progress(f"embedded default, round {round_ + 1} of {rounds}: {contender.name}")
                with Server(OURS_DURABLE, source=source / "src") as server:
                    figures.add("embedded sends", contender.name, load("sends", server, seconds=seconds)["rate"])
                    seen = load("stream", server, chunks=4_000, times=4)
                    figures.add("embedded talk", contender.name, seen["rate"])
    _check_imports()


def _checked_out(commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", "--output", archive, commit], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder


def _wheel_bytes(source: Path, folder: Path) -> int:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel.stat().st_size


def _imports(contender: Contender, source: Path, figures: Figures) -> None:
    for work, modules in (("import parley", ("parley",)), ("import serving", SERVING)):
        figures.add(work, contender.name, _import_seconds(modules, source))
    begun = time.perf_counter()
    with Replica(SQLITE_STORE, source=source):
        figures.add("start", contender.name, time.perf_counter() - begun)


def _import_seconds(modules: Sequence[str], source: Path) -> float:
    command = [sys.executable, "-c", TIMED.format(", ".join(modules))]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def _check_imports() -> None:
    """Raise if `parley serve` on SQLite imports a package that only a cluster needs."""
    with Replica(SQLITE_STORE) as replica:
        found = text_of(asyncio.run(send(replica.port, f"imported msgspec {' '.join(NEVER)}")))
    assert found == "msgspec", f"parley serve on SQLite imports {found}"
