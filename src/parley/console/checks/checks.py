"""Runs `parley check` for sessions: one at a time for each, with its progress, and the reports of the last ones.

A check belongs to the session that has started it, or to the caller of a program, and ends with its session. It runs in
the process that was asked to start it; the others know it by its records.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import structs

from parley.check.endpoint_check import OnProgress
from parley.check.findings import Report
from parley.check.report.formats import as_json
from parley.console.api.errors import ConsoleError
from parley.console.checks.records import BEAT_SECONDS, CheckProgress, CheckRecord, CheckRecords
from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.console.console import Console

logger = logging.getLogger(__name__)

MOST_RUNNING = 8
"""Checks of all sessions at the same time; each makes some hundred requests, one after the other."""

MOST_SECONDS = 1_800.0
"""An agent that answers nothing would keep its place for hours."""

FRAME_SECONDS = 0.2
"""The time between two looks at the progress."""

RunCheck: TypeAlias = Callable[[OnProgress], Coroutine[Any, Any, Report]]


@dataclass(slots=True, eq=False)
class _RunningCheck:
    """A check of this process."""

    record: CheckRecord
    run: RunCheck
    task: asyncio.Task[None] | None = field(default=None)

    def note(self, endpoint: str, case: str) -> None:
        """A case begins."""
        progress = CheckProgress(endpoint[:1_000], case[:1_000], self.record.progress.done + 1)
        self.record = structs.replace(self.record, progress=progress)


class Checks:
    """The checks of a console."""

    def __init__(self, console: Console) -> None:
        self._records = CheckRecords(lambda: console.backend.app.store.records)
        self._running: dict[str, _RunningCheck] = {}
        self._deletions: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        console.sessions.on_end(self.end_owner)

    async def start(self, owner: str, agent: str, agent_name: str, run: RunCheck) -> str:
        """Start a check, and return its id.

        Raises:
            ConsoleError: the owner has one that runs (`conflict`), or too many others run.
        """
        async with self._starting:  # so that checks which are started at once see each other
            record = await self._create(owner, agent, agent_name)
        check = self._running[record.id] = _RunningCheck(record, run)
        check.task = asyncio.get_running_loop().create_task(self._run(check))
        return record.id

    async def _create(self, owner: str, agent: str, agent_name: str) -> CheckRecord:
        running = [one for one in await self._records.all() if one.state == "running"]
        if any(one.owner == owner for one in running):
            raise ConsoleError("conflict", "A check is running already; wait for its end, or stop it")
        if len(running) >= MOST_RUNNING:
            message = "Too many checks are running; try again in a minute"
            raise ConsoleError("rate_limited", message, headers=((b"retry-after", b"60"),))
        now = time.time()
        record = CheckRecord(
            id=f"k-{secrets.token_urlsafe(12)}",
            owner=owner,
            agent=agent,
            agent_name=agent_name,
            began_at=now,
            beat_at=now,
        )
        await self._records.create(record)
        return record

    async def _run(self, check: _RunningCheck) -> None:
        """Run a check while it is wanted, and keep its report."""
        work = asyncio.get_running_loop().create_task(_in_time(check.run(check.note)))
        try:
            while not (await asyncio.wait([work], timeout=BEAT_SECONDS))[0]:
                with suppress(ParleyError):  # the store may be away for a moment
                    if not await self._records.beat(structs.replace(check.record, beat_at=time.time())):
                        return
            report, error = _outcome(work)
            state = "failed" if report is None else "done"
            ended = structs.replace(check.record, state=state, error=error, counts=_counts(report), beat_at=time.time())
            await self._records.finish(ended, report)
            check.record = ended  # only now: a page that sees the end reads the report
        except ParleyError as error:
            logger.error("A check could not be kept: %s", error)
        finally:
            work.cancel()
            await asyncio.wait([work], timeout=5)
            self._running.pop(check.record.id, None)

    async def of_owner(self, owner: str) -> list[CheckRecord]:
        """The checks of an owner, the newest first."""
        return [one for one in await self._records.all() if one.owner == owner]

    async def get(self, owner: str, check_id: str) -> CheckRecord:
        """A check. Raises ConsoleError if the owner has no such check."""
        found = await self._records.get(check_id)
        if found is None or found.owner != owner:
            raise ConsoleError("not_found", "There is no such check, or it was stopped")
        running = self._running.get(check_id)
        return found if running is None else running.record

    async def report(self, check: CheckRecord) -> Report | None:
        """The report of a check that is done."""
        return await self._records.report(check.id) if check.state == "done" else None

    async def follow(self, owner: str, check_id: str) -> AsyncGenerator[object]:
        """The progress of a check, and at last its report. Raises ConsoleError if it failed or was stopped."""
        shown: CheckProgress | None = None
        while (check := await self.get(owner, check_id)).state == "running":
            if check.progress != shown:
                shown = check.progress
                yield {"progress": shown}
            await asyncio.sleep(FRAME_SECONDS)
        report = await self.report(check)
        if report is None:
            raise ConsoleError("agent_error", check.error or "The check failed")
        yield {"report": report_json(report)}

    async def stop(self, owner: str, check_id: str) -> None:
        """Stop a check and forget it. Raises ConsoleError if the owner has no such check."""
        await self.get(owner, check_id)
        await self._records.delete([check_id])
        await self._cancel([check_id])

    async def _cancel(self, check_ids: list[str]) -> None:
        tasks = [one.task for id in check_ids if (one := self._running.get(id)) is not None and one.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    def end_owner(self, owner: str) -> None:
        """Stop and forget the checks of a session that has ended."""
        task = asyncio.get_running_loop().create_task(self._end_owner(owner))
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)

    async def _end_owner(self, owner: str) -> None:
        try:
            ids = [one.id for one in await self.of_owner(owner)]
            await self._records.delete(ids)
            await self._cancel(ids)
        except ParleyError as error:
            logger.warning("The checks of a session that has ended could not be deleted: %s", error)

    async def close(self) -> None:
        """Stop all checks of this process."""
        if self._deletions:
            await asyncio.wait(self._deletions, timeout=5)
        await self._cancel(list(self._running))


def report_json(report: Report) -> msgspec.Raw:
    """A report as `parley check --json` writes it."""
    return msgspec.Raw(as_json(report))


async def _in_time(run: Coroutine[Any, Any, Report]) -> Report:
    async with asyncio.timeout(MOST_SECONDS):
        return await run


def _outcome(work: asyncio.Task[Report]) -> tuple[Report | None, str | None]:
    """The report of a check that has ended, or why there is none."""
    try:
        return work.result(), None
    except ParleyError as error:
        return None, error.message[:1_000]
    except TimeoutError:
        return None, f"The check took longer than {MOST_SECONDS / 60:g} minutes"
    except Exception:  # here the check ends
        logger.exception("A check failed")
        return None, "The check failed; see the server's log"


def _counts(report: Report | None) -> dict[str, int] | None:
    if report is None:
        return None
    found = Counter(finding.verdict.value for finding in report.findings)
    return {name: found[name] for name in ("passed", "warned", "failed", "undecided")}
