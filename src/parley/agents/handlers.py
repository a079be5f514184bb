"""An author's function, whatever kind it is: async or plain, returning or yielding.

Plain functions and generators run in threads, so that they may block. What they raise is raised here.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from parley.agents.threads import HANDLERS, in_thread

if TYPE_CHECKING:
    from parley.agents.streams import StreamedContent
    from parley.agents.turn import Turn
    from parley.contents import Content
    from parley.protocol.messages import Message
    from parley.protocol.tasks import Artifact

    HandlerResult: TypeAlias = Content | Artifact | Message | StreamedContent
    HandlerFunction: TypeAlias = Callable[
        [Turn], HandlerResult | Iterator[HandlerResult] | Awaitable[HandlerResult] | AsyncIterator[HandlerResult]
    ]
else:
    HandlerResult = object  # what a handler may return or yield

_END = object()

Say: TypeAlias = Callable[[Any], Awaitable[bool | None]]


class Handler:
    """A function that handles messages. Raises TypeError if it does not take one argument, the turn."""

    def __init__(self, function: HandlerFunction, *, may_reply: bool | None = None) -> None:
        self.name: str = getattr(function, "__qualname__", type(function).__qualname__)
        if not _takes_one_argument(function):
            raise TypeError(f"The handler {self.name} must take one argument, the turn")
        self._function: Callable[..., Any] = function
        self.may_reply = _mentions_reply(function) if may_reply is None else may_reply
        """Whether it may answer a message without a task."""
        self._is_generator = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        self._is_async = inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)

    async def handle(
        self, argument: object, say: Say, on_generator: Callable[[Callable[[], FrameType | None]], None] | None = None
    ) -> None:
        """Call the function, and `say` everything that it yields, or the one thing that it returns.

        A true answer to what was said means that it was the last word. What `say` raises is raised where the function
        yields. `on_generator` gets a function that returns the frame of a function that yields.
        """
        if self._is_generator:
            results = self._function(argument)
            if on_generator is not None:
                # A weak reference: a generator that works in a thread is closed when it is freed, and not before.
                on_generator(partial(_frame_of, weakref.ref(results), "ag_frame" if self._is_async else "gi_frame"))
            await _say_all(results if self._is_async else _results_in_thread(results), say)
        elif self._is_async:
            await say(await self._function(argument))
        else:
            result = await in_thread(HANDLERS, self._function, argument)
            await say(await result if inspect.isawaitable(result) else result)


def _frame_of(results: Callable[[], object], attribute: str) -> FrameType | None:
    return getattr(results(), attribute, None)


async def _say_all(results: AsyncGenerator[Any], say: Say) -> None:
    """Say everything that a function yields, and raise in it what cannot be said."""
    try:
        async for result in results:
            while True:
                try:
                    if await say(result):
                        return
                    break
                except Exception as error:
                    try:
                        result = await results.athrow(error)
                    except StopAsyncIteration:
                        return
    finally:
        await results.aclose()


def _mentions_reply(function: Callable[..., Any]) -> bool:
    """Whether the code of a function, or of one inside it, uses something called `reply`: as in `turn.reply("…")`."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return isinstance(code, CodeType) and _names_reply(code)


def _names_reply(code: CodeType) -> bool:
    return "reply" in code.co_names or any(isinstance(part, CodeType) and _names_reply(part) for part in code.co_consts)


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
    resume = partial(next, results, _END)
    try:
        while (result := await in_thread(HANDLERS, resume)) is not _END:
            resume = partial(next, results, _END)
            try:
                yield result
            except Exception as error:
                resume = partial(_raise_in, results, error)
    finally:
        await in_thread(HANDLERS, _close, results)


def _raise_in(results: Generator[Any], error: Exception) -> Any:
    try:
        return results.throw(error)
    except StopIteration:
        return _END


def _close(results: Generator[Any]) -> None:
    with suppress(ValueError):  # still at work in its thread, which nothing can interrupt
        results.close()
