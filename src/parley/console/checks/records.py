"""Checks as the store keeps them, so that every process of a server knows all checks, also after a restart.

A check has a record of what it does, which its process writes again every second, and one of its report. Without that
sign of life its process has died. A record that was deleted stops the check.
"""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from parley.check.findings import Report
from parley.engine.store_errors import translated
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordConflictError, RecordKey, Records

COLLECTION = "console-checks"
REPORTS = "console-check-reports"

BEAT_SECONDS = 1.0
DEAD_SECONDS = 30.0
"""After which a check without a sign of life counts as ended: longer than a store or a process may stall."""
KEPT_SECONDS = 86_400.0
MOST_OF_OWNER = 5
MOST_KEPT = 50
"""Checks of all sessions. A compressed report has up to some hundred kilobytes."""

CheckState: TypeAlias = Literal["running", "done", "failed"]


class CheckProgress(Struct, frozen=True):
    """What a check does now, and how many cases are behind it."""

    endpoint: str = ""
    case: str = ""
    done: int = 0


class CheckRecord(Struct, frozen=True, kw_only=True):
    """What is known of a check. Times are seconds since the epoch."""

    id: str
    owner: str
    agent: str
    agent_name: str
    began_at: float
    beat_at: float
    state: CheckState = "running"
    progress: CheckProgress = CheckProgress()
    error: str | None = None
    counts: dict[str, int] | None = None

    def seen(self) -> CheckRecord:
        """The same, as ended if its process has died."""
        if self.state == "running" and time.time() - self.beat_at > DEAD_SECONDS:
            return structs.replace(self, state="failed", error="The process that ran the check has stopped")
        return self


class CheckRecords:
    """The records of all checks of a server."""

    def __init__(self, records: Callable[[], Records]) -> None:
        self._records = records

    async def all(self) -> list[CheckRecord]:
        """All checks, the newest first."""
        with translated:
            found = await self._records().list(COLLECTION, "", limit=2 * MOST_KEPT)
        return [_decode(record).seen() for record in found]

    async def get(self, check_id: str) -> CheckRecord | None:
        """A check."""
        with translated:
            record = await self._records().get(RecordKey(COLLECTION, "", check_id))
        return None if record is None else _decode(record).seen()

    async def create(self, check: CheckRecord) -> None:
        """Keep a new check, and forget those that are too many or too old."""
        others = await self.all()
        own = [one for one in others if one.owner == check.owner]
        ended = [one for one in others if one.state != "running"]
        old = [one for one in ended if check.began_at - one.began_at > KEPT_SECONDS]
        gone = {one.id for one in (*own[MOST_OF_OWNER - 1 :], *ended[MOST_KEPT - 1 :], *old)}
        with translated:
            await self._records().write(_put(check, 0), *_deletions(sorted(gone)))

    async def beat(self, check: CheckRecord, *more: PutRecord) -> bool:
        """Keep what a check does now, and more in one transaction. Returns False if it was deleted: it must stop."""
        with translated:
            record = await self._records().get(RecordKey(COLLECTION, "", check.id))
            if record is None:
                return False
            try:
                await self._records().write(_put(check, record.revision), *more)
            except RecordConflictError:
                return False
        return True

    async def finish(self, check: CheckRecord, report: Report | None) -> None:
        """Keep how a check ended with its report, unless it was deleted."""
        if report is None:
            await self.beat(check)
            return
        text = base64.b64encode(zlib.compress(msgspec.json.encode(report))).decode()
        await self.beat(check, PutRecord(RecordKey(REPORTS, "", check.id), {"report": text}))

    async def report(self, check_id: str) -> Report | None:
        """The report of a check that is done."""
        with translated:
            record = await self._records().get(RecordKey(REPORTS, "", check_id))
        if record is None:
            return None
        return msgspec.json.decode(zlib.decompress(base64.b64decode(str(record.value["report"]))), type=Report)

    async def delete(self, check_ids: Sequence[str]) -> None:
        """Forget checks. Those that run are stopped by their processes."""
        if check_ids:
            with translated:
                await self._records().write(*_deletions(check_ids))


def _deletions(check_ids: Sequence[str]) -> list[DeleteRecord]:
    return [DeleteRecord(RecordKey(name, "", one)) for one in check_ids for name in (COLLECTION, REPORTS)]


def _put(check: CheckRecord, revision: int) -> PutRecord:
    key = RecordKey(COLLECTION, "", check.id)
    return PutRecord(key, msgspec.to_builtins(check), int(check.began_at * 1_000), expected=revision)


def _decode(record: Record) -> CheckRecord:
    return msgspec.convert(record.value, CheckRecord)
