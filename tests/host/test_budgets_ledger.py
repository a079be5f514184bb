"""What budgets count: reservations before calls, what calls really took, periods, and several processes at once."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, cast

import pytest
from msgspec import structs

from parley.host.budget_limits import BudgetLimit
from parley.host.budgets.budgets import LEAST_ANSWER, Budgets, HeldCall
from parley.host.budgets.estimate import Estimate, estimate, input_bound
from parley.host.budgets.exceeded import BudgetExceededError
from parley.host.budgets.scopes import CallAccount
from parley.host.data.budget_policy import PeriodBudgets, TenantBudgets
from parley.host.data.keys import BUDGET_SUMS, USAGE
from parley.host.data.usage import Usage
from parley.host.models.model import ModelMessage, ModelRequest, ModelTool, TokenUsage
from parley.host.origin import RequestBudget
from parley.protocol.errors import RateLimitedError
from parley.stores.interface import Records
from parley.testing.clock import FakeClock
from parley.testing.crashing_store import CrashingStore
from tests.deadlines import fail_after
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

DAY = 86_400
MODEL = "test/paid"
REQUEST = ModelRequest("writer", "Be brief.", (ModelMessage("user", "hello"),), "hello", max_tokens=100)
BOUND = input_bound(REQUEST) + 100
USED = TokenUsage(10, 5)


class Prices:
    """One unit of the currency for a token of any kind; of one model only."""

    currency = "USD"

    def cost_bound(self, model: str, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        return Decimal(input_tokens + output_tokens) if model == MODEL else None


class Process:
    """What one process has of budgets and usage."""

    def __init__(self, records: Records | None = None, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        records = records or MemoryStore().records
        self.usage = Usage(records, self.clock)
        self.budgets = Budgets(records, self.clock, self.usage, Prices)

    async def set(self, **budgets: Any) -> None:
        await self.budgets.policies.replace(ACME, TenantBudgets(**budgets), setter="operator", actor="admin")

    async def reserve(self, call: CallAccount, request: ModelRequest = REQUEST, **options: Any) -> HeldCall:
        return await self.budgets.reserve(call, MODEL, request, **options)

    async def count(self, call: CallAccount, usage: TokenUsage = USED) -> None:
        """Record the usage of a call, as the host does."""
        cost = Decimal(usage.input_tokens + usage.output_tokens)
        settles = await self.budgets.holds_for(call)
        await self.usage.record(
            call.tenant,
            call.task_id,
            call.agent,
            [(MODEL, usage, cost)],
            first=call.number,
            settlement=(lambda: self.budgets.settlement(call, usage, cost)) if settles else None,
        )

    async def make(self, call: CallAccount) -> None:
        await self.reserve(call)
        await self.count(call)

    async def sums(self) -> dict[str, tuple[int, int]]:
        """Spent and reserved tokens by scope and period."""
        return {
            f"{scope.id} {span}": (one.spent.tokens, one.reserved.tokens)
            for scope, sums in await self.budgets.state(ACME)
            for span, one in sums.sums.items()
        }


def account(task: str = "t1", number: int = 0, **members: Any) -> CallAccount:
    members = {"tenant": ACME, "agent": "writer", "request_id": task, **members}
    return CallAccount(task_id=task, number=number, **members)


def per_day(tokens: int | None = None, cost: int | None = None) -> PeriodBudgets:
    return PeriodBudgets(day=BudgetLimit(tokens, None if cost is None else Decimal(cost)))


def test_an_estimate_has_a_token_for_each_byte_of_the_prompt_and_the_whole_answer() -> None:
    request = ModelRequest("writer", "", (ModelMessage("user", "é€" * 10),), "", max_tokens=7)
    assert input_bound(request) == 50 + 2 * 16 + 64
    assert estimate(Prices(), MODEL, request) == Estimate(153, Decimal(153))
    assert estimate(Prices(), "mine/unknown", request).cost is None
    tool = ModelTool("now", "", {}, "/mcp call time now")
    assert input_bound(structs.replace(request, tools=(tool,))) > input_bound(request) + 1_024


async def test_a_call_is_reserved_at_its_bound_and_settled_with_what_it_took() -> None:
    here = Process()
    await here.set(tenant=PeriodBudgets(BudgetLimit(1_000), BudgetLimit(1_000), BudgetLimit(1_000)))
    await here.reserve(account())
    assert await here.sums() == {f"tenant {span}": (0, BOUND) for span in ("day", "month", "total")}
    await here.count(account())
    await here.count(account())
    assert await here.sums() == {f"tenant {span}": (15, 0) for span in ("day", "month", "total")}


@pytest.mark.parametrize("limit", [BudgetLimit(tokens=BOUND), BudgetLimit(cost=Decimal(BOUND))], ids=["tokens", "cost"])
async def test_a_call_that_could_break_a_budget_is_stopped_before_it_and_one_that_just_fits_is_not(
    limit: BudgetLimit,
) -> None:
    here = Process()
    await here.set(agents={"writer": PeriodBudgets(day=limit)})
    await here.reserve(account())
    with pytest.raises(BudgetExceededError, match=r"agent 'writer' for a day .* It renews at 2026-01-02T00:00Z\."):
        await here.reserve(account("t2"))
    await here.reserve(account("t3", agent="other"))
    await here.count(account())
    with pytest.raises(BudgetExceededError, match=f"spent 15, reserved 0, needed up to {BOUND}"):
        await here.reserve(account("t2"))
    assert here.budgets.stopped == {(ACME, "agent"): 2}


async def test_an_answer_is_shortened_to_what_is_left_but_not_below_the_least() -> None:
    here = Process()
    long = ModelRequest("writer", "", (ModelMessage("user", "hello"),), "hello", max_tokens=4_000)
    await here.set(tenant=per_day(input_bound(long) + 300))
    held = await here.reserve(account(), long)
    assert held.request.max_tokens == 300
    await here.budgets.give_up(account(), held, is_charged=False)
    with pytest.raises(BudgetExceededError):
        await here.reserve(account(), long, may_shorten=False)
    await here.set(tenant=per_day(input_bound(long) + LEAST_ANSWER - 1))
    with pytest.raises(BudgetExceededError):
        await here.reserve(account(), long)
    assert (await here.reserve(account())).request == REQUEST


async def test_a_budget_in_money_refuses_a_model_without_a_price_and_one_in_tokens_does_not() -> None:
    here = Process()
    await here.set(tenant=per_day(1_000))
    await here.budgets.reserve(account(), "mine/unknown", REQUEST)
    await here.set(tenant=per_day(1_000, 1_000))
    with pytest.raises(BudgetExceededError, match="'mine/unknown' has no price"):
        await here.budgets.reserve(account("t2"), "mine/unknown", REQUEST)


async def test_a_budget_of_zero_stops_the_first_call_and_new_requests() -> None:
    here = Process()
    await here.set(tenant=per_day(cost=0))
    with pytest.raises(BudgetExceededError, match="limit 0 USD, spent 0"):
        await here.reserve(account())
    with pytest.raises(RateLimitedError, match="used up: 0 of 0 USD") as refused:
        here.budgets.check_admission(ACME, "writer")
    assert refused.value.details == {"reason": "budget"}
    here.budgets.check_admission(OTHER, "writer")


async def test_callers_at_once_in_two_processes_cannot_exceed_a_budget_together() -> None:
    clock, records = FakeClock(), suspending_records(3)
    here, there = Process(records, clock), Process(records, clock)
    await here.set(tenant=per_day(10 * BOUND))

    async def run(process: Process, number: int) -> bool:
        try:
            await process.reserve(account(f"t{number}"))
        except BudgetExceededError:
            return False
        return True

    admitted = await asyncio.gather(*[run(there if number % 2 else here, number) for number in range(50)])
    assert sum(admitted) == 10
    assert await there.sums() == {"tenant day": (0, 10 * BOUND)}
    numbers = [number for number in range(50) if admitted[number]]
    await asyncio.gather(*[(here if number % 2 else there).count(account(f"t{number}")) for number in numbers])
    assert await here.sums() == {"tenant day": (150, 0)}


async def test_a_call_that_is_made_again_is_reserved_anew_and_the_attempt_that_was_cut_off_stays_charged() -> None:
    here = Process()
    await here.set(tenant=per_day(10_000))
    first = await here.reserve(account())
    await here.reserve(account())
    assert await here.sums() == {"tenant day": (BOUND, BOUND)}
    await here.budgets.give_up(account(), first, is_charged=True)  # the process that was cut off wakes up
    assert await here.sums() == {"tenant day": (BOUND, BOUND)}
    await here.count(account())
    assert await here.sums() == {"tenant day": (BOUND + 15, 0)}


@pytest.mark.parametrize(("is_charged", "spent"), [(True, BOUND), (False, 0)])
async def test_a_call_without_a_result_is_charged_if_the_provider_had_begun(is_charged: bool, spent: int) -> None:
    here = Process()
    await here.set(tenant=per_day(10_000))
    held = await here.reserve(account())
    await here.budgets.give_up(account(), held, is_charged=is_charged)
    assert await here.sums() == {"tenant day": (spent, 0)}


async def test_a_call_whose_provider_tells_no_tokens_counts_at_its_bound() -> None:
    here = Process()
    await here.set(tenant=per_day(10_000))
    await here.reserve(account())
    await here.count(account(), TokenUsage())
    assert await here.sums() == {"tenant day": (BOUND, 0)}


async def test_days_and_months_begin_anew_and_a_total_does_not() -> None:
    here = Process()
    await here.set(tenant=PeriodBudgets(BudgetLimit(9_999), BudgetLimit(9_999), BudgetLimit(9_999)))
    await here.make(account("t1"))
    await here.clock.advance(30 * DAY)  # the last day of January
    await here.make(account("t2"))
    assert await here.sums() == {"tenant day": (15, 0), "tenant month": (30, 0), "tenant total": (30, 0)}
    await here.reserve(account("t3"))
    await here.clock.advance(DAY)
    assert await here.sums() == {"tenant day": (0, 0), "tenant month": (0, 0), "tenant total": (30, BOUND)}
    await here.count(account("t3"))  # it began in January
    assert await here.sums() == {"tenant day": (0, 0), "tenant month": (0, 0), "tenant total": (45, 0)}


async def test_a_used_up_budget_refuses_requests_until_it_renews() -> None:
    here = Process()
    request = ModelRequest("writer", "", (), "", max_tokens=1)
    await here.set(tenant=PeriodBudgets(month=BudgetLimit(input_bound(request) + 1)))
    await here.reserve(account(), request)
    here.budgets.check_admission(ACME, "writer")
    await here.count(account(), TokenUsage(input_bound(request), 1))
    with pytest.raises(RateLimitedError, match=r"used up: 81 of 81 tokens\. It renews at 2026-02-01T00:00Z"):
        here.budgets.check_admission(ACME, "writer")
    await here.clock.advance(31 * DAY)
    here.budgets.check_admission(ACME, "writer")


async def test_a_budget_that_is_spent_when_it_is_set_refuses_requests_once_it_was_looked_at() -> None:
    shown, called = Process(), Process()
    for here in (shown, called):
        await here.count(account("t1"))
        await here.set(tenant=per_day(10))
    await shown.sums()
    with pytest.raises(BudgetExceededError):
        await called.reserve(account("t2"))
    for here in (shown, called):
        with pytest.raises(RateLimitedError, match="used up: 15 of 10 tokens"):
            here.budgets.check_admission(ACME, "writer")


async def test_a_new_budget_begins_with_what_was_used_before_it() -> None:
    here = Process()
    await here.count(account("t1"))
    await here.clock.advance(DAY)
    await here.count(account("t2"))
    await here.count(account("t3", agent="other"))
    await here.set(agents={"writer": per_day(900)}, tenant=PeriodBudgets(BudgetLimit(900), BudgetLimit(900)))
    expected = {"tenant day": (30, 0), "tenant month": (45, 0), "agent/writer day": (15, 0)}
    assert await here.sums() == expected
    await here.make(account("t4"))
    assert await here.sums() == {name: (spent + 15, 0) for name, (spent, _) in expected.items()}


async def test_calls_while_a_budget_was_removed_count_when_it_comes_back() -> None:
    here = Process()
    await here.set(tenant=per_day(900))
    await here.make(account("t1"))
    await here.reserve(account("t2"))
    await here.set()
    await here.count(account("t3"))
    await here.set(tenant=per_day(900))
    assert await here.sums() == {"tenant day": (30, 0)}
    await here.count(account("t2"))
    assert await here.sums() == {"tenant day": (45, 0)}


async def test_the_budget_of_a_request_holds_for_all_that_it_delegates() -> None:
    here = Process()
    await here.set(request=BudgetLimit(2 * BOUND))
    await here.reserve(account("root"))
    await here.reserve(account("child", request_id="root", agent="other"))
    with pytest.raises(BudgetExceededError, match=r"budget of the request stops .* It does not renew"):
        await here.reserve(account("grandchild", request_id="root"))
    await here.reserve(account("another"))
    own = (RequestBudget("sub", BudgetLimit(BOUND)),)
    await here.reserve(account("sub", request_id="fourth", budgets=own))
    with pytest.raises(BudgetExceededError):
        await here.reserve(account("below", request_id="fourth", budgets=own))
    await here.reserve(account("beside", request_id="fourth"))


async def test_another_process_admits_requests_again_after_a_budget_was_raised() -> None:
    clock, records = FakeClock(), MemoryStore().records
    here, there = Process(records, clock), Process(records, clock)
    await here.set(tenant=per_day(0))
    await there.budgets.load()
    refreshing = asyncio.create_task(there.budgets.keep_refreshing())
    with pytest.raises(RateLimitedError):
        there.budgets.check_admission(ACME, "writer")
    await here.set(tenant=per_day(1))
    with fail_after(20):
        while there.budgets.policies.known(ACME) != await here.budgets.policies.read(ACME):
            await clock.advance(5)  # it must sleep before time can pass for it
    there.budgets.check_admission(ACME, "writer")
    refreshing.cancel()


async def test_another_process_learns_of_a_budget_within_a_second() -> None:
    clock, records = FakeClock(), MemoryStore().records
    here, there = Process(records, clock), Process(records, clock)
    await there.reserve(account())
    await here.set(tenant=per_day(0))
    await clock.advance(1)
    with pytest.raises(BudgetExceededError):
        await there.reserve(account())


async def test_a_process_whose_clock_is_behind_does_not_begin_a_day_again() -> None:
    records, ahead, behind = MemoryStore().records, FakeClock(), FakeClock()
    here, there = Process(records, ahead), Process(records, behind)
    await here.set(tenant=per_day(BOUND + 20))
    await ahead.advance(DAY)
    await here.make(account("t1"))
    await there.make(account("t2"))
    assert await here.sums() == {"tenant day": (30, 0)}


async def test_without_budgets_nothing_is_written_but_the_usage() -> None:
    """In one transaction: the call, and the sums of its day."""
    store, written = CrashingStore(MemoryStore()), list[object]()
    store.decide = lambda write: written.append(write)
    here = Process(cast("Records", store.records))
    await here.reserve(account())
    assert written == []
    await here.count(account())
    assert written == [USAGE]
    await here.set(tenant=per_day(900))
    written.clear()
    await here.make(account("t2"))
    assert written == [BUDGET_SUMS, USAGE]
