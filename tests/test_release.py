"""What `make release` is made of: archives that can be built again, exact contents, a bill of materials, advisories."""

import http.server
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scripts.advisories import AdvisoriesUnreachableError, Advisory, find_advisories
from scripts.build_console import STATIC, is_current
from scripts.release import CONSOLE_LOCK, LOCK
from scripts.release_archives import ReleaseError, check_metadata, check_sdist, check_wheel
from scripts.release_build import Built, Commit, build_twice, compare
from scripts.release_install import try_installed
from scripts.sbom import BUNDLED, bundled_packages, check_sbom, make_sbom, read_lock

from parley import __version__

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.xdist_group("release")  # so that the archives are built once
TIME = datetime(2026, 11, 18, 12, 0, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Commit]:
    """This checkout as it is, with its built page, in a repository of its own: nothing depends on what is committed."""
    assert is_current(), "make console"
    root = tmp_path_factory.mktemp("repository") / "parley"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, root / name)
    shutil.copytree(STATIC, root / STATIC.relative_to(ROOT))
    identity = ("-c", "user.name=Tests", "-c", "user.email=tests@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), ("add", "."), (*identity, "commit", "--quiet", "-m", "Everything")):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    return root, Commit.of(root)


@pytest.fixture(scope="module")
def built(commit: tuple[Path, Commit], tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both archives, built twice; the fixture fails if two builds differ."""
    return build_twice(*commit, tmp_path_factory.mktemp("release"))


def test_two_builds_have_the_same_bytes_and_exactly_what_belongs_into_them(
    built: Built, commit: tuple[Path, Commit]
) -> None:
    files = commit[1].files
    check_wheel(built.wheel, files, built.page_files)
    check_sdist(built.sdist, files, built.page_files)
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
    assert {"parley/py.typed", "parley/console/static/index.html"} <= set(names)
    assert not [name for name in names if name.startswith("test") or ".venv" in name or "node_modules" in name]


def test_the_times_in_the_archives_are_those_of_the_commit(built: Built, commit: tuple[Path, Commit]) -> None:
    with tarfile.open(built.sdist) as sdist:
        assert {member.mtime for member in sdist} == {commit[1].time.timestamp()}


def test_a_file_that_does_not_belong_into_a_wheel_is_found(
    built: Built, commit: tuple[Path, Commit], tmp_path: Path
) -> None:
    wheel = tmp_path / built.wheel.name
    shutil.copyfile(built.wheel, wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/test_secret.py", "")
    with pytest.raises(ReleaseError, match=r"Too many: \['tests/test_secret.py'\]"):
        check_wheel(wheel, commit[1].files, built.page_files)


def test_a_file_that_is_missing_in_an_sdist_is_found(built: Built, commit: tuple[Path, Commit]) -> None:
    with pytest.raises(ReleaseError, match=r"Missing: \['.*/src/parley/forgotten.py'\]"):
        check_sdist(built.sdist, [*commit[1].files, "src/parley/forgotten.py"], built.page_files)


def test_an_sdist_that_names_its_builder_is_refused(tmp_path: Path) -> None:
    sdist = tmp_path / "parley_a2a-1.0.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        member = tarfile.TarInfo("parley_a2a-1.0/PKG-INFO")
        member.uname = "ada"
        archive.addfile(member, io.BytesIO())
    with pytest.raises(ReleaseError, match="names the user who built it"):
        check_sdist(sdist, [], [])


def test_two_builds_that_differ_are_told(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "a.whl", tmp_path / "other" / "a.whl"
    for path, content in ((one, b"1"), (other, b"2")):
        path.parent.mkdir()
        path.write_bytes(content)
    with pytest.raises(ReleaseError, match="not reproducible"):
        compare(one, other)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (("Name: parley-a2a", "Name: -"), "invalid"),
        (("License-Expression: Apache-2.0\n", ""), "no license"),
        (("text/markdown", "text/plain"), "must be Markdown"),
        (("# Parley", "Parley"), "does not render"),
    ],
)
def test_metadata_that_an_index_would_refuse_is_found(built: Built, changed: tuple[str, str], problem: str) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = archive.read(name).decode()
    check_metadata(metadata.encode())
    assert changed[0] in metadata
    with pytest.raises(ReleaseError, match=problem):
        check_metadata(metadata.replace(*changed, 1).encode())


def test_uncommitted_changes_are_not_released(commit: tuple[Path, Commit], tmp_path: Path) -> None:
    root = tmp_path / "changed"
    subprocess.run(["git", "clone", "--quiet", commit[0], root], check=True)
    assert Commit.of(root) == commit[1]
    (root / "README.md").write_text("changed")
    with pytest.raises(ReleaseError, match=r"README\.md"):
        Commit.of(root)


def test_an_installed_command_is_tried_with_a_served_agent(tmp_path: Path) -> None:
    parley = Path(sys.executable).parent / "parley"
    try_installed(parley, version=__version__, folder=tmp_path)
    with pytest.raises(ReleaseError, match=r"must print 99\.0"):
        try_installed(parley, version="99.0", folder=tmp_path)


# --- the bill of materials --------------------------------------------------------------------------------------------


def test_the_bill_of_materials_has_every_dependency_with_hashes_and_names_no_host(built: Built) -> None:
    sbom = make_sbom(built.wheel, built.sdist, LOCK, CONSOLE_LOCK, TIME)
    check_sbom(sbom)
    assert sbom == make_sbom(built.wheel, built.sdist, LOCK, CONSOLE_LOCK, TIME)
    components = {part["name"]: part for part in sbom["components"]}
    assert components["msgspec"]["scope"] == "required"
    assert components["asyncpg"]["scope"] == "optional"
    assert components["preact"]["purl"].startswith("pkg:npm/preact@")
    assert components["msgspec"]["licenses"] == [{"expression": "BSD-3-Clause"}]
    assert "pytest" not in components
    assert re.findall(r"https?://[^\"/]+", json.dumps(sbom)) == ["http://cyclonedx.org"]
    assert sbom["metadata"]["timestamp"] == "2026-11-18T12:00:30Z"


def test_every_package_that_the_page_of_the_console_imports_is_in_the_bill_of_materials() -> None:
    sources = [path for path in (ROOT / "console" / "src").rglob("*.ts*") if ".test." not in path.name]
    imported = {name for path in sources for name in re.findall(r"""from ["']([^."'][^"']*)["']""", path.read_text())}
    assert {name.split("/")[0] for name in imported} == set(BUNDLED)


def test_a_bill_of_materials_with_a_fault_is_refused(built: Built) -> None:
    sbom = make_sbom(built.wheel, built.sdist, LOCK, CONSOLE_LOCK, TIME)
    first, *rest = sbom["components"]
    without_hash = {**first, "hashes": []}
    with pytest.raises(ReleaseError, match=r"\$\.components\[0\]\.hashes"):
        check_sbom({**sbom, "components": [without_hash, *rest]})
    with pytest.raises(ReleaseError, match="do not fit"):
        check_sbom({**sbom, "components": rest})


def test_a_lock_is_read_with_all_hashes_of_a_package(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    one, other = "0" * 64, "1" * 64
    lock.write_text(
        f"Some.Thing==1.2 ; python_version > '3' \\\n    --hash=sha256:{other} \\\n    --hash=sha256:{one}\n"
    )
    (package,) = read_lock(lock).values()
    assert (package.name, package.version, list(package.hashes)) == ("some-thing", "1.2", [one, other])


# --- advisories -------------------------------------------------------------------------------------------------------


@contextmanager
def advisory_source(*answers: Any, status: int = 200) -> Generator[tuple[str, list[Any]]]:
    """A source like OSV that gives these answers, one after the other; its URL, and what it was asked."""
    asked: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            content = json.dumps(answers[len(asked) - 1]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_advisories_are_asked_for_by_name_and_version() -> None:
    with advisory_source({"results": [{}, {"vulns": [{"id": "GHSA-1"}, {"id": "PYSEC-2"}]}]}) as (url, asked):
        found = find_advisories({"b": "2.0", "a": "1.0"}, url)
    assert found == [Advisory("b", "2.0", "GHSA-1"), Advisory("b", "2.0", "PYSEC-2")]
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": at} for name, at in (("a", "1.0"), ("b", "2.0"))
    ]
    assert asked == [("/v1/querybatch", {"queries": queries})]


def test_advisories_on_further_pages_are_found() -> None:
    answers = [
        {"results": [{"next_page_token": "more"}, {"vulns": [{"id": "GHSA-2"}]}]},
        {"results": [{"vulns": [{"id": "GHSA-1"}]}]},
    ]
    with advisory_source(*answers) as (url, asked):
        found = find_advisories({"a": "1.0", "b": "2.0"}, url, ecosystem="npm")
    assert found == [Advisory("b", "2.0", "GHSA-2"), Advisory("a", "1.0", "GHSA-1")]
    query = {"package": {"name": "a", "ecosystem": "npm"}, "version": "1.0", "page_token": "more"}
    assert asked[1] == ("/v1/querybatch", {"queries": [query]})


def test_a_source_whose_pages_do_not_end_has_not_checked_everything() -> None:
    endless = {"results": [{"next_page_token": "more"}]}
    with (
        advisory_source(endless, endless) as (url, _),
        pytest.raises(AdvisoriesUnreachableError, match="repeats a page"),
    ):
        find_advisories({"a": "1.0"}, url)


def test_what_is_bundled_into_the_page_has_locked_versions() -> None:
    versions = bundled_packages(CONSOLE_LOCK)
    assert set(versions) == set(BUNDLED)
    assert all(re.fullmatch(r"[0-9]+(\.[0-9]+)+", version) for version in versions.values())


@pytest.mark.parametrize(("answer", "status"), [({"results": []}, 200), ([], 200), ({}, 503)])
def test_a_source_that_answers_something_else_has_checked_nothing(answer: Any, status: int) -> None:
    with (
        advisory_source(answer, status=status) as (url, _),
        pytest.raises(AdvisoriesUnreachableError, match=re.escape(url)),
    ):
        find_advisories({"a": "1.0"}, url)


def test_a_source_that_cannot_be_reached_is_told_apart_from_one_without_findings() -> None:
    with advisory_source({}) as (url, _):
        pass
    with pytest.raises(AdvisoriesUnreachableError, match="cannot be reached"):
        find_advisories({"a": "1.0"}, url)
