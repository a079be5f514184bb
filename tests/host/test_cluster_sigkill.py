"""Two hosts in processes of their own on one PostgreSQL. One is killed with SIGKILL; the other ends what it began.

The orchestration is that of `test_host_sigkill`: a plan, two agents at the same time, a file, an answer. It begins at
the host that is killed, and is read at the other one from its beginning to its end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.crashes.processes import LineProcess, line_process
from tests.deadlines import fail_after
from tests.host.openai_server import OpenAiServer, Reply
from tests.host.running_host import read_events
from tests.host.test_host_sigkill import UNDISTURBED, HostProcess, Models, Orchestration, after_calls

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(150)]

SECONDS = 120
"""For one test, of which a few are the lease of the host that was killed."""

LEASE_SECONDS = 2.0
"""Of hosts of which one is killed."""
UNDISTURBED_LEASE_SECONDS = 10.0
"""Of hosts that are left alone: it lasts while they are only slow."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def forking() -> AsyncGenerator[LineProcess]:
    """What takes long to start, once for all tests."""
    async with line_process([sys.executable, "-m", "tests.host.forking_host"]) as process:
        yield process


class ClusterOrchestration(Orchestration):
    """A request that begins at one host and is read at another one."""

    def __init__(
        self, killed: HostProcess, other: HostProcess, models: Models, client: httpx2.AsyncClient, first: Any
    ) -> None:
        super().__init__(other, models, client)
        self.killed = killed
        self._first = first

    async def begin(self) -> None:
        """Send the message to the host that is killed later, and read at the other one."""
        path, body = f"{self._path}/messages", {"message": "Greet."}
        events = await read_events(self._first, "POST", path, json=body, until="request_received")
        self._id = events[-1].payload["request_id"]
        self._following = [asyncio.create_task(reader.follow(self._id)) for reader in self._readers]


@asynccontextmanager
async def two_hosts(
    forking: LineProcess, url: str, model_url: str, *, lease_seconds: float = LEASE_SECONDS
) -> AsyncGenerator[tuple[HostProcess, HostProcess]]:
    one, two = (HostProcess(forking, url, model_url, lease_seconds=lease_seconds) for _ in range(2))
    await one.start()
    two.token = one.token
    await two.start()
    try:
        yield one, two
    finally:
        await one.kill()
        await two.kill()


def client_of(host: HostProcess) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {host.token}"}
    return httpx2.AsyncClient(base_url=host.url, headers=headers, timeout=SECONDS, verify=False)


@asynccontextmanager
async def orchestration(forking: LineProcess, url: str, *cut_off: str) -> AsyncGenerator[ClusterOrchestration]:
    """An orchestration on two hosts. The models that are named are cut off in the middle, each once."""
    with fail_after(SECONDS):
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(OpenAiServer())
            lease = LEASE_SECONDS if cut_off else UNDISTURBED_LEASE_SECONDS
            hosts = two_hosts(forking, url, server.base_url, lease_seconds=lease)
            killed, other = await stack.enter_async_context(hosts)
            first = await stack.enter_async_context(client_of(killed))
            client = await stack.enter_async_context(client_of(other))
            made = ClusterOrchestration(killed, other, Models(server, *cut_off), client, first)
            await made.prepare()
            await made.begin()
            yield made


async def test_an_orchestration_that_is_read_at_another_host(forking: LineProcess, postgres_url: str) -> None:
    async with orchestration(forking, postgres_url) as begun:
        assert await begun.outcome() == UNDISTURBED


@pytest.mark.parametrize("role", ["plan", "answer"])
async def test_the_host_of_an_orchestration_is_killed_while_the_master_speaks(
    forking: LineProcess, postgres_url: str, role: str
) -> None:
    async with orchestration(forking, postgres_url, role) as begun:
        await begun.until_said(f"A draft of {role}")
        await begun.killed.kill()
        assert await begun.outcome() == after_calls(**{role: 2})


async def test_the_host_of_an_orchestration_is_killed_while_both_agents_speak(
    forking: LineProcess, postgres_url: str
) -> None:
    async with orchestration(forking, postgres_url, "north", "south") as begun:
        await begun.until_called(3)
        await begun.until_agent("north", "text")
        await begun.until_agent("south", "text")
        await begun.killed.kill()
        assert await begun.outcome() == after_calls(north=2, south=2)


async def test_a_request_that_waits_at_a_host_that_is_killed_is_taken_up_by_the_other(
    forking: LineProcess, postgres_url: str
) -> None:
    """The first request of the conversation is cut off at one host, and the second waits for it there."""
    async with orchestration(forking, postgres_url, "plan") as begun:
        await begun.until_said("A draft of plan")
        async with client_of(begun.killed) as first, client_of(begun.host) as client:
            path, body = f"{begun._path}/messages", {"message": "Greet again."}  # pyright: ignore
            sent = await read_events(first, "POST", path, json=body, until="request_received")
            waiting = sent[-1].payload["request_id"]
            queued = await read_events(client, "GET", f"/v1/requests/{waiting}/events", until="queued")
            assert queued[-1].name == "queued"
            await begun.killed.kill()
            events = await read_events(client, "GET", f"/v1/requests/{waiting}/events")
            assert (events[-1].name, events[-1].payload["ok"]) == ("done", True)
            before = await read_events(client, "GET", f"/v1/requests/{begun._id}/events")  # pyright: ignore
            assert before[-1].payload["content"] == "I ask both.\n\nBoth said hello."


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 6])
async def test_a_tick_whose_host_is_killed_at_some_step_is_sent_once(
    forking: LineProcess, postgres_url: str, writes: int
) -> None:
    """One host creates the schedule and kills itself some writes later; either of them may have claimed the tick."""
    with fail_after(SECONDS):
        async with OpenAiServer() as server:
            server.answer_with(lambda request: Reply("fine"))
            async with two_hosts(forking, postgres_url, server.base_url) as (killed, other):
                await killed.kill()
                await killed.start(kill_after=2 + writes)  # when the tenant was last used, and the schedule
                async with client_of(killed) as first, client_of(other) as client:
                    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
                    body = {"id": "soon", "name": "Soon", "message": "hello", "at": soon}
                    try:
                        reply = await first.post("/v1/schedules", json=body)
                        assert reply.status_code == 201, reply.text
                    except httpx2.TransportError:
                        assert (await client.get("/v1/schedules/soon")).status_code == 200
                    runs: list[Any] = []
                    while not runs:
                        runs = (await client.get("/v1/schedules/soon/runs")).json()["runs"]
                        await asyncio.sleep(0.05)
                    assert [run["outcome"] for run in runs] == ["started"]
                    events = await read_events(client, "GET", f"/v1/requests/{runs[0]['request_id']}/events")
                    assert events[-1].payload["ok"] is True
                    requests = (await client.get("/v1/requests")).json()["requests"]
                    assert [request["request_id"] for request in requests] == [runs[0]["request_id"]]
