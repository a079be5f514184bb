"""One HTTP request over plain ASGI: its headers, its body within limits, and its reply.

Errors of HTTP itself, such as a body that is too long or has another media type, are A2AErrors like all others. They
keep their HTTP status in every binding.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from parley.dialects.json_errors import encode_rest_error
from parley.protocol.cards import Binding
from parley.protocol.operations import Operation
from parley.protocol.versions import Version
from parley.server.bindings.body_budget import FREE_BYTES, BodyBudget
from parley.server.bindings.failures import (
    BodyTooLargeError,
    ClientDisconnected,
    Header,
    MediaTypeError,
    as_wire_error,
    headers_of_error,
)
from parley.server.limits import ServerLimits
from parley.server.security.credentials import Identity, PeerCertificate, PresentedCredentials
from parley.server.telemetry.call import Call
from parley.wire.rest import parse_query

JSON = b"application/json"

_JSON_TYPE = re.compile(r"\s*application/(?:[\w.-]+\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"[\w.-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?", re.ASCII)
_PATH_SAFE = "/:@!$&'()*+,;=~-._"

MAX_HOST = 261
"""The longest DNS name, with a port. Cached cards and pages contain it, so it needs a limit."""

CHUNK_BYTES = 256 * 1024
"""Bytes of a reply that are written at once. The next chunk follows when the client has read this one."""


class AsgiRequest:
    """A request and the methods to answer it. `path` is percent-encoded and relative to the app's root."""

    __slots__ = (
        "__dict__",
        "_receive",
        "_scope",
        "_send",
        "base_url",
        "find_resource_metadata",
        "headers",
        "path",
        "verb",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.verb: str = scope["method"]
        self.path = _path_below_root(scope)
        self.headers = _read_headers(scope["headers"])
        self.base_url = ""
        """The agent's URL as this caller sees it; `App` sets it."""
        self.find_resource_metadata: Callable[[AsgiRequest], str | None] | None = None
        """Finds the URL of the metadata of what was requested; `App` sets it."""

    def call(self, agent: str, operation: Operation, version: Version, binding: Binding, identity: Identity) -> Call:
        """The request as a decoded call."""
        return Call(agent, operation, version, binding, self.headers, identity, self.address, self.base_url)

    @cached_property
    def query(self) -> dict[str, list[str]]:
        """The decoded query parameters. Raises InvalidParamsError if they are not UTF-8 or too many."""
        return parse_query(self._scope["query_string"].decode("latin-1"))

    @property
    def version_header(self) -> str | None:
        """The A2A version that the caller states, in the header or, if it cannot set one, in the query."""
        stated = self.headers.get("a2a-version")
        if stated is None and self._scope["query_string"]:
            stated = ",".join(self.query.get("A2A-Version", ())) or None
        return stated

    @property
    def origin(self) -> str:
        """Scheme and host as the caller sent them, with the path of the mounted app: `https://host/mounted`."""
        host = self.headers.get("host", "")
        if len(host) > MAX_HOST or not _is_host(host):
            name, port = self._scope.get("server") or ("localhost", None)
            host = f"{name}:{port}" if port else name
        return f"{self._scope['scheme']}://{host}{_quoted_root(self._scope)}"

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the protected resource metadata, to which a 401 points; None if there is none."""
        return None if self.find_resource_metadata is None else self.find_resource_metadata(self)

    @property
    def address(self) -> str:
        """The IP address of the peer, or an empty string if the ASGI server does not provide it."""
        client: Sequence[Any] | None = self._scope.get("client")
        return str(client[0]) if client else ""

    def credentials(self) -> PresentedCredentials:
        """The credentials in the request, not verified yet."""
        has_query = self._scope["query_string"] or "query" in self.__dict__
        query: Mapping[str, Sequence[str]] = self.query if has_query else {}
        extensions: Mapping[str, Any] = self._scope.get("extensions") or {}
        der = extensions.get("tls", {}).get("client_cert_der")
        certificate = PeerCertificate.from_der(der) if der else None
        return PresentedCredentials(self.headers, query, certificate, self.address)

    def present(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        """Add credentials that the client did not send itself, in place of those with the same names.

        An app to which the request is forwarded does not get them.
        """
        self.headers.update(headers)
        if query:
            self.__dict__["query"] = {**self.query, **{name: [value] for name, value in query.items()}}

    def hide_challenges(self) -> None:
        """Leave `WWW-Authenticate` out of the reply: browsers would ask for a password, although the page does it."""
        send = self._send

        async def send_without(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [header for header in message["headers"] if header[0].lower() != b"www-authenticate"]
                message = {**message, "headers": headers}
            await send(message)

        self._send = send_without

    def scope_of_call(self, path: str, headers: Sequence[Header]) -> Scope:
        """The scope of a POST request to another path of the app, from the same client, with these headers only."""
        root = self._scope.get("root_path", "")
        raw = (_quoted_root(self._scope) + path).encode("ascii")
        about = {
            "method": "POST",
            "path": root + unquote(path),
            "raw_path": raw,
            "query_string": b"",
            "headers": headers,
        }
        return {**self._scope, **about}

    def repeated(self) -> AsgiRequest:
        """The same request as it was received, without what `present` has added. Its body cannot be read."""
        request = AsgiRequest(self._scope, self._receive, self._send)
        request.base_url = self.base_url
        request.find_resource_metadata = self.find_resource_metadata
        return request

    @property
    def raw_headers(self) -> Sequence[Header]:
        """The headers as they were received, also after `present`."""
        return self._scope["headers"]

    def accepts_html(self) -> bool:
        """Whether the request comes from a browser."""
        return "text/html" in self.headers.get("accept", "")

    # --- body ---------------------------------------------------------------------------------------------------------

    async def read_json_body(self, limits: ServerLimits, budget: BodyBudget) -> bytes:
        """Read the body. Its media type must be JSON, unless it is empty.

        Raises:
            BodyTooLargeError: it has too many bytes, objects or arrays. Some of the rest is read and discarded, because
                many clients read the reply only after they have sent the whole body.
            MediaTypeError: it has another media type.
            RateLimitedError: the memory for long bodies is used up.
            ClientDisconnected: the client has disconnected.
        """
        limit, discard = limits.body_bytes, limits.discarded_bytes
        stated = self.headers.get("content-length", "")
        if stated.isascii() and stated.isdigit() and (len(stated) > 15 or int(stated) > limit):
            if "expect" not in self.headers:  # a client that waits for "100 Continue" has not sent the body
                await self._discard(discard)
            raise _too_long(limit)
        body = await self._read(limit, discard, budget)
        content_type = self.headers.get("content-type", "")
        if body and content_type != "application/json" and not _JSON_TYPE.fullmatch(content_type):
            raise MediaTypeError
        # Brackets inside strings count too: telling them apart would take as long as parsing. The limit is generous.
        if len(body) > limits.json_containers < body.count(b"{") + body.count(b"["):
            raise BodyTooLargeError(f"The body may have up to {limits.json_containers} objects and arrays")
        return body

    async def _read(self, limit: int, discard: int, budget: BodyBudget) -> bytes:
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            if len(body) <= limit:
                return body
            raise _too_long(limit)
        chunks = [body]
        size, held = len(body), 0
        try:
            while message.get("more_body"):
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                chunk = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    if message.get("more_body"):
                        chunks.clear()
                        await self._discard(discard)
                    raise _too_long(limit)
                if size > FREE_BYTES:
                    budget.reserve(self.address, len(chunk))
                    held += len(chunk)
            return b"".join(chunks)
        finally:
            budget.release(self.address, held)

    async def _discard(self, limit: int) -> None:
        size = 0
        while size <= limit:
            message = await self._receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                return

    async def body_chunks(self) -> AsyncGenerator[bytes]:
        """The body as it arrives, for one that may be too long to be held.

        Raises:
            ClientDisconnected: the client has disconnected.
        """
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    async def forward_to(self, app: ASGIApp, body: bytes, scope: Mapping[str, object]) -> None:
        """Let another ASGI app answer. It gets the body that was read here, and members of the scope beside its own."""
        unread = [body]

        async def receive() -> MutableMapping[str, Any]:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await self._receive()

        await app({**self._scope, **scope}, receive, self._send)

    async def pass_to(
        self, app: ASGIApp, below: str, headers: Sequence[Header], on_send: Callable[[Send], Send]
    ) -> None:
        """Let another ASGI app answer, which is mounted `below` this path, gets these headers, and reads the body.

        `on_send` wraps what it replies with.
        """
        scope = {**self._scope, "root_path": self._scope.get("root_path", "") + below, "headers": headers}
        await app(scope, self._receive, on_send(self._send))

    async def wait_for_disconnect(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # --- reply --------------------------------------------------------------------------------------------------------

    async def reply(self, status: int, body: bytes, content_type: bytes = JSON, headers: Iterable[Header] = ()) -> None:
        """Send a whole reply."""
        head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    def reserve_reply(self, budget: BodyBudget, reply: bytes) -> int:
        """Reserve memory for a long reply, and return how much. Raises RateLimitedError if the budget is used up."""
        if len(reply) <= FREE_BYTES:
            return 0
        budget.reserve(self.address, len(reply))
        return len(reply)

    def reply_long(
        self, budget: BodyBudget, reserved: int, body: bytes, content_type: bytes, headers: Iterable[Header]
    ) -> Awaitable[None]:
        """Send the reply, and release its memory when all but the last chunk is written."""
        if not reserved:
            return self.reply(200, body, content_type, headers)
        head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
        return self._reply_in_chunks(budget, reserved, body, head)

    async def _reply_in_chunks(self, budget: BodyBudget, reserved: int, body: bytes, head: Sequence[Header]) -> None:
        try:
            await self.start_reply(200, head)
            for start in range(0, len(body), CHUNK_BYTES):
                await self.send_chunk(body[start : start + CHUNK_BYTES], is_last=start + CHUNK_BYTES >= len(body))
        finally:
            budget.release(self.address, reserved)

    async def start_reply(self, status: int, headers: Sequence[Header]) -> None:
        """Start a reply that is sent in chunks."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_chunk(self, body: bytes, *, is_last: bool = False) -> None:
        """Send a chunk of the reply."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def reply_error(request: AsgiRequest, version: Version, error: BaseException) -> None:
    """Reply with an error, in the REST format of a version."""
    failure = as_wire_error(error)
    status, body = encode_rest_error(version, failure)
    await request.reply(status, body, JSON, headers_of_error(failure, request.resource_metadata))


def _too_long(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body may have up to {limit} bytes")


def _path_below_root(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    root = _quoted_root(scope)
    # As Starlette does: if the path does not start with the root, a proxy has removed it.
    return path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path


def _quoted_root(scope: Scope) -> str:
    root = scope.get("root_path", "")
    return quote(root, safe=_PATH_SAFE) if root else ""


@lru_cache(maxsize=100)  # callers know a server by few names
def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def _read_headers(pairs: Iterable[Header]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name_bytes, value_bytes in pairs:
        name, value = name_bytes.decode("latin-1"), value_bytes.decode("latin-1")
        if name in headers:  # RFC 9110 section 5.3; for cookies RFC 6265
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    return headers
