"""Streams that are read ahead of their readers: how far, and what becomes of them when nobody reads on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from parley.engine.reading.following import Numbered
from parley.protocol.errors import UnavailableError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import Message, RawPart, Role, TextPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.proxy.read_ahead import MAX_BYTES, MAX_EVENTS, ReadAheadStreams
from tests.cycles import no_cycles
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

WORKING = TaskStatus(TaskState.WORKING)


class Source:
    """An agent's stream, which knows how far it was read and when it was closed."""

    def __init__(self, event: StreamEvent, count: int) -> None:
        self.read = 0
        self.was_closed = asyncio.Event()
        self.was_read = asyncio.Event()
        self._event = event
        self._count = count

    async def events(self) -> AsyncGenerator[Numbered]:
        try:
            for number in range(self._count):
                self.read += 1
                yield number, self._event
            self.was_read.set()
            await asyncio.sleep(0)
        finally:
            self.was_closed.set()


async def until_still(source: Source) -> int:
    """How far a stream is read when its reader takes nothing."""
    before = -1
    while before != source.read:
        before = source.read
        for _ in range(10):
            await asyncio.sleep(0)
    return before


CHUNK = Artifact("a", (RawPart(b"x" * (MAX_BYTES // 4)),))
SPOKEN = Message("m", Role.AGENT, (TextPart("x" * (MAX_BYTES // 4)),))


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (StatusUpdate("t", "c", WORKING), MAX_EVENTS),
        (ArtifactUpdate("t", "c", CHUNK), 4),
        (Task("t", "c", WORKING, (CHUNK,), (SPOKEN,)), 2),
        (StatusUpdate("t", "c", TaskStatus(TaskState.WORKING, SPOKEN)), 4),
        (SPOKEN, 4),
    ],
    ids=["many", "chunks", "tasks", "statuses", "messages"],
)
async def test_a_stream_is_read_ahead_as_far_as_there_is_room(event: StreamEvent, most: int) -> None:
    source = Source(event, 10_000)
    with fail_after(5):
        async with aclosing(ReadAheadStreams().batches(source.events())) as batches:
            assert len(await anext(batches)) == most
            # One more is in the hands of whoever reads, and waits for room.
            assert await until_still(source) == most + most + 1
            assert len(await anext(batches)) == most
        await source.was_closed.wait()


async def test_an_event_that_is_larger_than_the_room_comes_alone() -> None:
    large = ArtifactUpdate("t", "c", Artifact("a", (RawPart(b"x" * (MAX_BYTES * 2)),)))
    with fail_after(5):
        async with aclosing(ReadAheadStreams().batches(Source(large, 3).events())) as batches:
            assert [len(batch) async for batch in batches] == [1, 1, 1]


async def test_what_waits_comes_before_the_error_that_ends_the_stream() -> None:
    async def failing() -> AsyncGenerator[Numbered]:
        yield 1, SPOKEN
        yield 2, SPOKEN
        raise UnavailableError("gone")

    with fail_after(5), no_cycles():
        batches = ReadAheadStreams().batches(failing())
        assert [number for number, _ in await anext(batches)] == [1, 2]
        with pytest.raises(UnavailableError, match="gone") as failure:
            await anext(batches)
        del batches, failure


async def test_a_stream_that_is_cut_ends_at_once() -> None:
    streams, source = ReadAheadStreams(), Source(SPOKEN, 10_000)
    with fail_after(5):
        async with aclosing(streams.batches(source.events())) as batches:
            await anext(batches)
            await until_still(source)
            streams.fail(UnavailableError("stopped"))
            with pytest.raises(UnavailableError, match="stopped"):
                await anext(batches)
        await source.was_closed.wait()


async def test_a_stream_that_must_be_read_to_its_end_is_even_if_nobody_listens() -> None:
    streams, source = ReadAheadStreams(), Source(SPOKEN, 1_000)
    with fail_after(5):
        async with aclosing(streams.batches(source.events(), to_the_end=True)) as batches:
            await anext(batches)
        await source.was_read.wait()
        await source.was_closed.wait()


async def test_streams_that_nobody_listens_to_end_with_the_proxy() -> None:
    has_begun, was_closed = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncGenerator[Numbered]:
        try:
            yield 1, SPOKEN
            has_begun.set()
            await asyncio.Event().wait()
        finally:
            was_closed.set()

    streams = ReadAheadStreams()
    with fail_after(5):
        async with aclosing(streams.batches(endless(), to_the_end=True)) as batches:
            await anext(batches)
        await has_begun.wait()
        await streams.close()
        await was_closed.wait()
