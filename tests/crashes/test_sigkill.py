"""An agent's process is killed with SIGKILL at every event boundary, and every reader ends up with the text of one run.

The readers are subscribers that reconnect, and subscribers that come late, in 0.3 and 1.0 over every binding; webhooks
of both; and a2a-sdk's own client. `make test` tries a few boundaries, `make crashes` all of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crashes.agents import is_whole
from tests.crashes.conversation import Conversation, Held
from tests.crashes.processes import LineProcess, ServerProcess, forking_server, line_process
from tests.peer_environments import ROOT, python_of

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(900)]

TRIES_ALL = bool(os.environ.get("PARLEY_EVERY_CRASH"))
SECONDS = 60.0
"""For one conversation. It takes two."""


BOUNDARIES = {"varied stream": [3, 10], "same stream": [12], "varied plain": [6], "same plain": []}
"""Those that `make test` tries."""


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


async def kill_at_each(boundaries: Iterable[int], hold: Callable[[int], Awaitable[Held]]) -> list[str]:
    """What a task says whose process was killed at each of these boundaries, or at every one that there is."""
    texts: list[str] = []
    for boundary in count(1) if TRIES_ALL else boundaries:
        async with asyncio.timeout(SECONDS):
            held = await hold(boundary)
        different = {name: text for name, text in held.readers.items() if text != held.text}
        assert different == {}, f"Killed after write {boundary}, the task says {held.text!r}"
        texts.append(held.text)
        if not held.was_killed:
            assert TRIES_ALL
            assert boundary > 10
            break
    return texts


async def test_an_agent_that_streams_a_model_says_the_text_of_one_run_wherever_it_is_killed(
    processes: Processes, tmp_path: Path
) -> None:
    for text, boundaries in BOUNDARIES.items():

        async def hold(boundary: int, text: str = text) -> Held:
            folder = tmp_path / f"{text} {boundary}"
            folder.mkdir()
            server = ServerProcess(processes.forking, "model", folder)
            return await Conversation(server, server, processes.sdk, folder).hold(text, boundary)

        texts = await kill_at_each(boundaries, hold)
        assert [said for said in texts if not is_whole(said)] == []
        assert text.startswith("varied") or len(set(texts)) <= 1
