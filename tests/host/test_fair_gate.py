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
            assert gate.waiting == {"busy": 5, "quiet": 1, "calm": 1}
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
        assert gate.waiting == {"c": 1, "d": 1}
        first.cancel()
        await asyncio.sleep(0)
        entering.cancel()  # its turn has come, but it has not noticed yet
        leave.set()
        await last
        assert {first.cancelled(), entering.cancelled()} == {True}
        assert entered == ["a", "d"]
        assert gate.waiting == {}
        async with gate.entered("e"):
            pass

    asyncio.run(scenario())
