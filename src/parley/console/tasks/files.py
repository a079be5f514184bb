"""Files of artifacts, read from the log piece by piece: memory does not grow with the artifact.

A part of an artifact is what the fold of the log makes of it: files and data as they were emitted, and plain texts that
follow each other as one part. The log is read twice: to find out which events a part is made of, and to send them. So
at most one page of events, or one event if it is longer, is in memory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncGenerator
from itertools import groupby
from urllib.parse import quote

import msgspec
from msgspec import Struct

from parley.console.api.errors import ConsoleError
from parley.console.tasks.access import TaskAccess
from parley.protocol.events import ArtifactUpdate, TaskEvent
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart, is_plain_text, joined
from parley.stores.interface import TaskHead

PAGE_EVENTS = 1_000
PAGE_CHARACTERS = 256_000

MOST_PIECES = 1_000_000
"""Parts of all updates of an artifact that are remembered, for some 100 bytes each."""

MAX_NAME = 100
"""Characters of the name of a download."""

CHUNK = 64 * 1024


class PieceOfPart(Struct, frozen=True, gc=False):
    """A part of an update of an artifact: the number of its event, and its place there."""

    seq: int
    index: int


class FilePart(Struct, frozen=True):
    """A part of an artifact as a file."""

    name: str
    size: int | None
    pieces: list[PieceOfPart]


async def find_part(access: TaskAccess, head: TaskHead, artifact_id: str, number: int, at: int) -> FilePart:
    """A part of an artifact as it was after an event. Parts are numbered from 0.

    Raises:
        ConsoleError: there is no such part, or it is only a link to a file elsewhere.
    """
    layout = _Layout()
    async for seq, event in _events(access, head, 0, at):
        if isinstance(event, ArtifactUpdate) and event.artifact.artifact_id == artifact_id:
            layout.update(seq, event)
    parts = layout.parts()
    if not 0 <= number < len(parts):
        raise ConsoleError("not_found", "The task has no such file")
    pieces = parts[number]
    first = await _piece(access, head, pieces[0])
    if isinstance(first, UrlPart):
        raise ConsoleError("not_found", "The agent has named this file by its URL only")
    size = len(first.raw) if isinstance(first, RawPart) else None
    return FilePart(_name_of(first, artifact_id, number), size, pieces)


class _Layout:
    """Which pieces the parts of an artifact are made of, as the fold of a log puts them together (`lifecycle`)."""

    def __init__(self) -> None:
        self._pieces: list[tuple[PieceOfPart, bool, bool]] = []
        """Each with whether it is plain text, and whether it is empty then."""
        self._has_grown = False
        self._is_there = False

    def update(self, seq: int, event: ArtifactUpdate) -> None:
        """Count an update. Raises ConsoleError if the artifact has too many parts."""
        new = [
            (PieceOfPart(seq, index), bool(is_plain_text(part)), isinstance(part, TextPart) and not part.text)
            for index, part in enumerate(event.artifact.parts)
        ]
        if not (event.append and self._is_there):
            self._pieces, self._has_grown, self._is_there = new, False, True
        elif self._has_grown or joined(event.artifact.parts):
            self._pieces += new
            self._has_grown = True
        if len(self._pieces) > MOST_PIECES:
            raise ConsoleError("too_large", "The artifact has too many parts")

    def parts(self) -> list[list[PieceOfPart]]:
        """The pieces of each part. In an artifact that grew, neighbouring plain texts are one, and none is empty."""
        if not self._has_grown:
            return [[piece] for piece, _, _ in self._pieces]
        found: list[list[PieceOfPart]] = []
        for is_plain, group in groupby(self._pieces, key=lambda each: each[1]):
            if not is_plain:
                found += [[piece] for piece, _, _ in group]
            elif texts := [piece for piece, _, is_empty in group if not is_empty]:
                found.append(texts)
        return found


async def read_part(access: TaskAccess, head: TaskHead, part: FilePart) -> AsyncGenerator[bytes | memoryview]:
    """The bytes of a part in chunks: of a file its bytes, of a text UTF-8, and of data its JSON."""
    pieces = iter(part.pieces)
    wanted = next(pieces, None)
    if wanted is None:
        return
    async for seq, event in _events(access, head, wanted.seq - 1, part.pieces[-1].seq):
        while wanted is not None and wanted.seq == seq:
            assert isinstance(event, ArtifactUpdate)
            content = memoryview(_bytes_of(event.artifact.parts[wanted.index]))
            for begin in range(0, len(content), CHUNK):
                yield content[begin : begin + CHUNK]
            del content
            wanted = next(pieces, None)
        del event
        if wanted is None:
            return


async def _piece(access: TaskAccess, head: TaskHead, piece: PieceOfPart) -> Part:
    async for _, event in _events(access, head, piece.seq - 1, piece.seq):
        if isinstance(event, ArtifactUpdate):
            return event.artifact.parts[piece.index]
    raise ConsoleError("not_found", "The task was deleted")


async def _events(access: TaskAccess, head: TaskHead, after: int, until: int) -> AsyncGenerator[tuple[int, TaskEvent]]:
    while after < until:
        limit = min(PAGE_EVENTS, until - after)
        page = list(await access.store.tasks.events(head.key, after=after, limit=limit, size=PAGE_CHARACTERS))
        if not page:
            return
        after = page[-1][0]
        page.reverse()
        while page:
            yield page.pop()


def _bytes_of(part: Part) -> bytes:
    match part:
        case RawPart(raw=raw):
            return raw
        case TextPart(text=text):
            return text.encode(errors="replace")
        case DataPart(data=data):
            return msgspec.json.format(msgspec.json.encode(data), indent=2)
        case UrlPart(url=url):
            return url.encode()


# --- names ------------------------------------------------------------------------------------------------------------


def _name_of(part: Part, artifact_id: str, number: int) -> str:
    if part.filename:
        return part.filename
    ending = ".bin" if isinstance(part, RawPart) else ".json" if isinstance(part, DataPart) else ".txt"
    return f"{artifact_id[:40]}-{number}{ending}"


def attachment_header(name: str) -> bytes:
    """The header that makes a browser save a file under a name, which is foreign text.

    Only the last part of a path is used. Control and bidirectional characters, and what file systems treat specially,
    are removed: `"../a\\u202etxt.exe"` → `attachment; filename="atxt.exe"; filename*=UTF-8''atxt.exe`. RFC 6266.
    """
    last = re.split(r"[/\\]", name[-10_000:])[-1]
    kept = [c for c in unicodedata.normalize("NFC", last) if unicodedata.category(c) not in _REMOVED]
    clean = re.sub(r'[<>:"|?*]', "_", "".join(kept)).strip(" .")[-MAX_NAME:].strip(" .") or "file"
    plain = re.sub(r"[^A-Za-z0-9._ ()+-]", "_", clean)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(clean, safe='')}".encode("ascii")


_REMOVED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control and format characters (bidirectional ones among them), surrogates, private and unassigned ones, line ends."""
