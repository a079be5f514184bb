"""The records of a tenant, found by the rules of `collections`: to export them, and to remove what a failed import
left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from parley.host.data.keys import HOST
from parley.host.data.paging import each_record
from parley.host.transfer.collections import RULES, TransferRule
from parley.stores.interface import DeleteRecord, Owner, Record, Records, Store

PAGE = 200

TENANT = "@"
"""What stands for the tenant in ids of the host's records."""


def rule_of(collection: str) -> TransferRule | None:
    """The rule for a collection, such as `agents` or `artifacts/7`; None if there is none."""
    name, slash, owner = collection.partition("/")
    found = (rule for rule in RULES if rule.name == name and bool(rule.parent) == bool(slash))
    return next(found, None) if not slash or owner else None


async def records_of(records: Records, tenant: str, rule: TransferRule) -> AsyncIterator[Record]:
    """All records of a tenant that a rule is about, oldest first within a collection."""
    if rule.is_of_host:
        for begin in rule.host_ids:
            async for record in _of_host(records, rule.name, begin.replace(TENANT, tenant)):
                yield record
        return
    if not rule.parent:
        async for record in each_record(records, rule.name, tenant, newest_first=False):
            yield record
        return
    assert rule.owner_of is not None, "A collection of a parent is named after something"
    owners: set[str] = set()
    async for parent in each_record(records, rule.parent, tenant, newest_first=False):
        owner = rule.owner_of(parent)
        if owner not in owners:
            owners.add(owner)
            async for record in each_record(records, f"{rule.name}/{owner}", tenant, newest_first=False):
                yield record


async def _of_host(records: Records, collection: str, begin: str) -> AsyncIterator[Record]:
    """The records of the host whose ids begin so."""
    after = (HOST, begin)
    while page := await records.list_all(collection, after=after, limit=PAGE):
        for record in page:
            if record.key.tenant != HOST or not record.key.id.startswith(begin):
                return
            yield record
        after = (HOST, page[-1].key.id)
        await asyncio.sleep(0)


async def remove_everything(store: Store, tenant: str, owner_name: Callable[[str], str]) -> None:
    """Remove everything that is kept of a tenant, except for the tenant itself. It may be called again."""
    for rule in sorted(RULES, key=lambda rule: not rule.parent):  # parents last: they name the others
        if rule.decision == "copied":
            changes: list[DeleteRecord] = []
            async for record in records_of(store.records, tenant, rule):
                changes.append(DeleteRecord(record.key))
                if len(changes) == PAGE:
                    await store.records.write(*changes)
                    changes.clear()
            if changes:
                await store.records.write(*changes)
    while heads := await store.tasks.newest(tenant, limit=PAGE):
        for head in heads:
            assert head.key.owner == Owner(tenant, owner_name(tenant)), "An import has one owner"
            await store.tasks.delete(head.key)
