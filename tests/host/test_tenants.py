"""Tenants, their tokens, and the audit of what is done to them."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from parley.host.data.audit import Audit, AuditEntry
from parley.host.data.errors import InvalidValueError
from parley.host.data.tenant import (
    InvalidTenantError,
    Quotas,
    Tenant,
    TenantNotFoundError,
    TenantSettings,
    change_quotas,
    change_settings,
)
from parley.host.data.tenants import Tenants
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import Records
from parley.testing.clock import FakeClock
from tests.deadlines import fail_after
from tests.host.data_fixtures import suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

NOON = 1_767_225_600
"""When the clock of the tests begins, in seconds."""


async def everything(records: Records) -> str:
    """All records of tenants and of the audit, as text."""
    found = [await records.list(name, "", limit=100) for name in ("tenants", "tenant_use", "audit")]
    return msgspec.json.encode(found).decode()


async def test_a_tenant_is_found_by_its_token_which_is_not_kept() -> None:
    records = MemoryStore().records
    tenants = Tenants(records, FakeClock())
    acme, token = await tenants.create(" Acme ")
    assert acme == Tenant("1", "Acme", created_at=NOON)
    assert re.fullmatch(r"atr_[0-9a-f]{64}", token)
    assert tenants.find_by_token(token) == acme
    assert tenants.find_by_token(token.upper()) is None
    assert token not in await everything(records)


async def test_a_restart_forgets_nothing() -> None:
    records, clock = MemoryStore().records, FakeClock()
    before = Tenants(records, clock)
    await before.create("Acme")
    _, token = await before.create("Bolt")
    await before.update("2", quotas=Quotas(tokens_per_day=5), settings=TenantSettings(file_parts=True))
    await before.touch("2")
    tenants = Tenants(records, clock)
    await tenants.load()
    assert tenants.list() == before.list()
    assert tenants.find_by_token(token) == tenants.get("2")
    assert (await tenants.create("Crux"))[0].id == "3"


async def test_a_disabled_tenant_is_refused_at_once_and_listeners_are_told() -> None:
    tenants = Tenants(MemoryStore().records, FakeClock())
    told: list[Tenant] = []
    tenants.on_change(told.append)
    acme, token = await tenants.create("Acme")
    disabled = await tenants.update(acme.id, disabled=True)
    assert (tenants.find_by_token(token), tenants.active(acme.id), tenants.get(acme.id)) == (None, None, disabled)
    enabled = await tenants.update(acme.id, disabled=False)
    assert tenants.find_by_token(token) == tenants.active(acme.id) == enabled
    assert told == [acme, disabled, enabled]


async def test_a_rotated_token_dies_at_once_unless_it_overlaps() -> None:
    clock = FakeClock()
    tenants = Tenants(MemoryStore().records, clock)
    acme, first = await tenants.create("Acme")
    second = await tenants.rotate_token(acme.id)
    assert (tenants.find_by_token(first), tenants.find_by_token(second)) == (None, acme)
    third = await tenants.rotate_token(acme.id, overlap_seconds=60)
    await clock.advance(59)
    assert tenants.find_by_token(second) == tenants.find_by_token(third) == acme
    await clock.advance(1)
    assert (tenants.find_by_token(second), tenants.find_by_token(third)) == (None, acme)


async def test_at_most_two_tokens_are_valid_and_a_rotation_without_overlap_leaves_one() -> None:
    tenants = Tenants(MemoryStore().records, FakeClock())
    acme, first = await tenants.create("Acme")
    second = await tenants.rotate_token(acme.id, 60)
    third = await tenants.rotate_token(acme.id, 60)
    assert [tenants.find_by_token(token) for token in (first, second, third)] == [None, acme, acme]
    fourth = await tenants.rotate_token(acme.id)
    assert [tenants.find_by_token(token) for token in (second, third, fourth)] == [None, None, acme]


async def test_every_change_is_in_the_audit_without_tokens_or_hashes() -> None:
    records, clock = MemoryStore().records, FakeClock()
    tenants = Tenants(records, clock)
    _, first = await tenants.create("Acme")
    await tenants.update("1", disabled=True, quotas=Quotas(tokens_per_day=5))
    second = await tenants.rotate_token("1", 60)
    entries = await Audit(records, clock).list()
    quotas: JsonObject = {
        "requests_per_minute": None,
        "concurrent_requests": None,
        "tokens_per_day": None,
        "storage_bytes": None,
        "schedules": None,
        "schedule_interval_seconds": None,
    }
    assert entries == [
        AuditEntry(3, NOON, "admin", "rotate_tenant_token", "tenant", "1", None, {"overlap_seconds": 60}),
        AuditEntry(
            2,
            NOON,
            "admin",
            "update_tenant",
            "tenant",
            "1",
            {"disabled": False, "quotas": quotas},
            {"disabled": True, "quotas": {**quotas, "tokens_per_day": 5}},
        ),
        AuditEntry(1, NOON, "admin", "create_tenant", "tenant", "1", None, {"id": 1, "name": "Acme"}),
    ]
    text = msgspec.json.encode(entries).decode()
    assert all(secret not in text for secret in (first, second, "sha256"))


async def test_the_audit_is_read_in_pages() -> None:
    records, clock = MemoryStore().records, FakeClock()
    tenants, audit = Tenants(records, clock), Audit(records, clock)
    for number in range(12):
        await tenants.create(f"Tenant {number}")
    first = await audit.list(limit=5)
    assert [entry.id for entry in first] == [12, 11, 10, 9, 8]
    assert [entry.id for entry in await audit.list(first[-1].id)] == [7, 6, 5, 4, 3, 2, 1]
    assert await audit.list(1) == []


async def test_what_is_not_valid_changes_nothing() -> None:
    records = MemoryStore().records
    tenants = Tenants(records, FakeClock())
    acme, token = await tenants.create("Acme")
    before = await everything(records)
    for name in ("", "  ", "x" * 201, "a\x1bb"):
        with pytest.raises(InvalidTenantError, match=r"^\$\.name"):
            await tenants.create(name)
        with pytest.raises(InvalidTenantError, match=r"^\$\.name"):
            await tenants.update(acme.id, name=name)
    for overlap in (-1, 30 * 86_400 + 1):
        with pytest.raises(InvalidValueError, match=r"^\$\.overlap_seconds"):
            await tenants.rotate_token(acme.id, overlap)
    for unknown in ("2", "0", "x", "../1", "01"):
        with pytest.raises(TenantNotFoundError):
            tenants.get(unknown)
        with pytest.raises(TenantNotFoundError):
            await tenants.update(unknown, disabled=True)
        with pytest.raises(TenantNotFoundError):
            await tenants.rotate_token(unknown)
    assert await everything(records) == before
    assert tenants.find_by_token(token) == acme


async def test_a_change_whose_caller_goes_away_takes_effect_in_memory_too() -> None:
    tenants = Tenants(suspending_records(1), FakeClock())
    acme, token = await tenants.create("Acme")
    with fail_after(5):
        change = asyncio.create_task(tenants.update(acme.id, disabled=True))
        await asyncio.sleep(0)
        change.cancel()
        while tenants.find_by_token(token) is not None:
            await asyncio.sleep(0)
    assert change.cancelled()


async def test_changes_at_the_same_time_are_all_made() -> None:
    records, clock = suspending_records(2), FakeClock()
    here, there = Tenants(records, clock), Tenants(records, clock)
    await here.create("Acme")
    await there.load()
    await asyncio.gather(
        here.update("1", disabled=True),
        there.update("1", name="Apex"),
        here.update("1", quotas={"storage_bytes": 1}),
        there.update("1", quotas={"tokens_per_day": 2}),
        here.update("1", settings={"input_required": True}),
        there.update("1", settings={"file_parts": True}),
    )
    await asyncio.gather(here.load(), there.load())
    assert here.get("1") == there.get("1")
    quotas = Quotas(storage_bytes=1, tokens_per_day=2)
    settings = TenantSettings(file_parts=True, input_required=True)
    assert here.get("1") == Tenant("1", "Apex", True, NOON, quotas=quotas, settings=settings)


async def test_loading_again_learns_what_another_process_has_changed() -> None:
    records, clock = MemoryStore().records, FakeClock()
    here, there = Tenants(records, clock), Tenants(records, clock)
    _, token = await here.create("Acme")
    await there.load()
    told: list[Tenant] = []
    there.on_change(told.append)
    disabled = await here.update("1", disabled=True)
    assert there.find_by_token(token) is not None
    await there.load()
    await there.load()
    assert (there.find_by_token(token), told) == (None, [disabled])


async def test_the_last_use_is_written_at_most_once_a_minute() -> None:
    records, clock = MemoryStore().records, FakeClock()
    tenants = Tenants(records, clock)
    await tenants.create("Acme")

    async def last_use_after_restart() -> int:
        restarted = Tenants(records, clock)
        await restarted.load()
        return restarted.get("1").last_used_at

    assert tenants.get("1").last_used_at == 0
    await tenants.touch("1")
    await clock.advance(59)
    await tenants.touch("1")
    assert (tenants.get("1").last_used_at, await last_use_after_restart()) == (NOON + 59, NOON)
    await clock.advance(1)
    await tenants.touch("1")
    assert await last_use_after_restart() == NOON + 60


def test_quotas_and_settings_are_changed_member_by_member() -> None:
    quotas = change_quotas(
        Quotas(requests_per_minute=5, storage_bytes=7), {"requests_per_minute": None, "tokens_per_day": 3}
    )
    assert quotas == Quotas(tokens_per_day=3, storage_bytes=7)
    settings = change_settings(TenantSettings(file_parts=True), {"push_notifications": True})
    assert settings == TenantSettings(file_parts=True, push_notifications=True)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"tokens_per_day": -1}, "$.quotas.tokens_per_day"),
        ({"tokens_per_day": "5"}, "$.quotas.tokens_per_day"),
        ({"tokens": 5}, "$.quotas.tokens"),
    ],
)
def test_quotas_that_are_not_valid_are_refused_with_their_path(changes: JsonObject, path: str) -> None:
    with pytest.raises(InvalidTenantError) as refused:
        change_quotas(Quotas(), changes)
    assert refused.value.path == path
    with pytest.raises(InvalidTenantError, match=r"^\$\.settings\.file_parts"):
        change_settings(TenantSettings(), {"file_parts": "yes"})
