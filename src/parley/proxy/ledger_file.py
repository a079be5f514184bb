"""A ledger in a file, with one line of JSON for each name.

Only the owner can read the file. It is read and rewritten when a proxy starts, so that it does not grow. A line is
written before its caller gets an answer: a proxy that is killed loses nothing, but a power failure may lose the last
lines. Two proxies must not share a file, so `ledger_in` fails on systems without file locks (Windows).
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
from parley.proxy.ledger import MAX_ENTRIES, Entry, Ledger

logger = logging.getLogger(__name__)


@contextmanager
def ledger_in(file: Path, *, size: int = MAX_ENTRIES) -> Generator[Ledger]:
    """A ledger that reads its entries from a file and writes new ones there.

    Raises:
        OSError: the file cannot be read, written or locked, or another proxy uses it.
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
        except msgspec.DecodeError:  # an incomplete line, after a power failure
            logger.warning("%s: line %d cannot be read and is ignored", file, number)


def _rewrite(lines: FileIO, entries: Iterable[Entry]) -> None:
    lines.seek(0)
    lines.truncate()
    lines.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
