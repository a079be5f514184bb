"""What a host keeps of a tenant's conversations and requests, to export or to delete it with the tasks.

`DECISIONS` has a row for every collection; a test fails if one has none. Tasks of a host belong to the tenant, so the
owner of the data is the tenant. Settings and amounts of money stay, and so does the audit, without what people wrote:
that something was deleted, when, by whom and how much of it is in it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.clock import Clock
from parley.engine.engine import Engine
from parley.engine.owner_data import DeletedData, OwnerDataOperations, Selection
from parley.host.access.principal import principal_of, require_scope
from parley.host.access.scopes import Scope
from parley.host.data import keys
from parley.host.data.approval_timers import ApprovalTimer, TimerKind, remove_timer
from parley.host.data.artifacts import Artifacts
from parley.host.data.audit import Audit
from parley.host.data.conversations import Conversations, conversation_of
from parley.host.data.errors import NotFoundError
from parley.host.data.memory import Memory
from parley.host.data.memory_entries import each_entry
from parley.host.data.paging import each_record
from parley.host.data.scratchpads import Scratchpads
from parley.host.origin import owner_name
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, Owner, PutRecord, Record, RecordKey, Records, TaskHead

Decision: TypeAlias = Literal["with its conversation", "with its task", "with everything", "reduced", "kept"]

_TIMERS: tuple[TimerKind, ...] = ("expire", "wake")
_SETTING = "a setting of the tenant"
_MONEY = "an amount, without content: what was used must still be billed"
_PROCESSES = "about processes at work; without content"


@dataclass(frozen=True, slots=True)
class OwnerRecordRule:
    """What happens to a collection when a tenant's data is deleted."""

    decision: Decision
    reason: str = ""


def _kept(reason: str) -> OwnerRecordRule:
    return OwnerRecordRule("kept", reason)


_OF_CONVERSATION, _OF_TASK = OwnerRecordRule("with its conversation"), OwnerRecordRule("with its task")

DECISIONS: Mapping[str, OwnerRecordRule] = {
    # --- deleted
    keys.CONVERSATIONS: _OF_CONVERSATION,
    keys.ARTIFACTS: _OF_CONVERSATION,
    keys.ARTIFACT_CONTENTS: _OF_CONVERSATION,
    keys.MEMORY_ENTRIES: OwnerRecordRule("with its conversation", "an entry of none: with everything"),
    keys.MEMORY_LINKS: OwnerRecordRule("with its conversation", "with either of its entries"),
    keys.SCRATCHPADS: OwnerRecordRule("with everything", "it is of an agent, and of no conversation"),
    keys.APPROVALS_PENDING: _OF_TASK,
    keys.APPROVALS_DECIDED: _OF_TASK,
    keys.APPROVAL_TIMERS: _OF_TASK,
    keys.RUN_REQUESTS: _OF_TASK,
    # --- audit
    keys.AUDIT: OwnerRecordRule("reduced", "comments of decisions about deleted tasks are removed"),
    # --- kept
    keys.STORAGE: _kept("sums of sizes, which the deletion lowers"),
    keys.USAGE: _kept(_MONEY),
    keys.USAGE_DAYS: _kept(_MONEY),
    keys.BUDGETS: _kept(_SETTING),
    keys.BUDGET_SUMS: _kept(_MONEY),
    keys.BUDGET_REQUESTS: _kept(_MONEY),
    keys.BUDGET_RESERVATIONS: _kept(_MONEY),
    keys.IDEMPOTENCY_KEYS: _kept("ids of requests, forgotten within a day"),
    keys.KEYED_WRITES: _kept(_PROCESSES),
    keys.CHANGE_NOTES: _kept(_PROCESSES),
    keys.REPLICA_COUNTS: _kept(_PROCESSES),
    keys.CONVERSATION_HOLDERS: _kept(_PROCESSES),
    keys.SCHEDULES: _kept(_SETTING),
    keys.SCHEDULE_TICKS: _kept(_SETTING),
    keys.SCHEDULE_RUNS: _kept("when a schedule ran, and the ids of its requests; without content"),
    keys.TENANTS: _kept(_SETTING),
    keys.TENANT_USE: _kept("when a token was last used"),
    keys.TENANT_IMPORTS: _kept(_PROCESSES),
    keys.TENANT_ROLES: _kept(_SETTING),
    keys.ACCESS_TOKENS: _kept(_SETTING),
    keys.SERVICE_ACCOUNTS: _kept(_SETTING),
    keys.AGENTS: _kept(_SETTING),
    keys.AGENT_VERSIONS: _kept(_SETTING),
    keys.AGENT_LAST_VERSIONS: _kept(_SETTING),
    keys.AGENT_DRAFTS: _kept(_SETTING),
    keys.PUBLIC_AGENTS: _kept(_SETTING),
    keys.STOPS: _kept(_SETTING),
    keys.MCP_SERVERS: _kept(_SETTING),
    keys.REGISTERED_AGENTS: _kept(_SETTING),
    keys.REGISTRY_SECRETS: _kept(_SETTING),
    keys.REGISTRY_CHECKS: _kept(_SETTING),
    keys.CATALOG_SOURCES: _kept(_SETTING),
    keys.CATALOG_SOURCE_ENTRIES: _kept(_SETTING),
}


class HostOwnerRecords:
    """The records that belong to a tenant's data. `actor` is the one who deletes, for the audit."""

    def __init__(self, records: Records, clock: Clock, *, actor: str) -> None:
        self._records = records
        self._clock = clock
        self._actor = actor
        self._conversations = Conversations(records, clock)
        self._artifacts = Artifacts(records, clock)
        self._memory = Memory(records, clock)
        self._scratchpads = Scratchpads(records, clock)
        self._audit = Audit(records, clock)

    async def of(self, owner: Owner, selection: Selection, tasks: Sequence[TaskHead]) -> AsyncIterator[Record]:
        """The records that `delete` would delete; timers and requests of processes are without content."""
        tenant = _tenant_of(owner)
        if tenant is None:
            return
        for conversation in await self._conversation_ids(tenant, selection):
            found = await self._records.get(RecordKey(keys.CONVERSATIONS, tenant, keys.number_id(conversation)))
            if found is not None:
                yield found
            async for artifact in each_record(
                self._records, keys.collection_of(keys.ARTIFACTS, conversation), tenant, newest_first=False
            ):
                yield artifact
                number = keys.number_id(int(str(artifact.value["id"])))
                content = await self._records.get(RecordKey(keys.ARTIFACT_CONTENTS, tenant, number))
                if content is not None:
                    yield content
        for entry in await self._memory_ids(tenant, selection):
            found = await self._records.get(RecordKey(keys.MEMORY_ENTRIES, tenant, keys.number_id(entry)))
            if found is not None:
                yield found
        for record in [
            *await self._scratchpad_records(tenant, selection),
            *await self._approval_records(tenant, tasks),
        ]:
            yield record

    async def delete(self, owner: Owner, selection: Selection, tasks: Sequence[TaskHead]) -> Mapping[str, int]:
        """Delete them, reduce the audit, and write into it that this was done."""
        tenant = _tenant_of(owner)
        if tenant is None:
            return {}
        counts: dict[str, int] = {}
        for conversation in await self._conversation_ids(tenant, selection):
            counts[keys.ARTIFACTS] = counts.get(keys.ARTIFACTS, 0) + await self._records.count(
                keys.collection_of(keys.ARTIFACTS, conversation), tenant
            )
            counts[keys.CONVERSATIONS] = counts.get(keys.CONVERSATIONS, 0) + await self._delete_conversation(
                tenant, conversation
            )
            await self._artifacts.delete_conversation(tenant, conversation)
        for entry in await self._memory_ids(tenant, selection):
            await self._memory.delete(tenant, entry)
            counts[keys.MEMORY_ENTRIES] = counts.get(keys.MEMORY_ENTRIES, 0) + 1
        for record in await self._scratchpad_records(tenant, selection):
            await self._scratchpads.clear(tenant, _agent_of_scratchpad(record))
            counts[keys.SCRATCHPADS] = counts.get(keys.SCRATCHPADS, 0) + 1
        counts["approvals"] = await self._delete_approvals(tenant, tasks)
        await self._delete_run_requests(tenant, tasks)
        await self._reduce_audit(tenant, {head.key.task_id for head in tasks})
        found = {name: count for name, count in counts.items() if count}
        await self._write_audit(tenant, selection, tasks, found)
        return found

    # --- what belongs to it -------------------------------------------------------------------------------------------

    async def _conversation_ids(self, tenant: str, selection: Selection) -> Sequence[int]:
        if selection.task_id is not None or selection.agent is not None:
            return ()
        if selection.context_id is not None:
            number = conversation_of(selection.context_id)
            return () if number is None else (number,)
        return [int(record.key.id) async for record in each_record(self._records, keys.CONVERSATIONS, tenant)]

    async def _memory_ids(self, tenant: str, selection: Selection) -> Sequence[int]:
        """Entries of the conversations; with everything, also those of no conversation."""
        numbers = set(await self._conversation_ids(tenant, selection))
        is_all = selection == Selection()
        entries = [entry async for entry in each_entry(self._records, tenant)] if numbers or is_all else []
        return [entry.id for entry in entries if is_all or entry.conversation_id in numbers]

    async def _scratchpad_records(self, tenant: str, selection: Selection) -> Sequence[Record]:
        if selection != Selection():
            return ()
        return [record async for record in each_record(self._records, keys.SCRATCHPADS, tenant)]

    async def _approval_records(self, tenant: str, tasks: Sequence[TaskHead]) -> Sequence[Record]:
        ids = {head.key.task_id for head in tasks}
        return [
            record
            for collection in (keys.APPROVALS_PENDING, keys.APPROVALS_DECIDED)
            async for record in each_record(self._records, collection, tenant)
            if _request_of(record) in ids
        ]

    # --- deletion -----------------------------------------------------------------------------------------------------

    async def _delete_conversation(self, tenant: str, conversation: int) -> int:
        try:
            await self._conversations.delete(tenant, conversation)
        except NotFoundError:
            return 0
        return 1

    async def _delete_approvals(self, tenant: str, tasks: Sequence[TaskHead]) -> int:
        found = await self._approval_records(tenant, tasks)
        for record in found:
            timers = [remove_timer(ApprovalTimer(kind, tenant, record.key.id)) for kind in _TIMERS]
            await self._records.write(DeleteRecord(record.key), *timers)
        return len(found)

    async def _delete_run_requests(self, tenant: str, tasks: Sequence[TaskHead]) -> None:
        ids = {head.key.task_id for head in tasks}
        waiting = [
            DeleteRecord(record.key)
            async for record in each_record(self._records, keys.RUN_REQUESTS, tenant)
            if record.key.id.partition("/")[0] in ids
        ]
        if waiting:
            await self._records.write(*waiting)

    async def _reduce_audit(self, tenant: str, tasks: set[str]) -> None:
        """Remove what people wrote about deleted tasks: the comments of their decisions."""
        async for record in each_record(self._records, keys.AUDIT, keys.HOST):
            after = record.value.get("after")
            target = str(record.value.get("target_id", ""))
            if not isinstance(after, dict) or not after.get("comment") or target.partition("/")[0] != tenant:
                continue
            if after.get("request_id") in tasks:
                reduced: JsonObject = {**record.value, "after": {**after, "comment": ""}}
                await self._records.write(PutRecord(record.key, reduced, record.sort, expected=record.revision))

    async def _write_audit(
        self, tenant: str, selection: Selection, tasks: Sequence[TaskHead], counts: Mapping[str, int]
    ) -> None:
        about: JsonObject = {"tasks": len(tasks), **counts}
        for name, value in (("request_id", selection.task_id), ("context_id", selection.context_id)):
            if value is not None:
                about[name] = value
        await self._records.write(
            await self._audit.entry("delete_data", tenant, actor=self._actor, kind="tenant", after=about)
        )


def _tenant_of(owner: Owner) -> str | None:
    """The tenant whose data it is; None if the owner is not a tenant of a host."""
    is_tenant = owner.tenant != keys.HOST and owner.name == owner_name(owner.tenant)
    return owner.tenant if is_tenant else None


def _request_of(record: Record) -> str:
    request = record.value.get("request")
    return str(request.get("request_id", "")) if isinstance(request, dict) else ""


def _agent_of_scratchpad(record: Record) -> str | None:
    kind, _, agent = record.key.id.partition("/")
    return agent if kind == "agent" else None


class HostDataOperations:
    """Export and deletion of a tenant's data, for callers who may read, or manage, everything of the tenant.

    It is the same data at the URL of each agent: conversations go from one agent to another.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def export(self, caller: Caller, selection: Selection) -> AsyncGenerator[bytes]:
        """The tenant's data as lines of JSON. Raises PermissionDeniedError, or as `OwnerDataOperations.export` does."""
        require_scope(caller, Scope.READ)
        async for line in self._operations(caller).export(caller, structs.replace(selection, agent=None)):
            yield line

    async def delete(self, caller: Caller, selection: Selection, *, cancels: bool) -> DeletedData:
        """Delete the tenant's data. Raises PermissionDeniedError, or as `OwnerDataOperations.delete` does."""
        require_scope(caller, Scope.MANAGE)
        everywhere = structs.replace(selection, agent=None)
        return await self._operations(caller).delete(caller, everywhere, cancels=cancels)

    def _operations(self, caller: Caller) -> OwnerDataOperations:
        actor = principal_of(caller.tenant, caller.scopes, caller.claims).name
        records = HostOwnerRecords(self._engine.store.records, self._engine.clock, actor=actor)
        return OwnerDataOperations(self._engine, records)
