"""The export of a tenant as lines of a file, page by page: memory does not grow with the tenant.

It is not one moment's picture of a tenant that is at work meanwhile. So an operator disables the tenant first. Tasks
that are at work, or sleep, are exported with the events that they have, and with an end that says why they did not go
on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from itertools import groupby

from parley import __version__
from parley.engine.clock import Clock
from parley.engine.sealed_answers import movable_event
from parley.host.data.tenant import Tenant
from parley.host.transfer.collections import RULES, TransferRule
from parley.host.transfer.format import (
    FORMAT,
    ExportedContextValue,
    ExportedEvents,
    ExportedRecord,
    ExportedSeries,
    ExportedTask,
    ExportHead,
    ExportLine,
    LineWriter,
)
from parley.host.transfer.tenant_records import TENANT, records_of
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import ContextKey, Store, TaskHead

PAGE = 100
EVENT_BYTES = 1_000_000
"""About how many characters of events are in one line."""

CUT_OFF = "The task was at work when its tenant was exported, and was not continued at this host."


class TenantExport:
    """One export of a tenant. `set_again` is complete when all lines were read."""

    def __init__(self, store: Store, clock: Clock, tenant: Tenant, *, export_id: str) -> None:
        self._store = store
        self._clock = clock
        self._tenant = tenant
        self._export_id = export_id
        self._writer = LineWriter()
        self.set_again: list[str] = []

    @property
    def tenant_id(self) -> str:
        """The tenant that is exported."""
        return self._tenant.id

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of the file."""
        yield self._writer.line(ExportLine(head=self._head()))
        for rule in RULES:
            async for line in self._records(rule):
                yield self._writer.line(line)
        async for line in self._tasks():
            yield self._writer.line(line)
        yield self._writer.end(self.set_again)

    def failed(self, reason: str) -> bytes:
        """The last line of an export that cannot go on."""
        return self._writer.line(ExportLine(error=reason))

    def _head(self) -> ExportHead:
        tenant = self._tenant
        return ExportHead(
            format=FORMAT,
            export_id=self._export_id,
            parley=__version__,
            exported_at=self._clock.now(),
            tenant_id=tenant.id,
            name=tenant.name,
            quotas=tenant.quotas,
            settings=tenant.settings,
            was_active=not tenant.disabled,
        )

    # --- records ------------------------------------------------------------------------------------------------------

    async def _records(self, rule: TransferRule) -> AsyncIterator[ExportLine]:
        tenant_id = self._tenant.id
        if rule.decision == "left out":
            await self._note(rule)
            return
        async for record in records_of(self._store.records, tenant_id, rule):
            value, record_id = record.value, record.key.id
            if rule.redact is not None:
                value, notes = rule.redact(record_id, value)
                self.set_again += notes
            if rule.is_of_host:
                record_id = record_id.replace(f"{tenant_id}/", f"{TENANT}/", 1)
            yield ExportLine(record=ExportedRecord(record.key.collection, record_id, record.sort, value))
        if rule.is_numbered:  # one number is lost: a series can only be read by going on with it
            last = await self._store.records.next_number(rule.name, tenant_id)
            yield ExportLine(series=ExportedSeries(rule.name, last))

    async def _note(self, rule: TransferRule) -> None:
        """Note what must be set again instead of records that are left out."""
        if rule.set_again:
            async for record in records_of(self._store.records, self._tenant.id, rule):
                name = record.value.get("name") or record.key.id.rpartition("/")[2]
                self.set_again.append(rule.set_again.format(name=name))

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def _tasks(self) -> AsyncIterator[ExportLine]:
        contexts: set[int] = set()
        before: tuple[datetime, str] | None = None
        while heads := await self._store.tasks.newest(self._tenant.id, before=before, limit=PAGE):
            for head in heads:
                async for line in self._task(head):
                    yield line
                context = hash((head.agent, head.context_id))
                if context not in contexts:
                    contexts.add(context)
                    async for line in self._context_values(head):
                        yield line
            before = (heads[-1].created_at, heads[-1].key.task_id)

    async def _task(self, head: TaskHead) -> AsyncIterator[ExportLine]:
        """A task with its events up to the present one."""
        is_at_work = not ends_stream(head.state)
        end = _cut_off(head, self._clock.now()) if is_at_work else None
        yield ExportLine(
            task=ExportedTask(
                id=head.key.task_id,
                agent=self._agent(head.agent),
                context_id=head.context_id,
                state=TaskState.FAILED if end else head.state,
                status_at=end.status.timestamp or head.status_at if end else head.status_at,
                created_at=head.created_at,
                created_in=head.created_in,
                events=head.last_seq + is_at_work,
            )
        )
        after = 0
        while after < head.last_seq:
            page = await self._store.tasks.timed_events(
                head.key, after=after, limit=min(PAGE, head.last_seq - after), size=EVENT_BYTES
            )
            if not page:
                return  # it was deleted meanwhile: the import finds that events are missing
            after = page[-1].seq
            moments = [(len([*group]), moment) for moment, group in groupby([each.written_at for each in page])]
            yield ExportLine(
                events=ExportedEvents(head.key.task_id, [movable_event(each.event) for each in page], moments)
            )
        if end is not None:
            yield ExportLine(events=ExportedEvents(head.key.task_id, [end]))

    async def _context_values(self, head: TaskHead) -> AsyncIterator[ExportLine]:
        key, contexts = ContextKey(head.key.owner, head.agent, head.context_id), self._store.contexts
        agent = self._agent(head.agent)
        for name, value in (await contexts.get(key)).items():
            yield ExportLine(context=ExportedContextValue(agent, head.context_id, name, value))
        for name in await contexts.conversations(key):
            value = await contexts.value(key, name)
            yield ExportLine(context=ExportedContextValue(agent, head.context_id, name, value))

    def _agent(self, agent: str) -> str:
        """The engine's id of an agent, without the tenant."""
        own = f"{self._tenant.id}/"
        return f"{TENANT}/{agent.removeprefix(own)}" if agent.startswith(own) else agent


def _cut_off(head: TaskHead, now: datetime) -> StatusUpdate:
    """The end of a task that is at work."""
    said = Message(
        message_id=f"{head.key.task_id}-cut-off",
        role=Role.AGENT,
        parts=(TextPart(CUT_OFF),),
        context_id=head.context_id,
        task_id=head.key.task_id,
    )
    return StatusUpdate(head.key.task_id, head.context_id, TaskStatus(TaskState.FAILED, said, now))
