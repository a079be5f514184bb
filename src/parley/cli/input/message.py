"""Reads what is to be sent: text, standard input, files and data, before the agent is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec
import typer

from parley.contents import File
from parley.protocol.messages import DataPart, RawPart, UrlPart

MAX_FILE = 100_000_000
"""Bytes of one file. A message is held in memory several times over, and few agents accept as much."""


def read_contents(words: list[str], files: list[str], data: list[str]) -> list[Any]:
    """The contents of a message: text, then files, then data.

    Raises:
        BadParameter: a file cannot be read, data is not JSON, or there is nothing to send.
    """
    text = _read_stdin() if words == ["-"] else " ".join(words)
    contents: list[Any] = [text] if text else []
    contents += map(read_file, files)
    contents += map(_read_data, data)
    if not contents:
        raise typer.BadParameter("There is nothing to send. Give a text, --file or --data.", param_hint="TEXT")
    return contents


def read_file(name: str) -> RawPart | UrlPart:
    """The part for a file, or for the URL of one.

    Raises:
        BadParameter: it cannot be read.
    """
    if name.startswith(("https://", "http://")):
        path = unquote(urlsplit(name).path).rstrip("/")
        return File(name, path.rsplit("/", 1)[-1] or None).part()
    return File(_read_path(name, "--file"), Path(name).name).part()


def _read_data(text: str) -> DataPart:
    raw = _read_path(text[1:], "--data") if text.startswith("@") else text.encode(errors="surrogateescape")
    try:
        return DataPart(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise typer.BadParameter(f"Invalid JSON: {error}", param_hint="--data") from error


def _read_stdin() -> str:
    try:
        return _read(sys.stdin.buffer, "Standard input", "TEXT").decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            "Standard input is not UTF-8 text. Send it with --file /dev/stdin.", param_hint="TEXT"
        ) from error


def _read_path(name: str, option: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return _read(file, name, option)
    except (OSError, ValueError) as error:  # some names are not valid for the system
        raise typer.BadParameter(
            f"{name} cannot be read: {getattr(error, 'strerror', error)}", param_hint=option
        ) from error


def _read(file: BinaryIO, name: str, option: str) -> bytes:
    """The whole file, which may be a device or a pipe of unknown length."""
    content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise typer.BadParameter(
            f"{name} has more than {MAX_FILE // 1_000_000} MB. Put it where the agent can fetch it, and send its URL.",
            param_hint=option,
        )
    return content
