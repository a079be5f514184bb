"""Saves files that agents send: in one directory, under a safe name, and never over another file."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from parley.protocol.messages import RawPart

MAX_NAME = 120
"""Bytes of a name that every file system accepts, with room for a number."""

SaveDirectory = Annotated[
    Path | None, typer.Option("--save", metavar="DIR", help="Save files that the agent sends in this directory.")
]


def downloads_in(save: Path | None, *, as_json: bool) -> Downloads | None:
    """The directory for files, if any.

    Raises:
        BadParameter: with `--json`, files are in the output.
    """
    if save is not None and as_json:
        raise typer.BadParameter("Not with --json, which has files in the output.", param_hint="--save")
    return None if save is None else Downloads(save)


@dataclass(frozen=True, slots=True)
class Downloads:
    """A directory for files of agents."""

    directory: Path

    def save(self, part: RawPart) -> Path:
        """Write the file and return its path; a number is added to a name that is taken.

        Raises:
            OSError: it cannot be written.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        name = Path(safe_name(part))
        for number in count(1):
            path = self.directory / (name if number == 1 else f"{name.stem}-{number}{name.suffix}")
            try:
                with path.open("xb") as file:  # x: neither overwrites a file nor follows a link
                    file.write(part.raw)
            except FileExistsError:
                continue
            return path
        raise AssertionError("count never ends")


def safe_name(part: RawPart) -> str:
    """A name for the file: the agent's, without directories, control characters and leading dots.

    >>> safe_name(RawPart(b"", "text/plain", "../../.bashrc"))
    'bashrc'
    """
    name = re.split(r"[/\\]", part.filename or "")[-1]
    name = re.sub(r"[^\w .()+,=@-]", "_", name).rstrip(". ")
    name = name.encode()[-MAX_NAME:].decode(errors="ignore").lstrip(". -")
    return name or f"file{mimetypes.guess_extension(part.media_type or '') or '.bin'}"
