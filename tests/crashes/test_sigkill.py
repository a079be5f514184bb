"""An agent's process is killed with SIGKILL at every event boundary, and every reader ends up with the text of one run.

The readers are subscribers that reconnect, and subscribers that come late, in 0.3 and 1.0 over every binding; webhooks
of both; and a2a-sdk's own client. `make test` tries a few boundaries, `make crashes` all of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crashes.agents import is_whole_relay, is_whole_text
from tests.crashes.conversation import Conversation, Held
from tests.crashes.processes import LineProcess, ServerProcess, forking_server, line_process
from tests.peer_environments import ROOT, python_of

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(900)]

TRIES_ALL = bool(os.environ.get("PARLEY_EVERY_CRASH"))
SECONDS = 60.0
"""For one conversation. It takes two."""


class Processes(NamedTuple):
    forking: LineProcess
    sdk: LineProcess


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def processes() -> AsyncGenerator[Processes]:
    """What takes long to start, once for all tests."""
    reader = (python_of("a2a-sdk-1.3.0"), ROOT / "tests" / "peers" / "reader_sdk_1_3_0.py")
    async with forking_server() as forking, line_process(reader) as sdk:
        yield Processes(forking, sdk)


class Case(NamedTuple):
    """A conversation, in which one of the processes is killed."""

    serves: str
    killed: str
    text: str
    boundaries: tuple[int, ...] = ()
    """Those that `make test` tries."""


CASES = (
    Case("model", "model", "varied stream", (10,)),
    Case("model", "model", "same stream", (3,)),
    Case("model", "model", "varied plain"),
    Case("model", "model", "same plain"),
    Case("relay", "relay", "varied stream", (5, 14)),
    Case("relay", "relay", "same stream"),
    Case("relay", "model", "varied stream"),
    Case("relay", "model", "same stream"),
)


async def test_what_an_agent_says_is_the_text_of_one_run_wherever_it_or_its_delegate_is_killed(
    processes: Processes, tmp_path: Path
) -> None:
    for case in CASES:
        texts: list[str] = []
        for boundary in count(1) if TRIES_ALL else case.boundaries:
            folder = tmp_path / f"{case} {boundary}"
            folder.mkdir()
            async with asyncio.timeout(SECONDS):
                held = await converse(processes, case, boundary, folder)
            different = {name: text for name, text in held.readers.items() if text != held.text}
            assert different == {}, f"{case}, killed after write {boundary}: the task says {held.text!r}"
            texts.append(held.text)
            if not held.was_killed:
                assert boundary > 10, "The process was never killed"
                break
        is_whole = is_whole_relay if case.serves == "relay" else is_whole_text
        assert [text for text in texts if not is_whole(text)] == [], case
        assert "varied" in case.text or len(set(texts)) <= 1


async def converse(processes: Processes, case: Case, boundary: int, folder: Path) -> Held:
    model = ServerProcess(processes.forking, "model", folder)
    relay = ServerProcess(processes.forking, "relay", folder, delegate_url=model.url)
    killed = model if case.killed == "model" else relay
    spared = relay if killed is model else model
    if case.serves == "relay":
        await spared.start()
    try:
        conversation = Conversation(relay if case.serves == "relay" else model, killed, processes.sdk, folder)
        return await conversation.hold(case.text, boundary)
    finally:
        await spared.kill()
