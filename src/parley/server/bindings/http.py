"""One HTTP request over plain ASGI: its head, its body within limits, and its reply.

What HTTP itself must refuse (too long, of another media type) is an error of the tree like any other, with its own
HTTP status in every binding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from parley.dialects.json_errors import encode_rest_error
from parley.protocol.cards import Binding
from parley.protocol.operations import Operation
from parley.protocol.versions import Version
from parley.server.bindings.body_budget import FREE_BODY, BodyRoom
from parley.server.bindings.failures import (
    BodyTooLargeError,
    ClientGone,
    Header,
    MediaTypeError,
    as_wire_error,
    headers_of_error,
)
from parley.server.limits import ServerLimits
from parley.server.security.credentials import Credentials, Identity, PeerCertificate
from parley.server.telemetry.observer import Call
from parley.wire.rest import parse_query

JSON = b"application/json"

_JSON_TYPE = re.compile(r"\s*application/(?:[\w.-]+\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"[\w.-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?", re.ASCII)
_PATH_SAFE = "/:@!$&'()*+,;=~-._"

MAX_HOST = 261
"""The longest name that DNS knows, and a port. It is repeated in cards and pages, which are remembered."""


PIECE = 256 * 1024
"""What is given to the connection at once; it takes the next when its reader has taken this."""


class HttpRequest:
    """A request and the way to answer it. `path` is raw, percent-encoded, and begins below the app's root."""

    __slots__ = ("__dict__", "_receive", "_scope", "_send", "base_url", "headers", "path", "verb")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.verb: str = scope["method"]
        self.path = _path_below_root(scope)
        self.headers = _read_headers(scope["headers"])
        self.base_url = ""
        """Where the agent is, as this caller sees it; whoever finds the agent says so."""

    def call(self, agent: str, operation: Operation, version: Version, binding: Binding, identity: Identity) -> Call:
        """The request as a call that was understood."""
        return Call(agent, operation, version, binding, self.headers, identity, self.address, self.base_url)

    @cached_property
    def query(self) -> dict[str, list[str]]:
        """The query's parameters, decoded. Raises InvalidParamsError where they are no UTF-8 or too many."""
        return parse_query(self._scope["query_string"].decode("latin-1"))

    @property
    def version_header(self) -> str | None:
        """What the caller says of its version, in the header or, where it cannot set one, in the query."""
        stated = self.headers.get("a2a-version")
        if stated is None and self._scope["query_string"]:
            stated = ",".join(self.query.get("A2A-Version", ())) or None
        return stated

    @property
    def origin(self) -> str:
        """Scheme and host as the caller wrote them, with the path the app is mounted at: `https://host/mounted`."""
        host = self.headers.get("host", "")
        if len(host) > MAX_HOST or not _HOST.fullmatch(host):
            name, port = self._scope.get("server") or ("localhost", None)
            host = f"{name}:{port}" if port else name
        return f"{self._scope['scheme']}://{host}{quote(self._scope.get('root_path', ''), safe=_PATH_SAFE)}"

    @property
    def address(self) -> str:
        """The IP address of the peer, or nothing where the server does not tell."""
        client: Sequence[Any] | None = self._scope.get("client")
        return str(client[0]) if client else ""

    def credentials(self) -> Credentials:
        """What the caller has shown of itself."""
        query: Mapping[str, Sequence[str]] = self.query if self._scope["query_string"] else {}
        extensions: Mapping[str, Any] = self._scope.get("extensions") or {}
        der = extensions.get("tls", {}).get("client_cert_der")
        certificate = PeerCertificate.from_der(der) if der else None
        return Credentials(self.headers, query, certificate, self.address)

    def accepts_html(self) -> bool:
        """Whether a person with a browser is asking."""
        return "text/html" in self.headers.get("accept", "")

    # --- body ---------------------------------------------------------------------------------------------------------

    async def read_json_body(self, limits: ServerLimits, room: BodyRoom) -> bytes:
        """The body, which says of itself that it is JSON; an empty one needs not say so.

        Raises:
            BodyTooLargeError: it is too long. Some more of it is read so that the reply is read. Or it holds too much.
            MediaTypeError: it says that it is something else.
            RateLimitedError: there is no room for it now.
            ClientGone: the client went away.
        """
        limit, discard = limits.body_bytes, limits.discarded_bytes
        stated = self.headers.get("content-length", "")
        if stated.isascii() and stated.isdigit() and (len(stated) > 15 or int(stated) > limit):
            if "expect" not in self.headers:  # who waits for leave to send hears at once that there is none
                await self._discard(discard)
            raise BodyTooLargeError(f"The body may have {limit} bytes")
        body = await self._read(limit, discard, room)
        content_type = self.headers.get("content-type", "")
        if body and content_type != "application/json" and not _JSON_TYPE.fullmatch(content_type):
            raise MediaTypeError
        # Those within texts count too, so the limit is generous; to look closer would take as long as to read.
        if len(body) > limits.json_containers < body.count(b"{") + body.count(b"["):
            raise BodyTooLargeError(f"The body may have {limits.json_containers} objects and arrays")
        return body

    async def _read(self, limit: int, discard: int, room: BodyRoom) -> bytes:
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if message["type"] == "http.disconnect":
                raise ClientGone
            if len(body) <= limit:
                return body
            raise BodyTooLargeError(f"The body may have {limit} bytes")
        chunks = [body]
        size, held = len(body), 0
        try:
            while message.get("more_body"):
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece = message.get("body", b"")
                chunks.append(piece)
                size += len(piece)
                if size > limit:
                    if message.get("more_body"):
                        chunks.clear()
                        await self._discard(discard)
                    raise BodyTooLargeError(f"The body may have {limit} bytes")
                if size > FREE_BODY:
                    room.take(self.address, len(piece))
                    held += len(piece)
            return b"".join(chunks)
        finally:
            room.give_back(self.address, held)

    async def _discard(self, limit: int) -> None:
        size = 0
        while size <= limit:
            message = await self._receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                return

    async def until_gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # --- reply --------------------------------------------------------------------------------------------------------

    async def reply(self, status: int, body: bytes, content_type: bytes = JSON, headers: Iterable[Header] = ()) -> None:
        """Answer the request."""
        head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    def take_room(self, room: BodyRoom, reply: bytes) -> int:
        """The room that a long reply takes until its reader has it. Raises RateLimitedError if there is none."""
        if len(reply) <= FREE_BODY:
            return 0
        room.take(self.address, len(reply))
        return len(reply)

    async def reply_long(
        self, room: BodyRoom, taken: int, body: bytes, content_type: bytes, headers: Iterable[Header]
    ) -> None:
        """Answer the request, and give the room back when all but the last piece has gone out."""
        if not taken:
            await self.reply(200, body, content_type, headers)
            return
        try:
            head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
            await self.start_reply(200, head)
            for start in range(0, len(body), PIECE):
                await self.send_piece(body[start : start + PIECE], is_last=start + PIECE >= len(body))
        finally:
            room.give_back(self.address, taken)

    async def start_reply(self, status: int, headers: Sequence[Header]) -> None:
        """Begin an answer that comes in pieces."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_piece(self, body: bytes, *, is_last: bool = False) -> None:
        """Send a piece of the answer."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def refuse(request: HttpRequest, version: Version, error: BaseException) -> None:
    """Answer with an error in the form that REST has in a version."""
    failure = as_wire_error(error)
    status, body = encode_rest_error(version, failure)
    await request.reply(status, body, JSON, headers_of_error(failure))


def _path_below_root(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    root = quote(scope.get("root_path", ""), safe=_PATH_SAFE)
    # As Starlette does: a root that the path does not begin with was taken off by a proxy.
    return path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path


def _read_headers(pairs: Iterable[Header]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name_bytes, value_bytes in pairs:
        name, value = name_bytes.decode("latin-1"), value_bytes.decode("latin-1")
        if name in headers:  # RFC 9110 section 5.3; cookies are separated as RFC 6265 has it
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    return headers
