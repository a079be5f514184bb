"""Reports of usage: the sums of days equal the calls, whatever is asked for, as JSON and as CSV."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.host.api.usage import as_csv
from parley.host.data.keys import USAGE_DAYS
from parley.host.data.tenants import Tenants
from parley.host.data.usage import Usage
from parley.host.data.usage_days import UsageSums
from parley.host.data.usage_reports import DIMENSIONS, MOST_ROWS, ReportRow, ReportTooLongError, UsageReports
from parley.host.models.model import ModelRequest, TokenUsage
from parley.stores.interface import DeleteRecord
from parley.testing.clock import FakeClock
from tests.host.api_calls import constitution, event_named
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.function_model import FunctionModel
from tests.host.running_host import read_events, running_host
from tests.host.stores import MemoryStore, ProcessStore

pytestmark = pytest.mark.anyio

FIRST = date(2026, 1, 1)
CALL = ("small", TokenUsage(10, 5), Decimal("0.1"))

Call = tuple[int, str, str, str, int, int, Decimal | None]
"""Its day, agent, model, caller, conversation, tokens and cost."""

calls_of_some_days = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["scout", "writer"]),
        st.sampled_from(["small", "large"]),
        st.sampled_from(["", "token:1/a", "person:1/ada"]),
        st.integers(0, 2),
        st.integers(0, 1_000),
        st.none() | st.decimals(0, 9, places=6),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(calls_of_some_days, st.permutations(DIMENSIONS), st.integers(0, 6))
def test_the_sums_of_any_report_are_those_of_its_calls(calls: list[Call], order: list[Any], length: int) -> None:
    async def check() -> None:
        clock, group_by = FakeClock(), order[:length]
        usage = Usage(ProcessStore().records, clock)
        expected: dict[tuple[str, ...], list[Any]] = {}
        for number, (day, agent, model, caller, conversation, tokens, cost) in enumerate(
            sorted(calls, key=lambda c: c[0])
        ):
            await clock.advance(day * 86_400 - (clock.now() - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds())
            called = (model, TokenUsage(tokens, 1), cost)
            for _ in range(2):  # a call that is reported again counts once
                await usage.record(ACME, f"r{number}", agent, [called], caller=caller, conversation=conversation)
            facts = dict(zip(DIMENSIONS, (ACME, str(FIRST + timedelta(day)), agent, caller, model), strict=False))
            group = tuple([(facts | {"conversation": str(conversation or "")})[one] for one in group_by])
            expected.setdefault(group, []).append((tokens, cost))
        rows = await UsageReports(usage).report([ACME, OTHER], FIRST, FIRST + timedelta(3), group_by=group_by)
        assert {tuple(row.group.values()): row.sums for row in rows} == {
            group: UsageSums(
                calls=len(found),
                input_tokens=sum(tokens for tokens, _ in found),
                output_tokens=len(found),
                cost=sum((cost or Decimal(0) for _, cost in found), Decimal(0)),
                calls_without_price=sum(cost is None for _, cost in found),
            )
            for group, found in expected.items()
        }

    asyncio.run(check())


async def test_processes_at_once_add_to_the_same_sums() -> None:
    clock, records = FakeClock(), suspending_records(4)
    here, there = Usage(records, clock), Usage(records, clock)
    await asyncio.gather(*[(here if n % 2 else there).record(ACME, f"r{n // 2}", "a", [CALL]) for n in range(20)])
    (row,) = await UsageReports(here).report([ACME], FIRST, FIRST, group_by=["agent"])
    assert (row.sums.calls, row.sums.cost) == (10, Decimal("1.0"))


async def test_a_store_without_sums_gets_them_from_its_calls_when_the_host_starts() -> None:
    clock, records = FakeClock(), MemoryStore().records
    await Tenants(records, clock).create("Acme")
    usage = Usage(records, clock)
    for number in range(3):
        await usage.record(ACME, f"r{number}", "a", [CALL, CALL], caller=f"token:1/{number % 2}")
        await clock.advance(86_400)
    days = FIRST, FIRST + timedelta(9)
    before = await UsageReports(usage).report([ACME], *days, group_by=["day", "caller"])
    await records.write(*[DeleteRecord(one.key) for one in await records.list(USAGE_DAYS, ACME, limit=99)])
    again = Usage(records, clock)
    assert await UsageReports(again).report([ACME], *days, group_by=["day", "caller"]) == []
    await again.load()
    assert await UsageReports(again).report([ACME], *days, group_by=["day", "caller"]) == before
    await again.rebuild_days(ACME)
    assert await UsageReports(again).report([ACME], *days, group_by=["day", "caller"]) == before


async def test_a_report_has_bounds() -> None:
    reports = UsageReports(usage := Usage(MemoryStore().records, FakeClock()))
    with pytest.raises(ReportTooLongError, match="at most 366 days"):
        await reports.report([ACME], FIRST, FIRST + timedelta(366), group_by=["day"])
    with pytest.raises(ReportTooLongError, match="at most 31 days"):
        await reports.report([ACME], FIRST, FIRST + timedelta(31), group_by=["conversation"])
    for number in range(20):
        await usage.record(ACME, f"r{number}", "a", [CALL], caller=str(number))
    assert len(await reports.report([ACME], FIRST, FIRST + timedelta(365), group_by=["caller"])) == 20 < MOST_ROWS


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", 'a,"b"\n', "writer"])
def test_no_cell_of_a_csv_is_a_formula(text: str) -> None:
    row = ReportRow({"agent": text, "day": "2026-01-01"}, UsageSums(calls=2, cost=Decimal("1E-7")))
    names, cells = csv.reader(io.StringIO(as_csv(["day", "agent"], [row]).decode()))
    shown = dict(zip(names, cells, strict=True))
    assert (shown["day"], shown["calls"], shown["cost"]) == ("2026-01-01", "2", "0.0000001")
    assert shown["agent"] == (text if text[0] in "aw" else f"'{text}")


async def test_usage_is_reported_to_the_tenant_and_across_tenants_to_the_operator() -> None:
    async def hello(request: ModelRequest) -> AsyncIterator[str]:
        yield "hello"

    async with running_host(models={"parley/router": FunctionModel(hello)}) as running:
        for tenant, times in ((running.acme, 2), (running.globex, 1)):
            await tenant.client.post("/v1/agents", json=constitution("writer"))
            for _ in range(times):
                events = await read_events(tenant.client, "POST", "/v1/agents/writer/chat", json={"message": "hi"})
                assert event_named(events, "done")["ok"]
        acme, today = running.acme.client, datetime.now(UTC).date().isoformat()
        report = (await acme.get("/v1/usage")).json()
        assert (report["to"], report["group_by"], report["currency"]) == (
            today,
            ["day", "agent", "caller", "model"],
            "USD",
        )
        (row,) = report["rows"]
        assert (row["day"], row["agent"], row["caller"], row["model"]) == (today, "writer", "tenant:1", "parley/router")
        assert (row["calls"], row["input_tokens"], row["cost"], row["tenant"]) == (2, 20, "0", None)
        listed = await acme.get("/v1/usage?group_by=agent,caller", headers={"Accept": "text/csv"})
        assert listed.headers["content-type"].startswith("text/csv")
        assert listed.text.splitlines()[1] == "writer,tenant:1,2,20,10,0,0,0,0"
        assert (await acme.get("/v1/usage?group_by=agent,caller&format=csv")).text == listed.text
        everyone = (await running.admin.get("/v1/admin/usage?group_by=tenant")).json()
        assert [(row["tenant"], row["calls"]) for row in everyone["rows"]] == [("1", 2), ("2", 1)]
        paged = (await running.admin.get("/v1/admin/usage?group_by=tenant&limit=1&offset=1")).json()
        assert ([row["tenant"] for row in paged["rows"]], paged["next_offset"]) == (["2"], None)
        for query, error in (
            ("group_by=tenant", "group_by: must be different ones of day"),
            ("group_by=day,day", "group_by: must be"),
            ("group_by=", "group_by: must be"),
            ("format=xml", "format: must be json or csv"),
            ("from=2026-02-02&to=2026-02-01", "from: must not be after to"),
            ("from=2020-01-01", "to: must be at most 366 days after from"),
        ):
            refused = await acme.get(f"/v1/usage?{query}")
            assert (refused.status_code, refused.json()["error"][: len(error)]) == (400, error)
