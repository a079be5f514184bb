"""The software bill of materials of a release, as CycloneDX 1.6 JSON: what is in the wheel, and what it needs.

Versions and hashes come from the lock, licences and requirements from the metadata of the installed packages, and the
one package that is bundled into the console's page from its own lock. It names no download host. The same commit gives
the same bytes. Packages of another platform are locked but not installed: they are listed without a licence.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, distribution
from importlib.metadata import metadata as metadata_of
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.release_archives import ReleaseError, digest_of

NAME = "parley-a2a"
BUNDLED = ("preact",)
"""The packages of npm that are in the page of the console. The others of its lock only build it."""
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
SERIAL = uuid.UUID("6d5b0b53-8ad4-4b8c-9a53-8b2d0f3d6c1e")
"""The namespace of the serial numbers, which are made from the digests of the archives."""


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One package of a lock."""

    name: str
    version: str
    hashes: Sequence[str]
    """The SHA-256 of each of its files, for all platforms."""


def read_lock(lock: Path) -> Mapping[str, LockedPackage]:
    """The packages of a lock by their normalized names. Of one that is locked in several versions, the first."""
    packages: dict[str, LockedPackage] = {}
    for entry in lock.read_text().replace("\\\n", " ").splitlines():
        pinned = PINNED.match(entry)
        if pinned:
            name = canonicalize_name(pinned[1])
            packages.setdefault(name, LockedPackage(name, pinned[2], sorted(HASH.findall(entry))))
    return packages


def locked_packages(lock: Path) -> Mapping[str, str]:
    """Name and version of every package of a lock."""
    return {name: package.version for name, package in read_lock(lock).items()}


def bundled_packages(console_lock: Path) -> Mapping[str, str]:
    """Name and version of every package of npm that is in the page of the console."""
    packages = json.loads(console_lock.read_text())["packages"]
    return {name: packages[f"node_modules/{name}"]["version"] for name in BUNDLED}


def make_sbom(wheel: Path, sdist: Path, lock: Path, console_lock: Path, time: datetime) -> dict[str, Any]:
    """The bill of materials of two archives.

    Raises:
        ReleaseError: a package that is needed is not locked, or has no hash.
    """
    version = wheel.name.split("-")[1]
    needed = requirements_of(NAME, read_lock(lock))
    always = _reachable(needed, needed[NAME].without_extras)
    bundled = _bundled(console_lock)
    root = f"pkg:pypi/{NAME}@{version}"
    files = [_file(path) for path in (sdist, wheel)]
    digests = "".join(str(file["hashes"][0]["content"]) for file in files)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SERIAL, digests)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "scripts/sbom.py", "version": version}]},
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": NAME,
                "version": version,
                "licenses": _licenses(NAME),
                "purl": root,
                "components": files,
            },
        },
        "components": [
            *(
                _component(part.package, is_optional=name not in always)
                for name, part in needed.items()
                if name != NAME
            ),
            *bundled,
        ],
        "dependencies": [
            {"ref": root, "dependsOn": sorted([*_refs(needed, NAME), *(str(part["bom-ref"]) for part in bundled)])},
            *(
                {"ref": _ref(part.package), "dependsOn": _refs(needed, name)}
                for name, part in needed.items()
                if name != NAME
            ),
            *({"ref": part["bom-ref"], "dependsOn": []} for part in bundled),
        ],
    }


# --- what is needed ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Needed:
    """A package, and what it requires itself."""

    package: LockedPackage
    requires: Sequence[str]
    without_extras: Sequence[str]
    """Those of them that it requires without any extra."""


def requirements_of(name: str, locked: Mapping[str, LockedPackage]) -> dict[str, Needed]:
    """Every package that `name` requires with its extra `all`, and what those require, by name and sorted.

    Raises:
        ReleaseError: one of them is not locked.
    """
    found: dict[str, Needed] = {}
    extras: dict[str, set[str]] = {name: {"all"}}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        package = locked.get(each) or LockedPackage(each, "", ())
        if each != name and not package.hashes:
            raise ReleaseError(f"{each} is needed, but has no hash in the lock.")
        required, without = _required(each, extras[each], locked)
        found[each] = Needed(package, sorted(required), sorted(without))
        for other, wanted in required.items():
            if other not in found or not wanted <= extras[other]:
                extras[other] = extras.get(other, set()) | wanted
                waiting.append(other)
    return dict(sorted(found.items()))


def _required(name: str, extras: set[str], locked: Mapping[str, LockedPackage]) -> tuple[dict[str, set[str]], set[str]]:
    """What an installed package requires on any platform: extras by name, and the names that need no extra."""
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:  # of another platform
        return {}, set()
    required: dict[str, set[str]] = {}
    without: set[str] = set()
    waiting, seen = ["", *sorted(extras)], set[str]()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in map(Requirement, lines):
            other = canonicalize_name(requirement.name)
            if not _applies(requirement, extra):
                continue
            if other == name:  # an extra that names others
                waiting += requirement.extras
            elif other in locked:  # else of an old Python or another platform, which the lock leaves out
                required[other] = required.get(other, set()) | requirement.extras
                without |= {other} if not extra else set()
    return required, without


def _applies(requirement: Requirement, extra: str) -> bool:
    """Whether a requirement belongs to an extra, or to the package itself for an empty one; on whatever platform."""
    text = str(requirement.marker or "")
    named = re.findall(r"extra == ['\"]([^'\"]+)['\"]", text)
    return extra in named if extra else not named


def _reachable(needed: Mapping[str, Needed], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needed[name].requires
    return found


# --- parts of the document --------------------------------------------------------------------------------------------


def _component(package: LockedPackage, *, is_optional: bool) -> dict[str, Any]:
    licenses = _licenses(package.name)
    return {
        "type": "library",
        "bom-ref": _ref(package),
        "name": package.name,
        "version": package.version,
        "scope": "optional" if is_optional else "required",
        "hashes": [{"alg": "SHA-256", "content": content} for content in package.hashes],
        **({"licenses": licenses} if licenses else {}),
        "purl": _ref(package),
    }


def _bundled(console_lock: Path) -> list[dict[str, Any]]:
    packages = json.loads(console_lock.read_text())["packages"]
    found: list[dict[str, Any]] = []
    for name in BUNDLED:
        locked = packages[f"node_modules/{name}"]
        algorithm, _, digest = locked["integrity"].partition("-")
        ref = f"pkg:npm/{name}@{locked['version']}"
        found.append(
            {
                "type": "library",
                "bom-ref": ref,
                "name": name,
                "version": locked["version"],
                "scope": "required",
                "hashes": [
                    {"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}
                ],
                "licenses": [{"expression": locked["license"]}],
                "purl": ref,
            }
        )
    return found


def _file(path: Path) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"file:{path.name}",
        "name": path.name,
        "hashes": [{"alg": "SHA-256", "content": digest_of(path)}],
    }


def _licenses(name: str) -> list[dict[str, Any]]:
    """An SPDX expression if the package gives one, or else the names that it gives."""
    try:
        metadata = metadata_of(name)
    except PackageNotFoundError:
        return []
    if metadata.get("License-Expression"):
        return [{"expression": metadata["License-Expression"]}]
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License :: ")]
    names = sorted({line.rpartition(" :: ")[2] for line in classifiers})
    if not names and metadata.get("License"):
        names = [metadata["License"].strip().splitlines()[0]]
    return [{"license": {"name": each}} for each in names]


def _ref(package: LockedPackage) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _refs(needed: Mapping[str, Needed], name: str) -> list[str]:
    return [_ref(needed[other].package) for other in needed[name].requires]


# --- its shape --------------------------------------------------------------------------------------------------------

_HASHES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["alg", "content"],
        "properties": {
            "alg": {"enum": ["SHA-256", "SHA-512"]},
            "content": {"type": "string", "pattern": "^([0-9a-f]{64}|[0-9a-f]{128})$"},
        },
        "additionalProperties": False,
    },
}
_NAME: Mapping[str, Any] = {"type": "string", "minLength": 1}
_LICENSES = {
    "type": "array",
    "items": {
        "oneOf": [
            {"required": ["expression"], "properties": {"expression": _NAME}, "additionalProperties": False},
            {
                "required": ["license"],
                "properties": {"license": {"required": ["name"], "properties": {"name": _NAME}}},
                "additionalProperties": False,
            },
        ]
    },
}
_COMPONENT: Mapping[str, Any] = {
    "type": "object",
    "required": ["type", "bom-ref", "name", "version", "scope", "hashes", "purl"],
    "properties": {
        "type": {"const": "library"},
        "bom-ref": _NAME,
        "name": _NAME,
        "version": _NAME,
        "scope": {"enum": ["required", "optional"]},
        "hashes": _HASHES,
        "licenses": _LICENSES,
        "purl": {"type": "string", "pattern": "^pkg:(pypi|npm)/[^@]+@.+$"},
    },
    "additionalProperties": False,
}
SHAPE: Mapping[str, Any] = {
    "type": "object",
    "required": ["bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"],
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "serialNumber": {"type": "string", "pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "version": {"type": "integer", "minimum": 1},
        "metadata": {"required": ["timestamp", "component"]},
        "components": {"type": "array", "minItems": 1, "items": _COMPONENT},
        "dependencies": {"type": "array", "items": {"required": ["ref", "dependsOn"]}},
    },
}
"""The part of the CycloneDX schema that we use, and stricter: a hash and a version for every component."""


def check_sbom(sbom: Mapping[str, Any]) -> None:
    """Check the shape of a bill of materials, and that every reference in it leads somewhere.

    Raises:
        ReleaseError: it is not as CycloneDX asks, or names something that it does not have.
    """
    problem = next(iter(Draft202012Validator(SHAPE).iter_errors(sbom)), None)
    if problem is not None:
        raise ReleaseError(f"The SBOM is invalid at {problem.json_path}: {problem.message[:200]}")
    refs = [part["bom-ref"] for part in (sbom["metadata"]["component"], *sbom["components"])]
    if len(refs) != len(set(refs)):
        raise ReleaseError("The SBOM names a component twice.")
    unknown = {ref for each in sbom["dependencies"] for ref in (each["ref"], *each["dependsOn"])} - set(refs)
    if unknown or len(sbom["dependencies"]) != len(refs):
        raise ReleaseError(f"The dependencies of the SBOM do not fit its components: {sorted(unknown)}")
