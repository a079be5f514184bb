"""Scratchpads of agents and of tenants."""

from __future__ import annotations

import asyncio

import pytest

from parley.host.data.errors import InvalidValueError
from parley.host.data.scratchpads import Scratchpads
from parley.host.data.storage import MEBIBYTE, StorageFullError, tenant_bytes
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio


async def test_each_agent_has_a_scratchpad_and_each_tenant_a_shared_one() -> None:
    pads = Scratchpads(MemoryStore().records, FakeClock())
    assert await pads.append(ACME, "a", "one") == 4
    assert await pads.append(ACME, "a", "two\n\n") == 8
    await pads.append(ACME, None, "for all")
    await pads.append(ACME, "shared", "of an agent with this name")
    await pads.append(OTHER, "a", "theirs")
    assert await pads.read(ACME, "a") == "one\ntwo\n"
    assert (await pads.read(ACME, None), await pads.read(OTHER, None)) == ("for all\n", "")
    assert await pads.clear(ACME, "a") == 8
    assert await pads.clear(ACME, "a") == 0
    assert (await pads.read(ACME, "a"), await pads.read(OTHER, "a")) == ("", "theirs\n")


async def test_lines_written_at_the_same_time_are_all_kept() -> None:
    records = suspending_records(8)
    here, there = Scratchpads(records, FakeClock()), Scratchpads(records, FakeClock())
    await asyncio.gather(*(pad.append(ACME, "a", f"{n}") for n in range(4) for pad in (here, there)))
    assert sorted((await here.read(ACME, "a")).split()) == sorted("00112233")
    assert await tenant_bytes(records, ACME) == 16


async def test_a_scratchpad_and_a_tenant_have_limits() -> None:
    records = MemoryStore().records
    pads = Scratchpads(records, FakeClock())
    await pads.append(ACME, "a", "x" * (4 * MEBIBYTE - 10))
    with pytest.raises(StorageFullError, match="a scratchpad"):
        await pads.append(ACME, "a", "x" * 10)
    with pytest.raises(StorageFullError, match="a tenant"):
        await pads.append(ACME, "b", "x", quota=4 * MEBIBYTE - 9)
    await pads.clear(ACME, "a")
    await pads.append(ACME, "b", "x", quota=2)
    assert (await pads.read(ACME, "b"), await tenant_bytes(records, ACME)) == ("x\n", 2)


@pytest.mark.parametrize("text", ["", " \n", "\ud800"])
async def test_text_that_cannot_be_kept_is_refused(text: str) -> None:
    pads = Scratchpads(MemoryStore().records, FakeClock())
    with pytest.raises(InvalidValueError, match=r"^\$\.text"):
        await pads.append(ACME, "a", text)
    assert await pads.read(ACME, "a") == ""
