"""Steps: calls of an author's functions whose results are recorded, so that no restart repeats them.

A result is stored as JSON and converted back by the return annotation of its function, in the first run already: a
handler that begins again gets an equal value of the same type.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

import msgspec

from parley.agents.retries import RetryPolicy
from parley.agents.streams import Source, Stream, UnusedContents
from parley.agents.threads import STEPS, in_thread
from parley.agents.typed_json import (
    UnsupportedTypeError,
    decode_typed,
    digest_of_arguments,
    encode_typed,
    name_of,
    return_type_of,
)
from parley.engine.runs.run import Run
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class RetryingSteps:
    """Steps and streams that are tried again: `await turn.retrying(attempts=5).step("charge", charge, order)`."""

    def __init__(self, run: Run, unused: UnusedContents, policy: RetryPolicy) -> None:
        self._run = run
        self._unused = unused
        self._policy = policy

    @overload
    async def step(self, name: str, do: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, do: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> object:
        """The result of `do(*args)`, as `Turn.step` returns it.

        Raises:
            StepTimeoutError: the deadline has passed, or the last attempt took longer than its timeout.
            LocalProtocolError: the result cannot be stored, or does not fit the return annotation.
        """
        return await take_step(self._run, name, partial(checked("step", name, do), *args, **kwargs), self._policy)

    def stream(self, name: str, source: Callable[P, Source[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]:
        """A stream, as `Turn.stream` returns it, to be yielded, returned or written.

        When its source fails in the middle, what it said is taken back, and it begins again.
        """
        call = partial(checked("stream", name, source), *args, **kwargs)
        return Stream(self._run, self._unused, name, call, self._policy)


def checked(verb: str, name: object, function: Callable[P, T]) -> Callable[P, T]:
    """The function that an author gave to a verb of the turn. Raises LocalProtocolError if it is not one."""
    given: object = function
    if isinstance(name, str) and callable(given):
        return function
    if inspect.iscoroutine(given):
        given.close()
    wrong = f"not an object of type {type(given).__name__}" if isinstance(name, str) else "and the name comes first"
    raise LocalProtocolError(
        f"turn.{verb} needs a name and a function, {wrong}. "
        f"Write turn.{verb}('name', function, argument), without calling the function."
    )


def key_for(run: Run, name: str) -> str:
    """An idempotency key of 32 hexadecimal digits for a name: the same for every repeat of the run's message."""
    message = run.idempotency_key.encode()
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16, key=message).hexdigest()


async def take_step(run: Run, name: str, call: Callable[[], object], policy: RetryPolicy | None = None) -> Any:
    """The result of a call: from the log if it was recorded before, otherwise called and recorded.

    Raises:
        StepTimeoutError: it took longer than the policy allows.
        LocalProtocolError: the result cannot be stored, or does not fit the function's return annotation.
        Stopped: the run is over, so that the step could not be recorded; it is not taken.
    """
    results: list[object] = []

    async def work() -> JsonValue:
        if policy is None:
            result = await _call(call)
        else:
            is_plain = not inspect.iscoroutinefunction(call)
            result = await policy.call(run, name, partial(_call, call), is_plain=is_plain)
        encoded = _encode(run, name, result)
        results.append(_decode(name, call, encoded, log_level=logging.WARNING))
        return msgspec.json.decode(encoded)

    recorded = await run.steps.take(name, work, digest_of_arguments(call))
    return results[0] if results else _decode(name, call, msgspec.json.encode(recorded), log_level=logging.DEBUG)


async def _call(call: Callable[[], object]) -> object:
    """What a function returns; a plain one runs in a thread."""
    if inspect.iscoroutinefunction(call):
        return await call()
    result = await in_thread(STEPS, call)
    return await result if inspect.isawaitable(result) else result


def _encode(run: Run, name: str, result: object) -> bytes:
    """The result of a step as it is stored."""
    kind, most = type(result).__qualname__, run.engine.limits.step_bytes
    try:
        encoded = encode_typed(result)
    except ValueError as exc:
        raise LocalProtocolError(f"The result of step {name!r}, of type {kind}, cannot be stored: {exc}") from exc
    if len(encoded) > most:
        raise LocalProtocolError(
            f"The result of step {name!r}, of type {kind}, takes {len(encoded):,} bytes in JSON; {most:,} are allowed. "
            "Keep it elsewhere, and return where it is."
        )
    return encoded


def _decode(name: str, call: Callable[[], object], encoded: bytes, *, log_level: int) -> object:
    """The result of a step as its function's return annotation says; plain JSON if that is not possible."""
    function = _function_of(call)
    try:
        wanted = return_type_of(function)
        try:
            return decode_typed(encoded, wanted)
        except ValueError as exc:
            raise LocalProtocolError(
                f"The result of step {name!r} does not fit {name_of(wanted)}, the return annotation of "
                f"{name_of(function)}: {exc}. If the code has changed since, give the step a new name."
            ) from exc
    except UnsupportedTypeError as exc:
        logger.log(log_level, "The result of step %r stays plain JSON: %s: %s", name, name_of(function), exc)
        return msgspec.json.decode(encoded)


def _function_of(call: Callable[..., object]) -> Callable[..., object]:
    """The function that a partial calls in the end."""
    while isinstance(call, partial):
        call = call.func
    return call
