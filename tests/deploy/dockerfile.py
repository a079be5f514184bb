"""A Dockerfile as a list of instructions, and its build stage played on this machine, because no engine runs here.

It understands what deploy/Dockerfile uses and no more: `COPY` from the context, `RUN`, and the folders `/build` and
`/opt/parley`, which it puts elsewhere. Users and packages of the second stage are not played.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with its lines joined."""

    word: str
    rest: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The instructions from one FROM to the next."""

    instructions: tuple[Instruction, ...]

    def all(self, word: str) -> list[str]:
        """What stands behind every instruction of a kind."""
        return [each.rest for each in self.instructions if each.word == word]

    def one(self, word: str) -> str:
        """What stands behind the only instruction of a kind."""
        (found,) = self.all(word)
        return found

    def variables(self) -> dict[str, str]:
        """The environment that it sets."""
        return dict(word.split("=", 1) for rest in self.all("ENV") for word in rest.split())


def stages(path: Path) -> list[Stage]:
    """The stages of a Dockerfile."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines()
    instructions = [Instruction(*line.split(" ", 1)) for line in joined]
    starts = [index for index, each in enumerate(instructions) if each.word == "FROM"]
    return [Stage(tuple(instructions[a:b])) for a, b in zip(starts, [*starts[1:], None], strict=True)]


def play(stage: Stage, *, context: Path, ignored: Path, folder: Path) -> Path:
    """Run the build stage: /build and /opt/parley are folders below `folder`. Returns the second."""
    build, installed = folder / "build", folder / "parley"
    build.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for each in stage.instructions:
        if each.word == "COPY":
            *sources, target = each.rest.split()
            for source in sources:
                copy(context / source, build / target, rules(ignored), context)
        elif each.word == "RUN":
            command = each.rest.replace("/opt/parley", str(installed))
            done = subprocess.run(
                ["sh", "-c", command], cwd=build, env={**os.environ, "PATH": path}, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
    return installed


def rules(path: Path) -> list[str]:
    """The lines of a .dockerignore."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def is_sent(name: str, found: list[str]) -> bool:
    """Whether a file of the context reaches the engine: the last rule that matches it, or a folder of it, decides."""
    parts = name.split("/")
    ways = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    sent = True
    for rule in found:
        pattern = rule.removeprefix("!").removeprefix("**/")
        candidates = [*ways, *parts] if "**/" in rule else ways
        if any(fnmatch.fnmatchcase(way, pattern) for way in candidates):
            sent = rule.startswith("!")
    return sent


def copy(source: Path, target: Path, found: list[str], context: Path) -> None:
    """Copy a file or the files of a folder, as far as the engine gets them."""
    files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    sent = [path for path in files if is_sent(path.relative_to(context).as_posix(), found)]
    assert sent, f"{source} is not sent to the engine"
    for path in sent:
        place = target / (path.name if path == source else path.relative_to(source))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
