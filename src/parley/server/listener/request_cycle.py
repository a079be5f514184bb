"""One request and its reply on a connection. Headers and the first chunk of the body are sent in one write.

uvicorn writes them one after the other, which takes two system calls and two packets for every short reply: a tenth
of the cost of a send. The access log leaves out the query, because it may contain secrets. The rest is uvicorn's.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.protocols.utils import get_client_addr


class RequestCycle(RequestResponseCycle):
    """A request and its reply."""

    keep_alive: bool
    head = b""
    """The headers, until they are sent with the first chunk of the body."""

    async def send(self, message: Any) -> None:
        """Process an ASGI message of the reply."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_complete:
            raise RuntimeError(f"Got {message['type']!r} after the reply was complete")
        expected = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != expected:
            raise RuntimeError(f"Expected {expected!r}, but got {message['type']!r}")
        if self.response_started:
            self._write(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            self._begin(message["status"], [*self.default_headers, *message.get("headers", ())])

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.response_started = True
        self.waiting_for_100_continue = False
        if self.access_log:
            line = (get_client_addr(self.scope), self.scope["method"], self.scope["path"], self.scope["http_version"])
            self.access_logger.info('%s - "%s %s HTTP/%s" %d', *line, status)
        lines = [STATUS_LINE[status][:-2]]
        for name, value in headers:
            name = name.lower()
            if name == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
            elif name == b"connection":
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
                continue
            lines.append(name + b": " + value)
        if not self.keep_alive:
            lines.append(b"connection: close")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in (204, 304):
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked")
        head = b"\r\n".join(lines)
        if head.count(b"\r") != len(lines) - 1 or head.count(b"\n") != len(lines) - 1 or 0 in head:  # NUL
            raise RuntimeError("A header contains a line break or NUL")
        self.head = head + b"\r\n\r\n"

    def _write(self, body: bytes, *, is_last: bool) -> None:
        chunks = [self.head]
        self.head = b""
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
        elif self.chunked_encoding:
            if body:
                chunks += (b"%x\r\n" % len(body), body, b"\r\n")
            if is_last:
                chunks.append(b"0\r\n\r\n")
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0 or (is_last and self.expected_content_length > 0):
                raise RuntimeError("The length of the body differs from Content-Length")
            chunks.append(body)
        self.transport.write(b"".join(chunks))
        if is_last:
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
