"""A host crashes right before or right after each write of an approval in turn, and the next one goes on.

However it ends, the step is taken once, after one decision, and everything is in the inbox and the audit once. What is
sent again after a crash is what a caller and an approver would send again: the request with its key, and a decision if
the inbox shows that one is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Literal, cast

import pytest

from parley.engine.runs.journal import Journal
from parley.host.access.principal import Principal
from parley.host.api.submission import submit
from parley.host.approvals.outcomes import DecidedError
from parley.host.constitution import read_constitution
from parley.host.data.approval_timers import ApprovalTimers
from parley.host.host import Host, HostSettings
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.registry import ModelRegistry
from parley.host.origin import RunOrigin, host_caller
from parley.protocol.errors import UnavailableError
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import TextPart
from parley.protocol.tasks import TaskState
from parley.stores.interface import Store, TaskKey
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.testing.crashing_store import CrashingStore, Cut
from tests.host.approving_host import NOTE, RULE, definition, models

pytestmark = pytest.mark.anyio

Decider = Literal["person", "timer"]

ADA = Principal("person:1/ada@example.com", "1")
GRACE = Principal("person:1/grace@example.com", "1")


class Approving:
    """One request to an agent that needs approval, over as many lives of the host as it takes."""

    def __init__(self, agent: str, decider: Decider) -> None:
        self.store = MemoryStore()
        self.writes = 0
        self._agent = agent
        self._decider: Decider = decider
        self.request_id = ""

    async def prepare(self) -> None:
        rule = {**RULE, "four_eyes": True}
        if self._decider == "timer":
            rule |= {"timeout": "1 ms", "default": "approve"}
        async with self._life(None) as (host, _):
            tenant, _ = await host.create_tenant("acme", with_starters=False)
            for defined in (definition(approvals=[rule]), definition("boss")):
                await host.agents.create(tenant.id, read_constitution(defined))

    @asynccontextmanager
    async def _life(self, crash: tuple[Cut, int] | None) -> AsyncGenerator[tuple[Host, CrashingStore]]:
        await self.store.open()
        crashing = CrashingStore(self.store)
        host = Host(HostSettings(admin_token=""), store=cast("Store", crashing), drain_seconds=0)
        host.models = ModelRegistry(host.settings.models, builtin={**BUILTIN_MODELS, **models()})
        async with host.app.running():
            first = self.writes

            def decide(_: object) -> Cut:
                self.writes += 1
                return crash[0] if crash is not None and self.writes - first == crash[1] else None

            crashing.decide = decide
            yield host, crashing

    async def hold(self, crash: tuple[Cut, int] | None = None) -> None:
        """Hold the conversation to its end; with a crash, in two lives."""
        lives = [crash, None] if crash is not None else [None]
        self.writes = 0
        for one in lives:
            async with self._life(one) as (host, crashing):
                talking = asyncio.ensure_future(self._talk(host))
                crashed = asyncio.ensure_future(crashing.crashed.wait())
                await asyncio.wait([talking, crashed], return_when=asyncio.FIRST_COMPLETED)
                for task in (talking, crashed):
                    if task.done():
                        task.result()
                    task.cancel()

    async def _talk(self, host: Host) -> None:
        tenant = host.tenants.get("1")
        origin = RunOrigin(surface="chat", principal=ADA.name)
        self.request_id, _ = await submit(
            host, tenant, (TextPart("Note it."),), agent_id=self._agent, origin=origin, idempotency_key="note"
        )
        while True:
            head = await host.views.head("1", self.request_id)
            if head is not None and head.state is TaskState.COMPLETED and not host.engine.runs.all:
                return
            assert head is None or head.state is not TaskState.FAILED
            for approval in await host.approvals.approvals.list("1", is_pending=True):
                if self._decider == "person":
                    with suppress(DecidedError, UnavailableError):
                        await host.approvals.decide("1", approval.request.id, "approve", principal=GRACE)
            await asyncio.sleep(0.001)

    async def outcome(self) -> dict[str, Any]:
        """What is left of it."""
        async with self._life(None) as (host, _):
            decided = await host.approvals.approvals.list("1", is_pending=False)
            # Of the task that waits for approval: one that waits with it may come too late for that.
            key = TaskKey(host_caller("1").owner, decided[0].request.request_id)
            events = await host.engine.views.events(key)
            entries = await host.audit.list(None, 200)
            timers = [timer.kind for timer, _ in await ApprovalTimers(self.store.records).next()]
            messages = Journal.read(events).messages
            return {
                "notes": (await host.scratchpads.read("1", "writer")).split("\n"),
                "decided": [(one.state, one.decided_by, one.request.requested_by) for one in decided],
                "pending": len(await host.approvals.approvals.list("1", is_pending=True)),
                "audit": Counter([entry.action for entry in entries if entry.target_kind == "approval"]),
                "questions": sum(
                    isinstance(event, StatusUpdate) and event.status.state is TaskState.INPUT_REQUIRED
                    for event in events
                ),
                "messages": len(messages),
                "timers": [kind for kind in timers if kind != "wake"],
                "requests": len(await host.views.requests("1", 10)),
            }


@pytest.mark.parametrize(("agent", "decider"), [("writer", "person"), ("writer", "timer"), ("boss", "person")])
async def test_a_crash_at_any_write_neither_loses_nor_repeats_anything(agent: str, decider: Decider) -> None:
    async def held(crash: tuple[Cut, int] | None) -> tuple[Approving, dict[str, Any]]:
        approving = Approving(agent, decider)
        await approving.prepare()
        await approving.hold(crash)
        writes = approving.writes
        outcome = await approving.outcome()
        approving.writes = writes
        return approving, outcome

    undisturbed, expected = await held(None)
    by = (GRACE.name, "approved") if decider == "person" else ("host", "expired")
    assert expected["notes"] == [NOTE, ""]
    assert expected["decided"] == [(by[1], by[0], ADA.name)]
    assert (expected["pending"], expected["timers"], expected["requests"]) == (0, [], 1)
    assert sum(expected["audit"].values()) == 2
    assert (expected["questions"], expected["messages"]) == (1, 2)
    assert undisturbed.writes > 15
    for number in range(1, undisturbed.writes + 1):
        for side in ("before", "after"):
            _, found = await held((side, number))
            assert found == expected, f"crash {side} write {number}"


async def test_of_several_processes_on_one_store_one_decides() -> None:
    """Two hosts look at the same timer and get a decision each, all at once."""
    database = MemoryDatabase()
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(_sharing(database)) for _ in range(2)]
        await first.create_tenant("acme", with_starters=False)
        rule = {**RULE, "timeout": "1 hour", "default": "deny"}
        first.catalogue.put(await first.agents.create("1", read_constitution(definition(approvals=[rule]))))
        await second.tenants.load()
        async for stored in second.agents.all():
            second.catalogue.put(stored)
        origin = RunOrigin(surface="chat", principal=ADA.name)
        request_id, _ = await submit(
            first, first.tenants.get("1"), (TextPart("Note it."),), agent_id="writer", origin=origin
        )
        while not (pending := await second.approvals.approvals.list("1", is_pending=True)):
            await asyncio.sleep(0.001)
        approval_id = pending[0].request.id
        decisions = [
            first.approvals.decide("1", approval_id, "deny", principal=ADA),
            second.approvals.decide("1", approval_id, "approve", principal=GRACE),
        ]
        expiries = [host.approvals.expire("1", approval_id) for host in (first, second)]
        replies = await asyncio.gather(*decisions, *expiries, return_exceptions=True)
        for reply in replies:
            assert not isinstance(reply, BaseException) or isinstance(reply, DecidedError), reply
        while (head := await first.views.head("1", request_id)) is None or head.state is not TaskState.COMPLETED:
            await asyncio.sleep(0.001)
        (decided,) = await first.approvals.approvals.list("1", is_pending=False)
        notes = await first.scratchpads.read("1", "writer")
        assert notes == (f"{NOTE}\n" if decided.state == "approved" else "")
        entries = [entry.action for entry in await first.audit.list(None, 200) if entry.target_kind == "approval"]
        assert len(entries) == 2
        events = await first.engine.views.events(TaskKey(host_caller("1").owner, request_id))
        assert len(Journal.read(events).messages) == 2


@asynccontextmanager
async def _sharing(database: MemoryDatabase) -> AsyncGenerator[Host]:
    host = Host(HostSettings(admin_token=""), store=MemoryStore(database), drain_seconds=0)
    host.models = ModelRegistry(host.settings.models, builtin={**BUILTIN_MODELS, **models()})
    async with host.app.running():
        yield host
