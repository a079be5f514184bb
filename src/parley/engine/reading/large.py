"""Large values: they are folded and encoded in a thread, so that the event loop stays free.

A value is large if that takes about a millisecond or more. The check is cheap, because it stops counting at the bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from parley.engine.reading.sizes import size_of
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, Message, Part, TextPart
from parley.protocol.requests import TaskPage
from parley.protocol.tasks import Task

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")

LARGE_BYTES = 64 * 1024
"""Content that takes about a millisecond to encode."""
PART_BYTES = 100
"""What a part costs besides its content."""
LARGE_EVENTS = 500
"""Events that take about a millisecond to fold."""
THREADS = 2
"""Large values at a time. The interpreter runs one thread at a time: more would take turns away from the event loop."""


async def run_beside_loop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), lambda: function(*args, **kwargs))


async def encoded(value: V, encode: Callable[[V], bytes]) -> bytes:
    """A value as bytes; a large one is encoded in a thread."""
    return await run_beside_loop(encode, value) if is_large(value) else encode(value)


@cache
def _threads() -> ThreadPoolExecutor:
    """Separate from the threads of `asyncio.to_thread`, which agents may fill with calls that wait."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="parley-large")


def is_large(value: object) -> bool:
    """Whether a task, a page of them, a message or an event takes long to encode."""
    if isinstance(value, ArtifactUpdate):
        parts = value.artifact.parts
        if len(parts) == 1 and type(parts[0]) is TextPart:  # nearly all that agents stream
            return len(parts[0].text) > LARGE_BYTES
        return _exceeds(parts)
    if isinstance(value, Task):
        return _exceeds(_parts_of(value))
    if isinstance(value, TaskPage):
        return _exceeds(part for task in value.tasks for part in _parts_of(task))
    if isinstance(value, StatusUpdate):
        return value.status.message is not None and _exceeds(value.status.message.parts)
    return isinstance(value, Message) and _exceeds(value.parts)


def is_long(events: int) -> bool:
    """True if this many events take long to fold."""
    return events > LARGE_EVENTS


def _parts_of(task: Task) -> Iterator[Part]:
    for artifact in task.artifacts:
        yield from artifact.parts
    for message in task.history:
        yield from message.parts


def _exceeds(parts: Iterable[Part]) -> bool:
    left = LARGE_BYTES
    for part in parts:
        left -= PART_BYTES + (_size_of_json(part.data, left) if type(part) is DataPart else size_of((part,)))
        if left < 0:
            return True
    return False


def _size_of_json(value: JsonValue, enough: int) -> int:
    """About how long a value is, or any number beyond `enough`."""
    size, rest = 0, [value]
    while rest and size <= enough:
        match rest.pop():
            case str() as text:
                size += len(text)
            case list() as items:
                size += PART_BYTES
                rest += items[:enough]
            case dict() as members:
                size += PART_BYTES + sum(map(len, members))
                rest += members.values()
            case _:
                size += 8
    return size
