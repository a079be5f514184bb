"""A route of the console's API, and the call that its handler gets.

    async def show_task(call: ConsoleCall) -> ConsoleAnswer:
        query = call.query(TaskQuery)
        ...
        return ConsoleAnswer(TaskView(...))

    ROUTES = [ConsoleRoute("GET", "/tasks/{id}", show_task)]

A module of routes ends with its `ROUTES`, and `table` names the module. A path is relative to `/console/api`; a segment
in braces matches any one segment, and is decoded. Handlers raise ConsoleError or A2AError; both become replies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from parley.console.api.errors import ConsoleError
from parley.console.backend import ConsoleBackend, ConsoleCaller
from parley.console.sessions import Session
from parley.dialects.fields import Fault, Reader
from parley.protocol.jsonvalue import JsonValue
from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest

if TYPE_CHECKING:
    from parley.console.console import Console

T = TypeVar("T")

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class ConsoleAnswer:
    """What a handler answers with: anything that msgspec writes as JSON, or bytes of another type.

    Replies are never cached: `Cache-Control: no-store`, unless the headers say otherwise.
    """

    body: object
    status: int = 200
    content_type: str = JSON_TYPE
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsoleCall:
    """One request to a route, after its caller was authenticated."""

    console: Console
    request: AsgiRequest
    path: Mapping[str, str]
    """The segments that the braces of the path match, decoded."""
    session: Session
    """The session of the page. A program without one has an empty session, which cannot be written."""
    caller_or_none: ConsoleCaller | None
    """None: the caller has not logged in, which only routes with `needs_caller=False` allow."""

    @property
    def backend(self) -> ConsoleBackend:
        """What differs between servers."""
        return self.console.backend

    @property
    def caller(self) -> ConsoleCaller:
        """The caller. Only routes that need one have one."""
        assert self.caller_or_none is not None, "The route needs no caller"
        return self.caller_or_none

    async def read(self, body_type: type[T]) -> T:
        """The JSON body as a struct.

        Raises:
            ConsoleError: it is not valid, with the JSON path; it is too long.
        """
        shared = self.backend.app.shared
        raw = await self.request.read_json_body(shared.limits, shared.bodies)
        return read_body(body_type, raw)

    def query(self, query_type: type[T]) -> T:
        """The query parameters as a struct, whose defaults hold for those that are missing.

        A member that is a list gets all values of a repeated parameter; numbers and booleans are read from their text.

        Raises:
            ConsoleError: a parameter is not valid.
        """
        fields = {one.encode_name: one.type for one in msgspec.structs.fields(query_type)}  # pyright: ignore[reportArgumentType]
        given: dict[str, Any] = {}
        for name, values in self.request.query.items():
            if name not in fields:
                continue
            given[name] = values if _is_list(fields[name]) else values[-1]
        try:
            return msgspec.convert(given, query_type, strict=False)
        except (msgspec.ValidationError, ValueError) as error:  # the latter for moments after the year 9999
            reason, _, path = str(error).partition(" - at ")
            raise ConsoleError("bad_request", reason, path=path.strip("`").removeprefix("$.") or None) from None


Handler: TypeAlias = Callable[[ConsoleCall], Awaitable[ConsoleAnswer | None]]
"""Answers a call. None: it has sent the reply itself, as a stream or with `call.request.reply`."""


@dataclass(frozen=True, slots=True)
class ConsoleRoute:
    """One method of one path below `/console/api`."""

    method: str
    path: str
    handler: Handler
    needs_caller: bool = field(default=True, kw_only=True)
    """False: also for those who have not logged in where the server needs a login."""
    reads_cookie: bool = field(default=False, kw_only=True)
    """True: the cookie is enough to name the session, without the CSRF token. Only for what changes nothing."""
    streams: bool = field(default=False, kw_only=True)
    """Whether the reply is open for long; it does not count as an active request then, but as an open stream."""


@dataclass(frozen=True, slots=True)
class ConsoleMount:
    """Everything below one path of `/console`, such as `/console/remote/`, for what is not a route of the API.

    The handler answers with `call.request`, or forwards it; `call.path` has `rest`, what follows the prefix, still
    percent-encoded. The session is resolved and the caller authenticated as for routes.
    """

    prefix: str
    """Relative to `/console`, with a slash at the end: `/remote/`."""
    handler: Handler
    needs_caller: bool = field(default=True, kw_only=True)
    needs_no_csrf: bool = field(default=False, kw_only=True)
    """True: a navigation of the browser comes here, such as the return from an authorization server. There is no
    session then."""


def read_body(body_type: type[T], raw: bytes) -> T:
    """The struct in a JSON body; an empty body is `{}`. Raises ConsoleError with the JSON path."""
    try:
        return _reader(body_type).read(raw if raw.strip() else b"{}")
    except Fault as fault:
        reason = f"Invalid JSON: {fault.reason}" if fault.is_syntax else fault.reason
        raise ConsoleError("bad_request", reason, path=None if fault.is_syntax else fault.path) from None


def read_value(value_type: type[T], value: JsonValue) -> T:
    """The struct in a JSON value that was parsed before. Raises ConsoleError with the JSON path."""
    try:
        return _reader(value_type).read_value(value)
    except Fault as fault:
        raise ConsoleError("bad_request", fault.reason, path=fault.path) from None


@cache
def _reader(body_type: type[T]) -> Reader[T]:
    return Reader(body_type, guesses_tags=False)


def _is_list(annotation: object) -> bool:
    origin = getattr(annotation, "__origin__", annotation)
    return origin in (list, tuple, Sequence)
