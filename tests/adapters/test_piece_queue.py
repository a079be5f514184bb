"""The queue between a framework's callbacks and the run that yields their pieces."""

import asyncio
from contextlib import aclosing

import pytest

from parley.adapters.adapter import Checkpoint, Piece
from parley.adapters.piece_queue import PieceQueue

pytestmark = pytest.mark.anyio


async def test_a_callback_that_waits_goes_on_when_its_pieces_were_taken() -> None:
    queue, happened = PieceQueue(), list[object]()

    async def work() -> None:
        queue.put("Hello")
        await queue.put(", ", Checkpoint({"number": 1})).wait()
        happened.append("recorded")
        queue.put("world")

    async with aclosing(queue.pieces_of(work())) as pieces:
        async for piece in pieces:
            happened.append(piece)
    assert happened == ["Hello", ", ", Checkpoint({"number": 1}), "recorded", "world"]


async def test_an_error_of_the_work_is_raised_after_its_pieces() -> None:
    queue, taken = PieceQueue(), list[Piece]()

    async def work() -> None:
        queue.put("Hello")
        raise RuntimeError("broken")

    async def take() -> None:
        async with aclosing(queue.pieces_of(work())) as pieces:
            async for piece in pieces:
                taken.append(piece)

    with pytest.raises(RuntimeError, match="broken"):
        await take()
    assert taken == ["Hello"]


async def test_the_work_is_cancelled_when_no_more_pieces_are_wanted() -> None:
    queue, is_stopped = PieceQueue(), asyncio.Event()

    async def work() -> None:
        try:
            await queue.put("Hello").wait()
            await asyncio.Event().wait()
        finally:
            is_stopped.set()

    async with aclosing(queue.pieces_of(work())) as pieces:
        async for piece in pieces:
            assert piece == "Hello"
            break
    assert is_stopped.is_set()


async def test_a_framework_that_exits_does_not_end_the_server() -> None:
    async def work() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"ended with SystemExit\(3\)"):
        await anext(PieceQueue().pieces_of(work()))
