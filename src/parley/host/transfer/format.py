"""The file of an export: lines of JSON, from a head that says what it is to an end that proves that nothing is missing.

{"head": {"format": 1, "export_id": "…", "tenant": {…}, …}}
{"record": {"collection": "agents", "id": "writer", "sort": 1, "value": {…}}}
{"series": {"name": "conversations", "last": 7}}
{"task": {"id": "…", "agent": "@/writer", "state": "completed", …}}
{"events": {"task_id": "…", "events": […]}}
{"context": {"agent": "@/writer", "context_id": "…", "name": "…", "value": …}}
{"end": {"lines": 6, "sha256": "…", "set_again": […]}}
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from parley.host.data.errors import InvalidValueError
from parley.host.data.tenant import Quotas, TenantSettings
from parley.protocol.events import TaskEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version

FORMAT = 1

MAX_LINE = 64 * 2**20
"""Bytes. The longest values of a store are files in messages, of some ten megabytes."""


class InvalidExportError(InvalidValueError):
    """A file is not an export that can be imported. The error names the line."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason, f"line {line}")


class ExportHead(Struct, frozen=True, kw_only=True):
    """What an export is of."""

    format: int
    export_id: str
    parley: str
    """The version of the host."""
    exported_at: datetime
    tenant_id: str
    """On the host that it comes from."""
    name: str
    quotas: Quotas
    settings: TenantSettings
    was_active: bool
    """Whether the tenant was not disabled meanwhile: it may go on at the other host."""


class ExportedRecord(Struct, frozen=True):
    """A record. In ids of the host's own records, `@` stands for the tenant."""

    collection: str
    id: str
    sort: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    value: JsonObject


class ExportedSeries(Struct, frozen=True):
    """The last number of a series that was given."""

    name: str
    last: int


class ExportedTask(Struct, frozen=True, kw_only=True):
    """The head of a task. Its events follow, in one line or several."""

    id: str
    agent: str
    """`@/writer` for an agent of the tenant."""
    context_id: str
    state: TaskState
    status_at: datetime
    created_at: datetime
    created_in: Version
    events: int
    """How many there are."""


class ExportedEvents(Struct, frozen=True):
    """Some events of the task before it."""

    task_id: str
    events: Sequence[TaskEvent]
    written_at: Sequence[tuple[Annotated[int, Meta(ge=1)], Annotated[datetime, Meta(tz=True)] | None]] = ()
    """When they were written: for how many events in a row, and the moment. Empty in files of earlier versions."""


class ExportedContextValue(Struct, frozen=True):
    """What an agent keeps for a conversation."""

    agent: str
    context_id: str
    name: str
    value: JsonValue


class ExportEnd(Struct, frozen=True):
    """How many lines there are before it, the SHA-256 of their bytes, and what must be set again."""

    lines: int
    sha256: str
    set_again: Sequence[str] = ()


class ExportLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line: exactly one of its members."""

    head: ExportHead | None = None
    record: ExportedRecord | None = None
    series: ExportedSeries | None = None
    task: ExportedTask | None = None
    events: ExportedEvents | None = None
    context: ExportedContextValue | None = None
    end: ExportEnd | None = None
    error: str | None = None
    """The export failed here."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ExportLine)


class LineWriter:
    """Writes lines, and counts them for the end."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._lines = 0

    def line(self, line: ExportLine) -> bytes:
        """The bytes of a line."""
        encoded = _encoder.encode(line) + b"\n"
        self._digest.update(encoded)
        self._lines += 1
        return encoded

    def end(self, set_again: Sequence[str]) -> bytes:
        """The bytes of the last line."""
        return self.line(ExportLine(end=ExportEnd(self._lines, self._digest.hexdigest(), set_again)))


async def read_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[int, ExportLine]]:
    """The lines of a file with their numbers, up to its end, whose digest is checked before it is returned.

    Raises:
        InvalidExportError: a line cannot be read, the file is cut off, or its bytes are not those that were written.
    """
    digest, number, has_ended = hashlib.sha256(), 0, False
    async for raw in _split(chunks):
        number += 1
        if has_ended:
            raise InvalidExportError("there is something after the end of the export", number)
        line = _decode(raw, number)
        if line.error is not None:
            raise InvalidExportError(f"the export failed here: {line.error}", number)
        if line.end is not None:
            has_ended = True
            if line.end.lines != number - 1:
                raise InvalidExportError(f"{line.end.lines} lines were written, and {number - 1} are here", number)
            if line.end.sha256 != digest.hexdigest():
                raise InvalidExportError("the file was changed after it was written: its digest differs", number)
        digest.update(raw)
        yield number, line
    if not has_ended:
        raise InvalidExportError("the file is cut off: its last line is missing", number + 1)


def _decode(raw: bytes, number: int) -> ExportLine:
    try:
        line = _decoder.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidExportError(f"cannot be read: {error}"[:500], number) from None
    if sum(1 for name in ExportLine.__struct_fields__ if getattr(line, name) is not None) != 1:
        raise InvalidExportError("must have exactly one member", number)
    return line


async def _split(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines in some chunks, each with its line feed; a last one without is cut off."""
    number, pending = 1, bytearray()
    async for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield bytes(pending + line + b"\n")
            pending.clear()
            number += 1
        pending += rest
        if len(pending) > MAX_LINE:
            raise InvalidExportError(f"has more than {MAX_LINE} bytes", number)
    if pending.strip():
        raise InvalidExportError("the file is cut off in the middle of a line", number)
