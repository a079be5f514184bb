"""Budgets of a host that crashes at any write: nothing is spent that is not counted, and no call is counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from parley.host.budget_limits import BudgetLimit
from parley.host.constitution import read_constitution
from parley.host.data.budget_policy import PeriodBudgets, TenantBudgets
from parley.host.host import Host, HostSettings
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.model import ModelRequest
from parley.host.models.registry import ModelRegistry
from parley.host.origin import RunOrigin, host_caller, metadata_of, owner_name
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.stores.interface import Owner, Store, TaskKey
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.testing.crashing_store import CrashingStore, Cut
from tests.host.api_calls import constitution
from tests.host.function_model import USAGE, FunctionModel

pytestmark = pytest.mark.anyio

TASK, TENANT, MODEL = "0123456789abcdef", "1", "test/free"
CALL_TOKENS = USAGE.input_tokens + USAGE.output_tokens


async def answer(request: ModelRequest) -> AsyncIterator[str]:
    if request.agent_id.endswith("-advisor"):
        yield "CONTINUE"
    else:
        yield "done" if request.results else "/help\n"


@asynccontextmanager
async def budgeted_host(store: Store, model: FunctionModel) -> AsyncGenerator[Host]:
    host = Host(HostSettings(admin_token="", has_starters=False), store=store, drain_seconds=0)
    host.models = ModelRegistry(host.settings.models, builtin={**BUILTIN_MODELS, MODEL: model})
    async with asyncio.timeout(20), host.app.running():
        yield host


async def prepare(database: MemoryDatabase, model: FunctionModel, limit: int) -> None:
    """A tenant with a budget, and an agent that makes two calls of its model and one of its gate."""
    async with budgeted_host(MemoryStore(database), model) as host:
        tenant, _ = await host.create_tenant("acme")
        definition = constitution("writer", model=MODEL, max_tokens=10, advisor={"model": MODEL, "mode": "gate"})
        host.catalogue.put(await host.agents.create(tenant.id, read_constitution(definition)))
        budgets = TenantBudgets(PeriodBudgets(total=BudgetLimit(limit)), request=BudgetLimit(limit))
        await host.budgets.policies.replace(tenant.id, budgets, setter="operator", actor="admin")


async def send(host: Host) -> None:
    """Send the one message of the test; it is the same when it is sent again."""
    metadata = metadata_of(RunOrigin(surface="orchestrate", principal="tenant:1"))
    message = Message("m1", Role.USER, (TextPart("go"),), task_id=TASK, metadata=metadata)
    request = SendMessageRequest(message, SendConfiguration(return_immediately=True), caller_names_task=True)
    await host.engine.agent(f"{TENANT}/writer").send_message(request, host_caller(TENANT))


async def work(host: Host) -> None:
    if await host.views.head(TENANT, TASK) is None:
        await send(host)
    run = host.engine.runs.find(TaskKey(Owner(TENANT, owner_name(TENANT)), TASK))
    if run is not None:
        await run.wait_for_end()


async def crash(database: MemoryDatabase, model: FunctionModel, at: int, cut: Cut) -> bool:
    """Work on a host that crashes around its n-th write; return whether it got that far."""
    store, writes = CrashingStore(MemoryStore(database)), 0

    def decide(_: object) -> Cut:
        nonlocal writes
        writes += 1
        return cut if writes == at else None

    async with budgeted_host(store, model) as host:  # pyright: ignore[reportArgumentType] it is one by its attributes
        store.decide = decide
        working, crashing = asyncio.create_task(work(host)), asyncio.create_task(store.crashed.wait())
        await asyncio.wait([working, crashing], return_when=asyncio.FIRST_COMPLETED)
        has_crashed, store.has_crashed = store.has_crashed, True
        for task in (working, crashing):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return has_crashed


async def counted(host: Host) -> tuple[int, int, int]:
    """The calls that usage has, and the tokens that the budget has spent and reserved."""
    (row,) = await host.usage.report(TENANT, host.clock.now().date(), host.clock.now().date())
    ((_, sums),) = await host.budgets.state(TENANT)
    total = sums.sums["total"]
    return row.calls, total.spent.tokens, total.reserved.tokens


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_crash_at_any_write_neither_loses_nor_doubles_what_was_spent(cut: Cut) -> None:
    at, has_crashed = 0, True
    while has_crashed:
        at += 1
        database, model = MemoryDatabase(), FunctionModel(answer)
        await prepare(database, model, 100_000)
        has_crashed = await crash(database, model, at, cut)
        async with budgeted_host(MemoryStore(database), model) as host:
            await work(host)
            calls, spent, reserved = await counted(host)
            bounds = [host.budgets.estimate(MODEL, one).tokens for one in model.requests]
            assert (calls, reserved) == (3, 0), at
            # An attempt that was cut off is charged at its bound, also if the crash came just before the call.
            charged = {3 * CALL_TOKENS + bound for bound in bounds}
            assert spent in charged or (spent == 3 * CALL_TOKENS and len(bounds) == 3), (at, spent, bounds)
            assert len(bounds) <= 4
    assert at > 10


async def test_crashes_again_and_again_never_exceed_the_budget() -> None:
    """The call is cut off each time; each attempt is charged, until the budget stops the next one."""
    database, model = MemoryDatabase(), FunctionModel(answer)
    await prepare(database, model, 10_000)
    async with budgeted_host(MemoryStore(database), model) as host:
        await send(host)
        while not model.requests:
            await asyncio.sleep(0)
        bound = host.budgets.estimate(MODEL, model.requests[0]).tokens
    database, model, writes = MemoryDatabase(), FunctionModel(answer), 0
    limit = 2 * bound + CALL_TOKENS
    await prepare(database, model, limit)

    async def crash_in_call(request: ModelRequest) -> AsyncIterator[str]:
        yield "half"
        store.has_crashed = True
        store.crashed.set()
        await asyncio.Event().wait()

    for _ in range(4):
        store, model = CrashingStore(MemoryStore(database)), FunctionModel(crash_in_call)
        async with budgeted_host(store, model) as host:  # pyright: ignore[reportArgumentType]
            working, crashing = asyncio.create_task(work(host)), asyncio.create_task(store.crashed.wait())
            await asyncio.wait([working, crashing], return_when=asyncio.FIRST_COMPLETED)
            store.has_crashed = True
            for task in (working, crashing):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        writes += len(model.requests)
    assert writes == 2
    async with budgeted_host(MemoryStore(database), model) as host:
        ((_, sums),) = await host.budgets.state(TENANT)
        assert sums.sums["total"].used.tokens <= limit
