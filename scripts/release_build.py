"""Builds sdist and wheel twice from what git has, and compares them byte by byte.

The two builds differ in what must not matter: the folder's name, the time, the umask, the order of directory entries.
Times inside the archives come from SOURCE_DATE_EPOCH, the time of the commit.
"""

from __future__ import annotations

import filecmp
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scripts.build_console import STAMP, build
from scripts.release_archives import ReleaseError

SECONDS = 300
PAGE = Path("src/parley/console/static")


@dataclass(frozen=True, slots=True)
class Commit:
    """What is released."""

    id: str
    time: datetime
    files: Sequence[str]
    """The paths of all files that git has."""

    @classmethod
    def of(cls, root: Path) -> Commit:
        """The last commit of a repository.

        Raises:
            ReleaseError: files were changed since.
        """
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        if changed:
            raise ReleaseError(f"Commit or undo these changes first, since the last commit is released:\n{changed}")
        commit, seconds = _git(root, "log", "-1", "--format=%H %ct").split()
        files = _git(root, "ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0")
        return cls(commit, datetime.fromtimestamp(int(seconds), UTC), [name for name in files if name])


@dataclass(frozen=True, slots=True)
class Built:
    """The two archives, and the files of the console's page that belong into both (below `PAGE`)."""

    sdist: Path
    wheel: Path
    page_files: Sequence[str]


def build_twice(root: Path, commit: Commit, scratch: Path) -> Built:
    """Build both archives in two folders, and the wheel once more from the sdist.

    Raises:
        ReleaseError: two of them differ, or a build fails.
    """
    names = [path.relative_to(root / PAGE).as_posix() for path in (root / PAGE).rglob("*") if path.is_file()]
    first = _build(_exported(root, commit, scratch / "one"), commit, scratch / "dist", umask=0o022)
    again = _build(
        _exported(root, commit, scratch / "another-folder" / "deeper"), commit, scratch / "dist-again", umask=0o077
    )
    for one, other in zip(first, again, strict=True):
        compare(one, other)
    sdist, wheel = first
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / "unpacked", filter="data")
    (unpacked,) = (scratch / "unpacked").iterdir()
    _hatchling(unpacked, commit, scratch / "dist-from-sdist", targets=("wheel",), umask=0o022)
    compare(wheel, scratch / "dist-from-sdist" / wheel.name)
    return Built(sdist, wheel, sorted(names))


def check_page_is_reproducible(static: Path) -> None:
    """Build the page of the console again, elsewhere, and compare it with the one that will be packed.

    Raises:
        ReleaseError: they differ.
    """
    with tempfile.TemporaryDirectory(prefix="parley-page-", dir=static.parent) as folder:
        again = Path(folder) / "static"
        build(static=again)
        names = {path.relative_to(static) for path in static.rglob("*") if path.is_file()}
        if names != {path.relative_to(again) for path in again.rglob("*") if path.is_file()}:
            raise ReleaseError("Two builds of the page of the console have files of different names.")
        differing = sorted(str(name) for name in names if not filecmp.cmp(static / name, again / name, shallow=False))
    if differing:
        raise ReleaseError(f"Two builds of the page of the console differ: {', '.join(differing)}")


def compare(one: Path, other: Path) -> None:
    """Raises ReleaseError if two builds of a file differ."""
    if one.name != other.name or one.read_bytes() != other.read_bytes():
        raise ReleaseError(f"Two builds of {one.name} differ: the build is not reproducible.")


def _exported(root: Path, commit: Commit, folder: Path) -> Path:
    """What git has, and the built page, in a new folder."""
    archive = subprocess.run(["git", "archive", commit.id], cwd=root, capture_output=True, check=True, timeout=SECONDS)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    if not (root / PAGE / STAMP).is_file():
        raise ReleaseError("The page of the console is not built: make console")
    shutil.copytree(root / PAGE, folder / PAGE)
    return folder


def _build(folder: Path, commit: Commit, dist: Path, *, umask: int) -> tuple[Path, Path]:
    _hatchling(folder, commit, dist, targets=("sdist", "wheel"), umask=umask)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return sdist, wheel


def _hatchling(folder: Path, commit: Commit, dist: Path, *, targets: Sequence[str], umask: int) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(dist.absolute())]
    command += [word for target in targets for word in ("-t", target)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(int(commit.time.timestamp()))}
    done = subprocess.run(
        command, cwd=folder, env=environment, umask=umask, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode != 0:
        raise ReleaseError(f"hatchling failed:\n{done.stdout}{done.stderr}")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        raise ReleaseError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")
