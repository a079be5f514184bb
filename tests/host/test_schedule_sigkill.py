"""Hosts that are killed with SIGKILL in the middle of a tick: after the claim, after the message, and after the entry.

`test_schedules` crashes at every write, in process. Here a real process dies, and another one opens the file.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.crashes.processes import line_process
from tests.deadlines import fail_after
from tests.host.openai_server import OpenAiServer, Reply
from tests.host.running_host import read_events
from tests.host.test_host_sigkill import HostProcess

pytestmark = pytest.mark.anyio

SECONDS = 60
BEFORE_THE_TICK = 2
"""Writes of the request that creates the schedule: when the tenant was last used, and the schedule itself."""


async def test_a_tick_that_is_killed_at_any_step_is_run_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.host.forking_host"]
    with fail_after(SECONDS):
        async with OpenAiServer() as server, line_process(command) as forking:
            server.answer_with(lambda request: Reply("fine"))
            starting = asyncio.Lock()
            lives = [
                tick_with_kill(HostProcess(forking, str(tmp_path / f"{writes}.db"), server.base_url), writes, starting)
                for writes in (1, 2, 3)
            ]
            assert await asyncio.gather(*lives) == [[("started", "completed")]] * 3


async def tick_with_kill(host: HostProcess, writes: int, starting: asyncio.Lock) -> list[tuple[str, str]]:
    """What became of a tick whose host dies after so many of its writes, and of its requests."""
    async with starting:  # one at a time: the process that forks hosts says little
        await host.start(kill_after=BEFORE_THE_TICK + writes)
    headers = {"Authorization": f"Bearer {host.token}"}
    async with httpx2.AsyncClient(base_url=host.url, headers=headers, timeout=SECONDS, verify=False) as client:
        soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
        body = {"id": "soon", "name": "Soon", "message": "hello", "at": soon}
        assert (await client.post("/v1/schedules", json=body)).status_code == 201
        await host.until_ended()
        async with starting:
            await host.start()
        runs: list[Any] = []
        while not runs:
            runs = (await client.get("/v1/schedules/soon/runs")).json()["runs"]
        for run in runs:
            await read_events(client, "GET", f"/v1/requests/{run['request_id']}/events")
        requests = (await client.get("/v1/requests")).json()["requests"]
        assert [request["request_id"] for request in requests] == [run["request_id"] for run in runs]
        await host.kill()
        return [(run["outcome"], request["state"]) for run, request in zip(runs, requests, strict=True)]
