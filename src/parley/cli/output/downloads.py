"""Where files of agents are saved: in one directory, under a name that cannot lead out of it, over no other file."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from parley.protocol.messages import RawPart

LONGEST_NAME = 120
"""Bytes of a name that every file system takes, with room for a number."""


SaveDirectory = Annotated[
    Path | None, typer.Option("--save", metavar="DIR", help="Where files go that the agent sends.")
]


def downloads_in(save: Path | None, *, as_json: bool) -> Downloads | None:
    """Where files go, if anywhere.

    Raises:
        BadParameter: they go to a program already.
    """
    if save is not None and as_json:
        raise typer.BadParameter("With --json, files are in the output.", param_hint="--save")
    return None if save is None else Downloads(save)


@dataclass(frozen=True, slots=True)
class Downloads:
    """A directory for files of agents."""

    directory: Path

    def save(self, part: RawPart) -> Path:
        """Write the file and give its path; a name that is taken gets a number.

        Raises:
            OSError: it cannot be written.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        name = Path(safe_name(part))
        for number in count(1):
            path = self.directory / (name if number == 1 else f"{name.stem}-{number}{name.suffix}")
            try:
                with path.open("xb") as file:  # x: never over a file that is there, nor through a link
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
    name = name.encode()[-LONGEST_NAME:].decode(errors="ignore").lstrip(". -")
    return name or f"file{mimetypes.guess_extension(part.media_type or '') or '.bin'}"
