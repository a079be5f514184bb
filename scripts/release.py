"""Makes a release of the last commit in dist/: sdist, wheel, SBOM and digests, each of them checked.

python -m scripts.release                  everything
python -m scripts.release --accept GHSA-…  although this advisory applies

Both archives are built twice, in folders of different names, from what git has; a difference in one byte fails. A wheel
that is built from the sdist must be the same again. Then the wheel is installed into an empty environment of every
supported Python on this machine, serves an agent and calls it. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.advisories import OSV, AdvisoriesUnreachableError, find_advisories
from scripts.build_console import STATIC, ConsoleBuildError, build_and_report, is_current
from scripts.release_archives import ReleaseError, check_sdist, check_wheel, digest_of
from scripts.release_build import Commit, build_twice, check_page_is_reproducible
from scripts.release_install import try_wheel
from scripts.sbom import bundled_packages, check_sbom, locked_packages, make_sbom
from scripts.test_pythons import SUPPORTED, find

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "locks" / "dev.lock"
CONSOLE_LOCK = ROOT / "console" / "package-lock.json"


def release(dist: Path, *, advisories: str, accepted: Sequence[str], pythons: Sequence[str]) -> None:
    """Build and check everything, and put it into `dist`.

    Raises:
        ReleaseError: something is not as it must be. `dist` is as before.
    """
    commit = Commit.of(ROOT)
    print(f"Releasing commit {commit.id[:12]} of {commit.time:%Y-%m-%d %H:%M:%S} UTC", flush=True)
    if not is_current():
        build_and_report(is_strict=True)
    check_page_is_reproducible(STATIC)
    print("page of the console: built twice, the same bytes", flush=True)
    with tempfile.TemporaryDirectory(prefix="parley-release-") as scratch:
        built = build_twice(ROOT, commit, Path(scratch))
        print("sdist and wheel: built twice, the same bytes; so is the wheel from the sdist", flush=True)
        check_wheel(built.wheel, commit.files, built.page_files)
        check_sdist(built.sdist, commit.files, built.page_files)
        print("contents, metadata, long description, py.typed, entry point: as they must be", flush=True)
        for version in pythons:
            _try_on(version, built.wheel, Path(scratch))
        sbom = make_sbom(built.wheel, built.sdist, LOCK, CONSOLE_LOCK, commit.time)
        check_sbom(sbom)
        _check_advisories(advisories, accepted)
        file = Path(scratch) / f"{built.wheel.name.split('-py3')[0]}.cdx.json"
        file.write_text(json.dumps(sbom, indent=2, ensure_ascii=False) + "\n")
        _publish([built.sdist, built.wheel, file], dist)


def _try_on(version: str, wheel: Path, scratch: Path) -> None:
    interpreter = find(version)
    if interpreter is None:
        print(f"Python {version}: not found on this machine, NOT tried", flush=True)
        return
    try_wheel(wheel, interpreter, LOCK, scratch / f"python{version}")
    print(f"Python {version}: installed, serves an agent and calls it", flush=True)


def _check_advisories(source: str, accepted: Sequence[str]) -> None:
    packages, bundled = locked_packages(LOCK), bundled_packages(CONSOLE_LOCK)
    number = len(packages) + len(bundled)
    try:
        found = [*find_advisories(packages, source), *find_advisories(bundled, source, ecosystem="npm")]
    except AdvisoriesUnreachableError as error:
        print(f"advisories: NOT CHECKED. {error} Check {number} locked packages where it can be reached.")
        return
    open_ones = [advisory for advisory in found if advisory.id not in accepted]
    if open_ones:
        listed = "\n".join(f"  {advisory.package} {advisory.version}: {advisory.id}" for advisory in open_ones)
        raise ReleaseError(
            f"Advisories apply to locked packages. Upgrade them, or accept each with --accept:\n{listed}"
        )
    print(f"advisories: {number} locked packages checked, {len(found)} accepted, none open")


def _publish(files: Sequence[Path], dist: Path) -> None:
    dist.mkdir(exist_ok=True)
    lines = [f"{digest_of(file)}  {file.name}" for file in files]
    for file in files:
        shutil.copyfile(file, dist / file.name)
    (dist / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")
    print(f"Check them with: cd {dist.name} && sha256sum --check SHA256SUMS")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to put the files")
    parser.add_argument("--advisories", default=OSV, metavar="URL", help="an API like that of OSV")
    parser.add_argument("--accept", action="append", default=[], metavar="ID", help="an advisory to go on with")
    parser.add_argument("--python", action="append", choices=SUPPORTED, help="only these versions")
    options = parser.parse_args(arguments)
    try:
        release(
            options.dist,
            advisories=options.advisories,
            accepted=options.accept,
            pythons=options.python or SUPPORTED,
        )
    except (ReleaseError, ConsoleBuildError, subprocess.SubprocessError) as error:
        print(f"Not released: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
