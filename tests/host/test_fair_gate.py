"""The gate between tenants."""

import asyncio
from contextlib import AsyncExitStack

from parley.host.fair_gate import FairGate


async def begin(gate: FairGate, tenant: str, entered: list[str], leave: asyncio.Event) -> None:
    async with gate.entered(tenant):
        entered.append(tenant)
        await leave.wait()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_tenants_take_turns_however_many_runs_one_of_them_has() -> None:
    async def scenario() -> None:
        gate, entered = FairGate(1), list[str]()
        leave = asyncio.Event()
        leave.set()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(gate.entered("busy"))
            runs = [asyncio.create_task(begin(gate, "busy", entered, leave)) for _ in range(5)]
            await settled()
            runs += [asyncio.create_task(begin(gate, other, entered, leave)) for other in ("quiet", "calm")]
            await settled()
            assert [gate.waiting(name) for name in ("busy", "quiet", "calm")] == [5, 1, 1]
        await asyncio.gather(*runs)
        assert entered == ["busy", "quiet", "calm", "busy", "busy", "busy", "busy"]

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_while_it_waits_or_enters_leaves_its_place_to_others() -> None:
    async def scenario() -> None:
        gate, entered, leave = FairGate(1), list[str](), asyncio.Event()
        first = asyncio.create_task(begin(gate, "a", entered, leave))
        await settled()
        waiting, entering, last = [asyncio.create_task(begin(gate, name, entered, leave)) for name in "bcd"]
        await settled()
        waiting.cancel()
        await settled()
        assert [gate.waiting(name) for name in "bcd"] == [0, 1, 1]
        first.cancel()
        await asyncio.sleep(0)
        entering.cancel()  # its turn has come, but it has not noticed yet
        leave.set()
        await last
        assert {first.cancelled(), entering.cancelled()} == {True}
        assert entered == ["a", "d"]
        assert gate.has_room("e")

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_when_another_one_leaves_loses_no_place() -> None:
    async def scenario() -> None:
        gate, entered, leave = FairGate(1), list[str](), asyncio.Event()
        first = asyncio.create_task(begin(gate, "a", entered, leave))
        await settled()
        waiting = asyncio.create_task(begin(gate, "b", entered, leave))
        await settled()
        leave.set()
        waiting.cancel()  # in the iteration in which the first one leaves
        await asyncio.gather(first, waiting, return_exceptions=True)
        assert waiting.cancelled()
        assert gate.has_room("c")

    asyncio.run(scenario())


def test_one_tenant_cannot_hold_all_places() -> None:
    async def scenario() -> None:
        gate, entered, leave = FairGate(4), list[str](), asyncio.Event()
        runs = [asyncio.create_task(begin(gate, "hanging", entered, leave)) for _ in range(6)]
        await settled()
        assert (len(entered), gate.waiting("hanging"), gate.has_room("other")) == (3, 3, True)
        async with gate.entered("other"):
            pass
        leave.set()
        await asyncio.gather(*runs)
        assert len(entered) == 6

    asyncio.run(scenario())
