"""Streams: steps that say something while they work, such as a model's answer.

What a stream has said is in the log. One that has ended comes back from there and does not run again. One that was cut
off runs again, and replaces what it said before; or it continues after it, if its source can.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec import structs

from parley.agents.retries import RetryPolicy
from parley.agents.threads import STEPS, in_thread
from parley.agents.typed_json import (
    UnsupportedTypeError,
    decode_typed,
    digest_of_arguments,
    encode_typed,
    return_type_of,
)
from parley.contents import parts_of
from parley.engine.runs.emissions import DivergedError, LimitExceededError
from parley.engine.runs.journal import Emission
from parley.engine.runs.run import Run
from parley.engine.runs.steps import StepInProgress, inside_step
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, Part, TextPart, text_of
from parley.protocol.tasks import Artifact

T = TypeVar("T")

Source: TypeAlias = AsyncIterable[T] | Iterable[T] | Awaitable[AsyncIterable[T]] | Awaitable[Iterable[T]]
"""What the function of a stream may return."""

logger = logging.getLogger(__name__)

_END = object()


class StreamedContent:
    """Content that is written to an artifact while it comes into being: yield it, return it, or write it.

    It can be used once. Not an abstract class, because every result of a handler is asked whether it is one, and those
    are slow to ask.
    """

    def __init__(self, unused: UnusedContents, described: str, hint: str) -> None:
        self._unused = unused
        self._described = described
        unused[self] = f"{described} was never used, so nothing was done. {hint}"
        self._hint = hint
        self._is_used = False

    def use(self) -> None:
        """Note that it is used. Raises LocalProtocolError if it was used before."""
        self._unused.pop(self, None)  # it is not there any more if the handler has ended
        if self._is_used:
            raise LocalProtocolError(f"{self._described} is used twice; make another one for the second use")
        self._is_used = True

    def __str__(self) -> str:
        self._unused.pop(self, None)
        raise LocalProtocolError(f"{self._described} is not text. {self._hint}")

    async def write_to(self, artifact: Artifact) -> None:
        """Write it to an artifact of the task, which is described by one without parts."""
        raise NotImplementedError


UnusedContents: TypeAlias = dict[StreamedContent, str]
"""What a handler has made and not used yet, each with a warning."""


def warn_of(unused: UnusedContents, run: Run) -> None:
    """Write a warning to the log for everything that a handler has made and not used."""
    for warning in unused.values():
        logger.warning("Task %s: %s", run.key.task_id, warning, extra=run.log_fields)


class Stream(StreamedContent, AsyncIterable[T], Generic[T]):
    """A stream of pieces: yielded, returned or written it passes through, and `async for` gives its pieces."""

    def __init__(
        self,
        run: Run,
        unused: UnusedContents,
        name: str,
        source: Callable[[], object],
        policy: RetryPolicy | None = None,
    ) -> None:
        hint = "Yield it, return it, write it to an artifact, or read its pieces with `async for`."
        super().__init__(unused, f"turn.stream({name!r}, …)", hint)
        self._run = run
        self._name = name
        self._source: Callable[[], Any] = source
        self._policy = policy
        self._continue: Callable[[str], Any] | None = None

    def resume_with(self, source: Callable[[str], Source[T]]) -> Stream[T]:
        """The same stream, which is not repeated when it was cut off: `source` gets the text so far, and continues it.

        It has an effect where the stream passes through, and none with `async for`.
        """
        self._continue = source
        return self

    # --- passing through ----------------------------------------------------------------------------------------------

    async def write_to(self, artifact: Artifact) -> None:
        """Write what the source says to an artifact.

        Raises:
            LocalProtocolError: another stream writes to the artifact, or has the name.
            StepTimeoutError: it took longer than its policy allows.
            Exception: what the source raises.
        """
        self.use()
        run, artifact_id = self._run, artifact.artifact_id
        step = run.steps.begin(self._name, "stream", digest_of_arguments(self._source))
        if step.recorded is not None:
            for parts in _recorded_parts(step):
                await self._emit(artifact, parts)
            step.forget()
            return
        try:
            run.emissions.begin_stream(artifact_id, self._name)
            first = run.journal.number_emitted(artifact_id)
            try:
                with inside_step():
                    await step.prepare()
                    await self._pass_through(artifact, step)
            except BaseException:
                if self._continue is not None and not (run.is_closed or run.is_stopping):
                    # The handler may catch this and write something else to the artifact.
                    await step.note(run.journal.number_emitted(artifact_id) - first, durably=False)
                raise
            finally:
                run.emissions.end_stream(artifact_id)
            run.emissions.drop_left_overs(artifact_id)
            count = run.journal.number_emitted(artifact_id) - first
            await step.record({"artifact": artifact_id, "first": first, "count": count})
        finally:
            step.close()

    async def _pass_through(self, artifact: Artifact, step: StepInProgress) -> None:
        """Write the pieces as they come. A source that is tried again replaces what it said before."""
        first = self._run.journal.number_emitted(artifact.artifact_id)
        has_begun = False

        async def attempt() -> None:
            nonlocal has_begun
            if has_begun:
                await self._run.emissions.rewind(artifact.artifact_id, first)
            has_begun = True
            async for piece in _pieces_of(self._name, self._source_to_use(artifact.artifact_id, step)):
                if parts := parts_of(piece):
                    await self._emit(artifact, parts)

        if self._policy is None:
            await attempt()
        else:
            await self._policy.call(self._run, self._name, attempt, is_plain=False)

    def _source_to_use(self, artifact_id: str, step: StepInProgress) -> Callable[[], Any]:
        """The source, or the one that continues it."""
        journal = self._run.journal
        said = journal.left_over(artifact_id)
        if isinstance(step.progress, int):  # it failed, and what followed was not said by it
            said = said[: step.progress]
        self._run.emissions.expects_differences = True
        if self._continue is not None and said:
            journal.skip(artifact_id, len(said))
            return partial(self._continue, _text_of(said))
        return self._source

    async def _emit(self, artifact: Artifact, parts: tuple[Part, ...]) -> None:
        is_first = not self._run.journal.number_emitted(artifact.artifact_id)
        chunk = structs.replace(artifact, parts=parts) if is_first else Artifact(artifact.artifact_id, parts)
        await self._run.emissions.emit_chunk(chunk, stream=self._name)

    # --- giving the pieces to the handler -----------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[T]:
        if self._policy is not None:
            raise LocalProtocolError(
                f"The stream {self._name!r} is tried again when it fails, so it cannot give its pieces to the handler; "
                "yield the stream, or iterate over one of `turn.stream`"
            )
        self.use()
        step = self._run.steps.begin(self._name, "stream", digest_of_arguments(self._source))
        convert = _conversion_of(self._name, self._source)
        if step.recorded is not None:
            return cast("AsyncIterator[T]", _again(step, convert))
        return _Pieces(self._run, step, self._source, cast("Callable[[JsonValue], T]", convert))


class _Pieces(AsyncIterator[T]):
    """The pieces of a stream for the handler, recorded when there are no more, or the handler wants no more."""

    def __init__(
        self, run: Run, step: StepInProgress, source: Callable[[], Any], convert: Callable[[JsonValue], T]
    ) -> None:
        self._run = run
        self._step: StepInProgress | None = step
        self._convert = convert
        self._pieces: list[JsonValue] = []
        self._size = 0
        self._source = _pieces_of(step.name, source)
        self._is_begun = False
        step.is_read_by_handler = True

    async def __anext__(self) -> T:
        step = self._step
        if step is None:
            raise StopAsyncIteration
        try:
            if not self._is_begun:
                self._is_begun = True
                await step.prepare()
                self._run.emissions.expects_differences = True
            piece = await anext(self._source, _END)
            if piece is not _END:
                return self._convert(self._keep(step.name, piece))
            await step.record({"pieces": self._pieces})
        except BaseException:
            self._close(step)
            raise
        self._close(step)
        raise StopAsyncIteration

    def _keep(self, name: str, piece: object) -> JsonValue:
        value = piece if type(piece) is str and piece.isascii() else _as_json(name, piece)
        self._size += len(value) if type(value) is str else len(msgspec.json.encode(value))
        most = self._run.engine.limits.artifact_bytes
        if self._size > most:
            raise LimitExceededError(f"The stream {name!r} exceeds {most} bytes")
        self._pieces.append(value)
        return value

    def _close(self, step: StepInProgress) -> None:
        self._step = None
        step.close()

    def __del__(self) -> None:
        step, run = self._step, self._run
        if step is None:
            return
        if self._is_begun and not (run.is_closed or run.is_stopping):
            # The handler has left its loop. It gets the same pieces when it begins again, and leaves it again.
            with suppress(Exception):  # it was freed in another thread: then the stream runs again
                step.record_soon({"pieces": self._pieces, "left": True})
        self._close(step)


async def _again(step: StepInProgress, convert: Callable[[JsonValue], object]) -> AsyncIterator[Any]:
    """The recorded pieces of a stream. Raises DivergedError if the handler left it before and does not leave it now."""
    pieces = _recorded_pieces(step)
    for piece in pieces:
        yield convert(piece)
    match step.recorded:
        case ({"left": True},):
            step.steps.run.refuse(
                DivergedError(
                    f"The handler left the stream {step.name!r} after piece {len(pieces)}, began again, and reads on "
                    "now. Decide with a step where to leave it, or read it to its end."
                )
            )
        case _:
            step.forget()


async def _pieces_of(name: str, source: Callable[[], Any]) -> AsyncIterator[Any]:
    """What a source yields. A plain one is asked in a thread."""
    pieces = source() if _begins_without_blocking(source) else await in_thread(STEPS, source)
    if inspect.isawaitable(pieces):
        pieces = await pieces
    if isinstance(pieces, AsyncIterable):
        try:
            async for piece in cast("AsyncIterable[Any]", pieces):
                yield piece
        finally:
            close = getattr(cast("object", pieces), "aclose", None)
            if close is not None:
                await close()
    elif isinstance(pieces, Iterable) and not isinstance(pieces, str | bytes | dict):
        iterator: Iterator[Any] = iter(cast("Iterable[Any]", pieces))
        while (piece := await in_thread(STEPS, next, iterator, _END)) is not _END:
            yield piece
    else:
        kind = type(cast("object", pieces)).__name__
        raise LocalProtocolError(
            f"The source of stream {name!r} returned a {kind}, which is not a stream of pieces. "
            "It must yield, or return something to iterate over; for one result, use `turn.step`."
        )


def _begins_without_blocking(source: Callable[[], Any]) -> bool:
    function: Callable[..., Any] = source
    while isinstance(function, partial):
        function = function.func
    kinds = (inspect.isasyncgenfunction, inspect.iscoroutinefunction, inspect.isgeneratorfunction)
    return any(is_kind(function) for is_kind in kinds)


def _as_json(name: str, piece: object) -> JsonValue:
    try:
        return msgspec.json.decode(encode_typed(piece))
    except ValueError as exc:
        kind = type(piece).__qualname__
        raise LocalProtocolError(f"A piece of stream {name!r}, of type {kind}, cannot be stored: {exc}") from exc


def _conversion_of(name: str, source: Callable[[], Any]) -> Callable[[JsonValue], object]:
    """A function that makes of stored JSON what the source is annotated to yield."""
    function: Callable[..., Any] = source
    while isinstance(function, partial):
        function = function.func
    try:
        kinds = get_args(return_type_of(function))
    except UnsupportedTypeError:
        kinds = ()
    if not kinds or kinds[0] is str:
        return _copy

    def convert(value: JsonValue) -> object:
        try:
            return decode_typed(msgspec.json.encode(value), kinds[0])
        except UnsupportedTypeError:
            return _copy(value)
        except ValueError as exc:
            raise LocalProtocolError(f"A piece of stream {name!r} does not fit {kinds[0]}: {exc}") from exc

    return convert


def _copy(value: JsonValue) -> JsonValue:
    """The same value again: a handler may change what it is given, but not the record."""
    return value if isinstance(value, str) else msgspec.json.decode(msgspec.json.encode(value))


def _recorded_parts(step: StepInProgress) -> Sequence[tuple[Part, ...]]:
    """What a stream wrote to its artifact, or would have written if its pieces had not been given to the handler."""
    if step.chunks:
        return [chunk.parts for chunk, _ in step.chunks]
    return [parts_of(piece) for piece in _recorded_pieces(step)]


def _recorded_pieces(step: StepInProgress) -> Sequence[JsonValue]:
    """The pieces of a stream, also of one that passed through when it ran."""
    match step.recorded:
        case ({"pieces": list(pieces)},):
            return pieces
        case _:
            return [_content_of(chunk.parts) for chunk, _ in step.chunks]


def _content_of(parts: Sequence[Part]) -> JsonValue:
    match parts:
        case (DataPart(data=data),):
            return data
        case _:
            return text_of(parts)


def _text_of(said: Sequence[Emission]) -> str:
    return text_of([part for chunk, _ in said for part in chunk.parts if isinstance(part, TextPart)])
