"""A host is killed with SIGKILL around the model calls of a request with a budget: nothing is spent uncounted.

`test_budgets_crashes` tries every write in one process. Here a real process dies while a provider is called.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path

import httpx2
import pytest

from tests.crashes.processes import LineProcess, line_process
from tests.deadlines import fail_after
from tests.host.openai_server import OpenAiServer, ReceivedRequest, Reply
from tests.host.test_approvals_sigkill import Approver
from tests.host.test_host_sigkill import SECONDS, HostProcess

pytestmark = pytest.mark.anyio

TRIES_ALL = bool(os.environ.get("PARLEY_EVERY_CRASH"))
SOME_WRITES = (3, 5, 7)
"""Those around the reservation, the call and its settlement."""
TOKENS = 18
"""What the provider reports for each call."""
AGENT = {"id": "writer", "name": "writer", "role": "writer", "goal": "Writes.", "max_tokens": 20}
BUDGET = {"tenant": {"total": {"tokens": 1_000_000}}}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def forking() -> AsyncGenerator[LineProcess]:
    """What takes long to start, once for all tests."""
    async with line_process([sys.executable, "-m", "tests.host.forking_host"]) as process:
        yield process


def answer(request: ReceivedRequest) -> Reply:
    return Reply("Done." if "[TOOL RESULTS]" in request.prompt else "/help\n")


@pytest.mark.deadline(600)
async def test_a_host_that_is_killed_right_after_a_write_of_a_budget(forking: LineProcess, tmp_path: Path) -> None:
    for number in count(1) if TRIES_ALL else SOME_WRITES:
        folder = tmp_path / str(number)
        folder.mkdir()
        with fail_after(SECONDS):
            async with OpenAiServer() as server:
                server.answer_with(answer)
                host = HostProcess(forking, f"{folder}/host.db", server.base_url)
                await host.start()
                headers = {"Authorization": f"Bearer {host.token}"}
                async with httpx2.AsyncClient(base_url=host.url, headers=headers, timeout=SECONDS) as client:
                    assert (await client.post("/v1/agents", json=AGENT)).status_code == 201
                    assert (await client.put("/v1/budgets", json=BUDGET)).status_code == 200
                    await host.kill()
                    await host.start(kill_after=number)
                    restarting = asyncio.create_task(host.restart_when_killed())
                    caller = Approver(host, client)
                    request = await caller.until_done(await caller.begin())
                    (budget,) = (await caller.insist("GET", "/v1/budgets")).json()["budgets"]
                    (used,) = (await caller.insist("GET", "/v1/usage?group_by=agent")).json()["rows"]
                    was_killed = host.life == 3
                restarting.cancel()
                await host.kill()
                calls = len(server.requests)
        assert request["state"] == "completed"
        assert used["calls"] == 2, f"killed after write {number}: a recorded call counts once"
        assert budget["reserved"]["tokens"] == 0
        spent = budget["spent"]["tokens"]
        assert spent >= calls * TOKENS, f"killed after write {number}: {calls} calls and {spent} tokens"
        if not was_killed:
            assert spent == 2 * TOKENS
            assert number > max(SOME_WRITES), "The host was never killed"
            break
