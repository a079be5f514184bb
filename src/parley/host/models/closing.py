"""Streams of models that are closed when their reader stops, so that the connection behind them is freed at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from parley.host.models.model import Model, ModelRequest, Piece


@asynccontextmanager
async def closing_stream(model: Model, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Piece]]:
    """The stream of a model, closed at the end of the block."""
    pieces = model.stream(request)
    try:
        yield pieces
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
