"""Looks at the ids of SSE frames, which the SDKs' own clients do not show; for the SDKs that are built on httpx."""

import re

import httpx


class Watched(httpx.AsyncHTTPTransport):
    """A transport that knows the id of the last frame that went by."""

    def __init__(self):
        super().__init__()
        self.last_id = None

    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = WatchedStream(response.stream, self)
        return response


class WatchedStream(httpx.AsyncByteStream):
    def __init__(self, stream, transport):
        self.stream, self.transport = stream, transport

    async def __aiter__(self):
        text = b""
        async for piece in self.stream:
            text += piece  # an id may come in two pieces
            for found in re.finditer(rb"^id: (.+)\n", text, re.MULTILINE):
                self.transport.last_id = found[1].decode()
            yield piece

    async def aclose(self):
        await self.stream.aclose()
