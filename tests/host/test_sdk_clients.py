"""Published SDKs, each in its own environment and process, call `index` and a stored agent of a host on a real port.

The model runs in the host's process and stands still at gates. What an SDK's client does is in
`tests/peers/host_steps.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from pprint import pformat
from typing import Any

import anyio
import pytest

from parley.host.models.model import ModelRequest
from tests.host.a2a_calls import path_of
from tests.host.function_model import FunctionModel
from tests.host.running_host import running_host
from tests.peer_environments import ROOT, TIMEOUT_SECONDS, python_of

pytestmark = pytest.mark.anyio

NAMES = {"index": "index", "scout": "Scout"}
BINDINGS = ("jsonrpc", "rest")
WHOLE = "1 2 3 4 5 6 "


class Counting:
    """A model that counts, and stands still on the way until it gets a message that opens the gate."""

    def __init__(self) -> None:
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.model = FunctionModel(self._reply)

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        match request.query.split():
            case ["open", gate]:
                self._gates[gate].set()
                yield "Opened."
            case ["count", most, *pause]:
                for number in range(1, int(most) + 1):
                    yield f"{number} "
                    if pause and number == int(pause[2]):
                        await self._gates[pause[4]].wait()
            case _:
                yield "What?"


async def play(peer: str, script: str, given: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
    """What a client has seen, by agent, binding and step; of a step that broke, why."""
    command = (str(python_of(peer)), str(ROOT / "tests" / "peers" / script), json.dumps(given))
    done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(agent, binding, step): seen for agent, binding, step, seen in lines}


def expected(agent: str, version: str, *, first_states: list[str]) -> dict[str, Any]:
    came_back = {"before": "1 2 3 ", "after": WHOLE, "kept": WHOLE, "said": WHOLE, "state": "completed"}
    return {
        "card": {"name": NAMES[agent], "version": version, "skills": ["chat"], "streaming": True, "push": False},
        "send": {"state": "completed", "said": "1 2 3 ", "parts": [{"text": "1 2 3 "}]},
        "stream": {
            "states": [*first_states, "completed"],
            "texts": ["1 ", "2 ", "3 "],
            "folded": "1 2 3 ",
            "said": "1 2 3 ",
        },
        "cancel": {"answer": "canceled", "last": "canceled", "kept": "canceled", "text": "1 2 3 "},
        "resubscribe": came_back,
        "resume": came_back,
    }


@pytest.mark.parametrize(
    ("peer", "script", "first_states"),
    [
        ("a2a-sdk-1.3.0", "host_sdk_1_3_0.py", ["submitted", "working"]),
        ("a2a-sdk-0.3.26", "host_sdk_0_3_26.py", ["working"]),
    ],
)
async def test_an_sdk_drives_the_master_and_a_stored_agent(peer: str, script: str, first_states: list[str]) -> None:
    counting = Counting()
    async with running_host(models={"parley/router": counting.model}, seconds=TIMEOUT_SECONDS) as running:
        body = {"id": "scout", "name": "Scout", "role": "counter", "goal": "counts", "model": "parley/router"}
        stored = (await running.acme.client.post("/v1/agents", json=body)).json()
        urls = {agent: running.url + path_of(agent) for agent in NAMES}
        seen = await play(peer, script, {"agents": urls, "bindings": BINDINGS, "token": running.acme.token})
    versions = {"index": "index", "scout": str(stored["updated_at"])}
    wanted = {
        (agent, binding, step): value
        for agent, version in versions.items()
        for binding in BINDINGS
        for step, value in expected(agent, version, first_states=first_states).items()
    }
    wrong = {key: (seen.get(key), wanted.get(key)) for key in {*seen, *wanted} if seen.get(key) != wanted.get(key)}
    assert not wrong, pformat(wrong, width=110)
