"""A server with one fault: ours, behind something that spoils requests or answers as other people's servers do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Headers = dict[str, str]


@dataclass(frozen=True)
class Faulty:
    """An ASGI app before another one.

    `ask` may change a JSON-RPC request and its headers, or say an HTTP status to answer at once. `answer` changes a
    reply, given the request, its content type and its whole body. `header` changes a reply's headers.
    """

    app: Any
    ask: Callable[[Any, Headers], int | None] = lambda request, headers: None
    answer: Callable[[Any, str, bytes], bytes] = lambda request, kind, body: body
    header: Callable[[Headers], None] = lambda headers: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request = self._read(body)
        status = self.ask(request, headers) if isinstance(request, dict) else None
        if status is not None:
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"5")]})
            await send({"type": "http.response.body", "body": b"Oops!"})
            return
        if isinstance(request, dict):
            body = json.dumps(request).encode()
            headers["content-length"] = str(len(body))
        scope = {**scope, "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
        start, reply = await self._ask(scope, body, receive)
        shown = {name.decode(): value.decode() for name, value in start["headers"]}
        reply = self.answer(request, shown.get("content-type", ""), reply)
        self.header(shown)
        shown["content-length"] = str(len(reply))
        start["headers"] = [(name.encode(), value.encode()) for name, value in shown.items()]
        await send(start)
        await send({"type": "http.response.body", "body": reply})

    def _read(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError:
            return None

    async def _ask(self, scope: Any, body: bytes, receive: Any) -> tuple[Any, bytes]:
        """The whole of the app's reply."""
        events: list[Any] = []
        asked = False

        async def give() -> Any:
            nonlocal asked
            if asked:
                return await receive()  # the next thing to hear is that the caller has gone
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def take(event: Any) -> None:
            events.append(event)

        await self.app(scope, give, take)
        return events[0], b"".join(event.get("body", b"") for event in events[1:])
