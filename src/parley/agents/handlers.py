"""An author's function, whatever kind it is: async or plain, returning or yielding.

Plain functions and generators run in threads, so that they may block. What they raise is raised here.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

from parley.agents.threads import HANDLERS, in_thread

_END = object()


class Handler:
    """A function that handles messages. Raises TypeError if it does not take one argument, the turn."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name: str = getattr(function, "__qualname__", type(function).__qualname__)
        if not _takes_one_argument(function):
            raise TypeError(f"The handler {self.name} must take one argument, the turn")
        self._function = function
        self._is_generator = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        self._is_async = inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)

    async def handle(self, argument: object, say: Callable[[Any], Awaitable[bool | None]]) -> None:
        """Call the function, and `say` everything that it yields, or the one thing that it returns.

        A true answer to what was said means that it was the last word.
        """
        if self._is_generator:
            results = self._function(argument)
            if not self._is_async:
                results = _results_in_thread(results)
            try:
                async for result in results:
                    if await say(result):
                        break
            finally:
                await results.aclose()
        elif self._is_async:
            await say(await self._function(argument))
        else:
            result = await in_thread(HANDLERS, self._function, argument)
            await say(await result if inspect.isawaitable(result) else result)


def _takes_one_argument(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins do not say
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


async def _results_in_thread(results: Generator[Any]) -> AsyncGenerator[Any]:
    try:
        while (result := await in_thread(HANDLERS, next, results, _END)) is not _END:
            yield result
    finally:
        await in_thread(HANDLERS, _close, results)


def _close(results: Generator[Any]) -> None:
    with suppress(ValueError):  # still at work in its thread, which nothing can interrupt
        results.close()
