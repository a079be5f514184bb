"""A model whose replies are written by a function of the test, call by call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from parley.host.models.model import ModelRequest, Piece, TokenUsage

USAGE = TokenUsage(10, 5)
"""What every call takes."""


class FunctionModel:
    """Calls an async generator with each request, and adds the tokens. `requests` holds what was asked."""

    def __init__(self, reply: Callable[[ModelRequest], AsyncIterator[str]]) -> None:
        self._reply = reply
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """As `Model.stream`."""
        self.requests.append(request)
        async for piece in self._reply(request):
            yield piece
        yield USAGE
