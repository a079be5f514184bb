"""A host that crashes while messages wait or interrupt: whatever write it crashes at, it ends as if it had not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count
from random import Random
from typing import Any, cast

import httpx2
import pytest

from parley.engine.limits import Limits
from parley.host.host import AppOptions
from parley.host.models.model import ModelRequest
from parley.protocol.extensions import WHEN_BUSY
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.testing.crashing_store import CrashingStore, Cut
from tests.deadlines import fail_after
from tests.host.a2a_calls import path_of, request
from tests.host.api_calls import constitution
from tests.host.function_model import FunctionModel
from tests.host.running_host import read_events, running_host
from tests.suspending import suspending

pytestmark = pytest.mark.anyio

TRIES_ALL = bool(os.environ.get("PARLEY_EVERY_CRASH"))
"""Whether a crash comes before each write as well: that is nearly the same as one after the write before it."""

INTERRUPT = {"metadata": {WHEN_BUSY: "interrupt"}}


class Life:
    """One life of a host. Its model says what it hears, and waits in between for `slow`; for `ask`, it delegates."""

    def __init__(self) -> None:
        self.waits, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.model = FunctionModel(self._reply)
        self.client: httpx2.AsyncClient | None = None

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        if "ask" in request.query and request.agent_id == "worker" and not request.results:
            yield "I ask.\n/agent helper slow\n"
            return
        yield f"{request.query}: "
        for word in ["word "] * request.query.count("long") * 60:
            self.waits.set()
            yield word
        if "slow" in request.query:
            self.waits.set()
            await self.may_go_on.wait()
        yield "done"

    async def send(self, number: int, text: str, **members: Any) -> Any:
        """Send a message, again if it was sent in an earlier life; the task."""
        parts = {"role": "ROLE_USER", "messageId": f"m-{number}", "parts": [{"text": text}]}
        params = {"message": {**parts, **members}, "configuration": {"returnImmediately": True}}
        assert self.client is not None
        reply = await self.client.post(path_of("worker"), json=request("SendMessage", params))
        assert "result" in reply.json(), reply.text
        return reply.json()["result"]["task"]

    async def until_slow_or_over(self, task: Any) -> None:
        """Wait until the model waits, unless an earlier life has come further."""
        either: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self.waits.wait()),
            asyncio.ensure_future(self.end_of(task["id"])),
        ]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in either:
                one.cancel()
            await asyncio.gather(*either, return_exceptions=True)

    async def end_of(self, task_id: str) -> tuple[str, str]:
        """How a request ended, and what its readers hold then."""
        assert self.client is not None
        events = await read_events(self.client, "GET", f"/v1/requests/{task_id}/events")
        text, done = "", events[-1].payload
        for event in events:
            if event.name == "text":
                text = ("" if event.payload.get("replace") else text) + event.payload["delta"]
        assert text == done["content"]
        return done.get("error", "ok"), text

    async def states(self, task_id: str) -> list[str]:
        """How what a request has delegated ended, when all of it has."""
        assert self.client is not None
        while True:
            tree = (await self.client.get(f"/v1/requests/{task_id}/tree")).json()
            found = [child["state"] for child in tree["children"]]
            if "running" not in found:
                return found
            for child in tree["children"]:
                await self.client.get(f"/v1/requests/{child['request_id']}?wait=5")


Scenario = Callable[[Life], Awaitable[Any]]


async def outcome_of(scenario: Scenario, *, crash: int = 0, cut: Cut = None, is_slow: bool = False) -> tuple[Any, int]:
    """What a scenario comes to if the host crashes at a write, and how many writes there were.

    If the store `is_slow`, what is said waits for it.
    """
    database, token = MemoryDatabase(), ""
    for number in count(1):
        plain = MemoryStore(database)
        store, life, writes = CrashingStore(suspending(plain, Random(7)) if is_slow else plain), Life(), 0
        options: AppOptions = {"drain_seconds": 0}
        if is_slow:
            options["engine_limits"] = Limits(unwritten_events=1)
        models, tenants = {"parley/test": life.model}, () if token else ("acme",)
        async with running_host(models=models, tenants=tenants, store=cast("Any", store), options=options) as running:
            if not token:
                token = running.acme.token
                for agent in ("worker", "helper"):
                    await running.acme.client.post("/v1/agents", json=constitution(agent, model="parley/test"))

            def decide(write: object, *, is_first: bool = number == 1) -> Cut:
                nonlocal writes
                writes += 1
                return cut if is_first and writes == crash else None

            store.decide = decide
            life.client = await running.client(token)
            playing = asyncio.ensure_future(scenario(life))
            crashed = asyncio.ensure_future(store.crashed.wait())
            with fail_after(10):
                await asyncio.wait({playing, crashed}, return_when=asyncio.FIRST_COMPLETED)
            crashed.cancel()
            if not store.has_crashed:
                return playing.result(), writes
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
    raise AssertionError


async def queued_in_a_task(life: Life) -> Any:
    task = await life.send(1, "slow one")
    await life.until_slow_or_over(task)
    await life.send(2, "two", taskId=task["id"])
    life.may_go_on.set()
    return await life.end_of(task["id"])


async def interrupting_a_model(life: Life) -> Any:
    task = await life.send(1, "slow one")
    await life.until_slow_or_over(task)
    await life.send(2, "two", taskId=task["id"], **INTERRUPT)
    return await life.end_of(task["id"])


async def interrupting_a_sub_agent(life: Life) -> Any:
    task = await life.send(1, "ask")
    await life.until_slow_or_over(task)
    await life.send(2, "two", taskId=task["id"], **INTERRUPT)
    return await life.end_of(task["id"]), await life.states(task["id"])


async def queued_in_a_conversation(life: Life) -> Any:
    first = await life.send(1, "slow one", contextId="c")
    await life.until_slow_or_over(first)
    second = await life.send(2, "two", contextId="c")
    life.may_go_on.set()
    ends = [await life.end_of(task["id"]) for task in (first, second)]
    assert life.client is not None
    began = [(await life.client.get(f"/v1/requests/{task['id']}")).json()["request"] for task in (first, second)]
    return ends, began[0]["completed_at"] <= began[1]["completed_at"]


async def interrupting_a_conversation(life: Life) -> Any:
    first = await life.send(1, "slow one", contextId="c")
    await life.until_slow_or_over(first)
    second = await life.send(2, "two", contextId="c", **INTERRUPT)
    return [await life.end_of(task["id"]) for task in (first, second)]


INTERRUPTED = "The request was interrupted by a newer message."
EXPECTED: dict[Scenario, Any] = {
    queued_in_a_task: ("ok", "slow one: done\n\ntwo: done"),
    interrupting_a_model: ("ok", "slow one:  … [interrupted]\n\ntwo: done"),
    interrupting_a_sub_agent: (("ok", "I ask.\n … [interrupted]\n\ntwo: done"), ["canceled"]),
    queued_in_a_conversation: ([("ok", "slow one: done"), ("ok", "two: done")], True),
    interrupting_a_conversation: ([(INTERRUPTED, "slow one: "), ("ok", "two: done")]),
}


@pytest.mark.parametrize("scenario", EXPECTED, ids=lambda scenario: scenario.__name__)
async def test_a_crash_at_any_write_changes_nothing(scenario: Scenario) -> None:
    found, writes = await outcome_of(scenario)
    assert found == EXPECTED[scenario]
    for crash in range(1, writes + 1):
        cuts: Sequence[Cut] = ("before", "after") if TRIES_ALL else ("after",)
        for cut in cuts:
            again, _ = await outcome_of(scenario, crash=crash, cut=cut)
            assert again == found, f"crash {cut} write {crash} of {writes}"


async def test_a_crash_after_an_interruption_that_came_while_the_store_was_slow_changes_nothing() -> None:
    async def interrupting_what_is_told(life: Life) -> Any:
        task = await life.send(1, "long")
        await life.until_slow_or_over(task)
        await life.send(2, "two", taskId=task["id"], **INTERRUPT)
        return await life.end_of(task["id"])

    _, writes = await outcome_of(interrupting_what_is_told, is_slow=True)
    for crash in range(1, writes + 1):
        (end, text), _ = await outcome_of(interrupting_what_is_told, crash=crash, cut="after", is_slow=True)
        assert end == "ok", f"crash after write {crash} of {writes}"
        assert text.endswith("two: done")
        assert text.count("[interrupted]") <= 1
