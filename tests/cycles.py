"""Reference cycles: what is in one stays in memory until the collector comes, which a server lets happen rarely."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from types import CoroutineType, FrameType


@contextmanager
def no_cycles() -> Generator[None]:
    """A block after which nothing of ours waits for the collector."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert Counter(filter(None, map(name_of_ours, gc.garbage))) == {}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def name_of_ours(thing: object) -> str | None:
    """What an object is, if it is made by Parley; asyncio's own connections are in cycles without our doing."""
    if isinstance(thing, FrameType | CoroutineType):
        code = thing.f_code if isinstance(thing, FrameType) else thing.cr_code
        return code.co_qualname if "/parley/" in code.co_filename else None
    if isinstance(thing, asyncio.Task):
        return "asyncio.Task"
    kind = type(thing)
    return kind.__qualname__ if kind.__module__.startswith("parley.") else None
