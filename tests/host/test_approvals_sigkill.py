"""A host is killed with SIGKILL while a step waits for approval or was just approved: it is taken once.

`test_approvals_crashes` tries every write in one process. Here a real process dies, with its file, its port and its
timers, and another one takes over.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.crashes.processes import LineProcess, line_process
from tests.deadlines import fail_after
from tests.host.openai_server import OpenAiServer, ReceivedRequest, Reply
from tests.host.running_host import read_events
from tests.host.test_host_sigkill import SECONDS, HostProcess

pytestmark = pytest.mark.anyio

TRIES_ALL = bool(os.environ.get("PARLEY_EVERY_CRASH"))
SOME_WRITES = (6, 8, 9)
"""Of about 14: those around the request, the wait and the decision."""

AGENT = {
    "id": "writer",
    "name": "writer",
    "role": "writer",
    "goal": "Writes.",
    "approvals": [{"on": "command", "match": ["mem"], "timeout": "1 hour"}],
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def forking() -> AsyncGenerator[LineProcess]:
    """What takes long to start, once for all tests."""
    async with line_process([sys.executable, "-m", "tests.host.forking_host"]) as process:
        yield process


def answer(request: ReceivedRequest) -> Reply:
    if "[TOOL RESULTS]" in request.prompt:
        return Reply("Done.")
    return Reply("/mem add entry reference Price\nFive a month.\n/endmem\n")


class Approver:
    """A caller and an approver in one, who repeat what was lost with a host that died."""

    def __init__(self, host: HostProcess, client: httpx2.AsyncClient) -> None:
        self._host = host
        self._client = client

    async def insist(self, method: str, path: str, **members: Any) -> httpx2.Response:
        """The reply to a request, sent until there is one."""
        while True:
            life = self._host.life
            try:
                return await self._client.request(method, path, **members)
            except httpx2.TransportError:
                await self._host.until_after(life)

    async def begin(self) -> str:
        while True:
            life, key = self._host.life, {"Idempotency-Key": "price"}
            begun = read_events(
                self._client,
                "POST",
                "/v1/agents/writer/chat",
                json={"message": "Note it."},
                headers=key,
                until="request_received",
            )
            try:
                return (await begun)[-1].payload["request_id"]
            except httpx2.TransportError:
                await self._host.until_after(life)

    async def approve(self) -> None:
        """Approve what is in the inbox, until it is decided."""
        while not (await self.insist("GET", "/v1/approvals?state=decided")).json()["approvals"]:
            for one in (await self.insist("GET", "/v1/approvals")).json()["approvals"]:
                await self.insist("POST", f"/v1/approvals/{one['id']}", json={"decision": "approve"})
            await asyncio.sleep(0.01)

    async def until_done(self, request_id: str) -> dict[str, Any]:
        while True:
            request = (await self.insist("GET", f"/v1/requests/{request_id}")).json()["request"]
            if request["state"] not in ("running", "input_required"):
                return request
            await asyncio.sleep(0.01)


@pytest.mark.deadline(600)
async def test_a_host_that_is_killed_right_after_a_write_of_an_approval(forking: LineProcess, tmp_path: Path) -> None:
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
                    await host.kill()
                    await host.start(kill_after=number)
                    restarting = asyncio.create_task(host.restart_when_killed())
                    approver = Approver(host, client)
                    request_id = await approver.begin()
                    await approver.approve()
                    request = await approver.until_done(request_id)
                    entries = (await approver.insist("GET", "/v1/memory/entries")).json()["entries"]
                    audited = (await approver.insist("GET", "/v1/audit")).json()["entries"]
                    was_killed = host.life == 3
                restarting.cancel()
                await host.kill()
        assert request["state"] == "completed"
        assert [entry["title"] for entry in entries] == ["Price"], f"killed after write {number}"
        about = [entry["action"] for entry in audited if entry["target_kind"] == "approval"]
        assert about == ["approve", "request_approval"], f"killed after write {number}"
        if not was_killed:
            assert number > max(SOME_WRITES), "The host was never killed"
            break
