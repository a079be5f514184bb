"""An open stream of a hosted agent, read frame by frame, with what a reader of A2A makes of its frames."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from parley.wire.sse import Decoder
from tests.host.a2a_calls import path_of, request


@dataclass(frozen=True, slots=True)
class ReadFrame:
    """One frame: its id, the name of its event, and the envelope in it."""

    id: str
    event: str
    envelope: dict[str, Any]

    @property
    def result(self) -> dict[str, Any]:
        return self.envelope["result"]


class FrameReader:
    """Frames in the order in which they come."""

    def __init__(self, reply: httpx2.Response) -> None:
        self.reply = reply
        self._frames = self._read()

    async def _read(self) -> AsyncIterator[ReadFrame]:
        decoder = Decoder()
        async for chunk in self.reply.aiter_bytes():
            for frame in decoder.feed(chunk):
                yield ReadFrame(frame.id, frame.event, msgspec.json.decode(frame.data))

    async def take(self, number: int) -> list[ReadFrame]:
        """The next frames."""
        return [await anext(self._frames) for _ in range(number)]

    async def rest(self) -> list[ReadFrame]:
        """All frames until the server closes the stream."""
        return [frame async for frame in self._frames]


@asynccontextmanager
async def open_stream(
    client: httpx2.AsyncClient, method: str, params: dict[str, Any], *, agent: str = "index", after: str | None = None
) -> AsyncGenerator[FrameReader]:
    """A stream that is closed when the block ends, wherever the reader is."""
    headers = {} if after is None else {"Last-Event-ID": after}
    body = request(method, params)
    async with client.stream("POST", path_of(agent), json=body, headers=headers) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream"), await reply.aread()
        yield FrameReader(reply)


def texts(frames: Iterable[ReadFrame]) -> list[str]:
    """The texts in frames of the primary artifact, in their order."""
    artifacts = [frame.result["artifact"] for frame in frames if frame.result["kind"] == "artifact-update"]
    return [part["text"] for one in artifacts if one["artifactId"].endswith("-text-0") for part in one["parts"]]


def folded_text(frames: Iterable[ReadFrame]) -> str:
    """The text that a reader of the frames holds in the end: a frame that does not append begins it anew."""
    held = ""
    for frame in frames:
        held = ("" if frame.result.get("append") is False and texts([frame]) else held) + "".join(texts([frame]))
    return held
