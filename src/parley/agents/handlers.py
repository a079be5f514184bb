"""Calling an author's function, whatever kind it is: async or plain, returning or yielding.

Plain functions and generators run in threads, so that they may block. What they raise is raised here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from enum import Enum, auto
from functools import cache
from typing import Any

_END = object()


class Kind(Enum):
    """How a handler is called."""

    ASYNC_GENERATOR = auto()
    COROUTINE = auto()
    GENERATOR = auto()
    PLAIN = auto()


@cache
def kind_of(handler: Callable[..., Any]) -> Kind:
    """How to call a handler; found out once, because looking takes longer than calling."""
    if inspect.isasyncgenfunction(handler):
        return Kind.ASYNC_GENERATOR
    if inspect.iscoroutinefunction(handler):
        return Kind.COROUTINE
    return Kind.GENERATOR if inspect.isgeneratorfunction(handler) else Kind.PLAIN


async def results_of(handler: Callable[..., Any], argument: object) -> AsyncIterator[Any]:
    """Everything a handler yields, or the one thing it returns."""
    match kind_of(handler):
        case Kind.COROUTINE:
            yield await handler(argument)
        case Kind.ASYNC_GENERATOR:
            async with aclosing(handler(argument)) as results:
                async for result in results:
                    yield result
        case Kind.GENERATOR:
            async for result in _in_thread(handler(argument)):
                yield result
        case Kind.PLAIN:
            result = await asyncio.to_thread(handler, argument)
            yield await result if inspect.isawaitable(result) else result


async def _in_thread(results: Iterator[Any]) -> AsyncIterator[Any]:
    while (result := await asyncio.to_thread(next, results, _END)) is not _END:
        yield result
