"""What an sdist and a wheel must hold: exactly these files, metadata that an index accepts, and no trace of a machine.

Both are compared with what git has, so a file that is forgotten or too many fails, and so does an absolute path or the
name of a user. The long description must be Markdown that renders.
"""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from configparser import ConfigParser
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from packaging.metadata import InvalidMetadata, Metadata

PACKAGE = "src/parley/"
PAGE = "parley/console/static/"
WITH_THE_SOURCES = (
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "hatch_build.py",
    "pyproject.toml",
    "scripts/build_console.py",
)
"""Single files of the sdist: what builds the wheel, and what its reader should know. hatchling adds .gitignore."""
IN_DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
ENTRY_POINTS = {"console_scripts": {"parley": "parley.cli.main:main"}}


class ReleaseError(Exception):
    """Something keeps this commit from being released."""


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check_wheel(wheel: Path, committed: Iterable[str], page: Iterable[str]) -> None:
    """Compare a wheel with what git has and with the built page, and check its metadata.

    Raises:
        ReleaseError: a file is missing or too many, or the metadata is wrong.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = next((name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info")), "")
        expected = {name.removeprefix("src/") for name in committed if name.startswith(PACKAGE)}
        expected |= {f"{PAGE}{name}" for name in page} | {f"{folder}/{name}" for name in IN_DIST_INFO}
        _compare_names(wheel.name, names, expected)
        if "parley/py.typed" not in names:
            raise ReleaseError(f"{wheel.name} has no parley/py.typed: its users would have no types.")
        check_metadata(archive.read(f"{folder}/METADATA"))
        _check_entry_points(archive.read(f"{folder}/entry_points.txt").decode())
        _check_traces(wheel.name, ((name, archive.read(name)) for name in names))


def check_sdist(sdist: Path, committed: Iterable[str], page: Iterable[str]) -> None:
    """Compare an sdist with what git has and with the built page, and check its metadata.

    Raises:
        ReleaseError: a file is missing or too many, names its builder, or the metadata is wrong.
    """
    root = sdist.name.removesuffix(".tar.gz")
    expected = {f"src/{PAGE}{name}" for name in page} | {"PKG-INFO"}
    expected |= {name for name in committed if name in WITH_THE_SOURCES or name.startswith(PACKAGE)}
    expected |= {name for name in committed if name.startswith("console/") and ".test." not in name}
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
        _compare_names(sdist.name, [member.name for member in members], {f"{root}/{name}" for name in expected})
        for member in members:
            if not member.isfile() or member.uid or member.gid or member.uname or member.gname:
                raise ReleaseError(f"{sdist.name}: {member.name} is a link, or names the user who built it.")
        contents = {member.name: _read(archive, member) for member in members}
    check_metadata(contents[f"{root}/PKG-INFO"])
    _check_traces(sdist.name, contents.items())


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None  # only links have none
    return file.read()


def _compare_names(archive: str, names: Sequence[str], expected: set[str]) -> None:
    missing, surplus = sorted(expected - set(names)), sorted(set(names) - expected)
    if missing or surplus or len(names) != len(set(names)):
        raise ReleaseError(f"{archive} must hold exactly what belongs there. Missing: {missing}. Too many: {surplus}.")


def check_metadata(content: bytes) -> None:
    """Check core metadata as an index does, and that the long description renders.

    Raises:
        ReleaseError: a field is invalid or missing.
    """
    try:
        metadata = Metadata.from_email(content, validate=True)
    except ExceptionGroup as error:
        problems = "; ".join(str(problem) for problem in error.exceptions)
        raise ReleaseError(f"The metadata is invalid: {problems}") from error
    except InvalidMetadata as error:
        raise ReleaseError(f"The metadata is invalid: {error}") from error
    if metadata.license_expression is None or not metadata.license_files:
        raise ReleaseError("The metadata names no license.")
    if metadata.description_content_type != "text/markdown" or not metadata.description:
        raise ReleaseError("The long description must be Markdown.")
    if "<h1>" not in MarkdownIt().render(metadata.description):
        raise ReleaseError("The long description does not render: it has no title.")


def _check_entry_points(text: str) -> None:
    parser = ConfigParser()
    parser.read_string(text)
    found = {section: dict(parser[section]) for section in parser.sections()}
    if found != ENTRY_POINTS:
        raise ReleaseError(f"The entry points must be {ENTRY_POINTS}, and are {found}.")


def _check_traces(archive: str, contents: Iterable[tuple[str, bytes]]) -> None:
    """Nothing in an archive may name the folder or the home of its builder."""
    traces = {str(path).encode() for path in (Path.home(), Path(__file__).absolute().parent.parent)}
    traces = {trace for trace in traces if len(PurePosixPath(trace.decode()).parts) > 2}  # /root is a common word
    for name, content in contents:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ReleaseError(f"{archive}: the path {name} leads outside.")
        for trace in traces:
            if trace + b"/" in content:
                raise ReleaseError(f"{archive}: {name} names a folder of this machine: {trace.decode()}")
