"""A store in memory of which a test changes single calls: `tasks_write` stands for `tasks.write`, and so on.

class Slow(ChangedStore):
    async def outbox_webhooks(self, key):
        await asyncio.sleep(0)
        return await super().outbox_webhooks(key)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from parley.stores.memory import MemoryStore

PARTS = ("tasks", "sends", "outbox", "contexts", "records")


class ChangedStore(MemoryStore):
    """A store whose parts call the methods of a subclass."""

    def __init__(self) -> None:
        super().__init__()
        for part in PARTS:
            for name, method in _methods(getattr(self, part)):
                called = f"{part}_{name}"
                if not hasattr(ChangedStore, called):
                    setattr(ChangedStore, called, _original(part, method))
                if called in dir(type(self)) and getattr(type(self), called) is not getattr(ChangedStore, called):
                    setattr(getattr(self, part), name, getattr(self, called))


def _methods(part: object) -> list[tuple[str, Callable[..., Any]]]:
    return [pair for pair in inspect.getmembers(type(part), inspect.isfunction) if not pair[0].startswith("_")]


def _original(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *values, **named: method(getattr(self, part), *values, **named)
