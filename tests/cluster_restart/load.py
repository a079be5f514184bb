"""Callers that keep an agent busy while its replicas are restarted, and what each of them got in the end.

`send` and `stream` are what an author writes with Parley's client: nothing in them knows of restarts. a2a-sdk's client
is a process in an environment of its own, `peers/load_sdk_1_3_0.py`.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from parley.client.client import Client
from parley.protocol.tasks import TaskState
from tests.peer_environments import ROOT, python_of

PEER = "a2a-sdk-1.3.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one caller got for one message."""

    caller: str
    task: str | None
    state: str
    text: str
    breaks: int = 0


@dataclass(slots=True)
class Load:
    """Callers that repeat themselves until `end`. `answers` are in the order in which they came."""

    answers: list[Answer] = field(default_factory=list[Answer])
    _is_over: bool = False
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def keep(self, call: Callable[[], Awaitable[Answer]]) -> None:
        """Make a call again and again."""
        while not self._is_over:
            await self.add(await call())

    async def add(self, answer: Answer) -> None:
        """Note an answer."""
        async with self._changed:
            self.answers.append(answer)
            self._changed.notify_all()

    async def until_each_caller_has(self, more: int) -> None:
        """Wait until every kind of caller has so many answers more than now."""
        wanted = {caller: self._count(caller) + more for caller in CALLERS}
        async with self._changed:
            await self._changed.wait_for(lambda: all(self._count(caller) >= wanted[caller] for caller in CALLERS))

    @property
    def breaks(self) -> int:
        """How often streams of a2a-sdk's client broke, of those that have been answered."""
        return sum(answer.breaks for answer in self.answers if answer.caller == PEER)

    def _count(self, caller: str) -> int:
        return sum(answer.caller == caller for answer in self.answers)

    def end(self) -> None:
        """Let every caller finish what it has begun."""
        self._is_over = True


CALLERS = ("send", "stream", PEER)


async def send(client: Client, text: str) -> Answer:
    """Send a message and wait for the answer."""
    reply = await client.send(text)
    return Answer("send", reply.task.id if reply.task else None, reply.state.name, reply.text)


async def stream(client: Client, text: str) -> Answer:
    """Print an answer as it comes."""
    said, state, task = "", TaskState.SUBMITTED, None
    async for update in client.stream(text):
        assert not update.replaces
        said += update.text
        state, task = update.state, update.seen.task_id
    return Answer("stream", task, state.name, said)


class SdkLoad:
    """a2a-sdk's client at work, with a stream for each of some texts."""

    def __init__(self, load: Load, url: str, texts: Sequence[str]) -> None:
        self._load = load
        self._command = [str(ROOT / "tests" / "peers" / "load_sdk_1_3_0.py"), url, *texts]
        self._process: Process | None = None

    async def run(self) -> None:
        """Note what it gets, until it has ended."""
        self._process = await asyncio.create_subprocess_exec(
            str(python_of(PEER)), *self._command, stdin=PIPE, stdout=PIPE, limit=2**20
        )
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                seen = json.loads(line)
                state = seen["state"].removeprefix("TASK_STATE_")
                await self._load.add(Answer(PEER, seen["task"], state, seen["text"], seen["breaks"]))
            assert await self._process.wait() == 0
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()

    def end(self) -> None:
        """Let it finish what it has begun."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
