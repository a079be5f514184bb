"""A listener for tests: what it has heard, and waiting until it has heard something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from parley.cluster.carrier import CarrierTiming, ConnectedHints
from parley.cluster.hints import AnyHint, Hint, HintKind, LookHint
from parley.stores.interface import Owner, TaskKey
from tests.deadlines import fail_after

QUICK = CarrierTiming(probe=0.05, answer=10.0, first_retry=0.01, last_retry=0.05, look=0.0)
"""So that tests need not wait. An answer has time: other work beside the tests must not look like a lost connection."""


def key(task_id: str = "t-1") -> TaskKey:
    return TaskKey(Owner("acme", "ada"), task_id)


def events(seq: int, task_id: str = "t-1") -> Hint:
    return Hint(HintKind.EVENTS, key(task_id), seq)


class Heard:
    """The hints that a carrier has brought, in their order."""

    def __init__(self, hints: ConnectedHints) -> None:
        self.all: list[AnyHint] = []
        self._news = asyncio.Event()
        self.stop = hints.listen(self._note)

    def _note(self, hint: AnyHint) -> None:
        self.all.append(hint)
        self._news.set()

    async def until(self, is_there: Callable[[list[AnyHint]], bool], seconds: float = 20) -> None:
        with fail_after(seconds):
            while not is_there(self.all):
                self._news.clear()
                await self._news.wait()

    async def until_told(self, hint: AnyHint) -> None:
        await self.until(lambda heard: hint in heard)

    async def until_told_to_look(self) -> None:
        await self.until_told(LookHint())


async def until(is_true: Callable[[], object], seconds: float = 20) -> None:
    """Wait for what has no event to wait for."""
    with fail_after(seconds):
        while not is_true():
            await asyncio.sleep(0.005)
