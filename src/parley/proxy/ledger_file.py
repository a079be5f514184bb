"""A ledger that outlives its proxy: a file with one line of JSON for each name, written as it is given.

The file is for its owner only. It is read and written anew when a proxy starts, so it holds what is remembered and no
more. A line is with the system when its caller gets an answer: a proxy that is killed loses nothing, a machine that
loses its power may lose the last lines. Two proxies must not share one, so where a system has no file locks (Windows)
there is no such ledger: `ledger_in` refuses.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import msgspec

from parley.file_lock import lock_file
from parley.proxy.ledger import REMEMBERED, Entry, Ledger

logger = logging.getLogger(__name__)


@contextmanager
def ledger_in(file: Path, *, size: int = REMEMBERED) -> Generator[Ledger]:
    """A ledger that remembers what is in a file, and writes down there what it is told.

    Raises:
        OSError: the file cannot be read, written or locked, or another proxy has it.
    """
    with _owned(file) as lines:
        ledger = Ledger(size=size)
        for entry in _entries(lines, file):
            ledger.take(entry)
        _rewrite(lines, (*ledger.tasks.entries(), *ledger.contexts.entries()))

        def write(entry: Entry) -> None:
            lines.write(msgspec.json.encode(entry) + b"\n")

        ledger.on_write = write
        yield ledger


@contextmanager
def _owned(file: Path) -> Generator[FileIO]:
    """The file, open and for this process alone."""
    with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as lines:
        try:
            is_ours = lock_file(lines.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file)) from error
        if not is_ours:
            raise OSError(errno.EAGAIN, "another proxy has it", str(file))
        os.fchmod(lines.fileno(), 0o600)
        yield lines


def _entries(lines: FileIO, file: Path) -> Generator[Entry]:
    decode = msgspec.json.Decoder(Entry).decode
    for number, line in enumerate(lines.read().splitlines(), 1):
        try:
            yield decode(line)
        except msgspec.DecodeError:  # half a line, of a machine that stopped
            logger.warning("%s: line %d cannot be read and is left out", file, number)


def _rewrite(lines: FileIO, entries: Iterable[Entry]) -> None:
    lines.seek(0)
    lines.truncate()
    lines.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
