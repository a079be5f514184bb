"""Errors of the console's API: a code for the page, a sentence for people, and the part of the body at fault."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    ParleyError,
    PermissionDeniedError,
    RateLimitedError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.server.bindings.failures import BodyTooLargeError, Header, as_wire_error, headers_of_error
from parley.server.bindings.http import AsgiRequest

ErrorCode: TypeAlias = Literal[
    "bad_request",
    "unauthenticated",
    "forbidden",
    "not_found",
    "conflict",
    "too_large",
    "rate_limited",
    "unsupported",
    "unavailable",
    "agent_error",
    "internal",
]

STATUSES: dict[ErrorCode, int] = {
    "bad_request": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "rate_limited": 429,
    "unsupported": 501,
    "unavailable": 503,
    "agent_error": 502,
    "internal": 500,
}

TEMPORARY: frozenset[ErrorCode] = frozenset({"unavailable", "rate_limited"})
"""Errors after which a page opens a channel again."""


class ConsoleError(ParleyError):
    """The console cannot do what the page asked for.

    `path` is the JSON path of the part of the body that is at fault, or the name of the query parameter.
    """

    def __init__(
        self, code: ErrorCode, message: str, *, path: str | None = None, headers: tuple[Header, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.path = path
        self.headers = headers

    @property
    def is_final(self) -> bool:
        """Whether it makes no sense to try the same again after a pause."""
        return self.code not in TEMPORARY

    def as_json(self) -> dict[str, str]:
        """The error as replies and frames show it."""
        shown = {"code": self.code, "message": self.message}
        return shown if self.path is None else {**shown, "path": self.path}


def code_of_status(status: int) -> ErrorCode:
    """The code for a reply with an HTTP status."""
    codes: dict[int, ErrorCode] = {known: code for code, known in STATUSES.items()}
    return codes.get(status, "bad_request" if 400 <= status < 500 else "internal")


def as_console_error(error: BaseException) -> ConsoleError:
    """The error to show for any exception. An unexpected one is logged, and the page gets a reference to the log."""
    if isinstance(error, ConsoleError):
        return error
    failure = as_wire_error(error)
    headers = tuple(header for header in headers_of_error(failure) if header[0] == b"retry-after")
    return ConsoleError(_code_of(failure), failure.message, path=failure.path or None, headers=headers)


def _code_of(error: A2AError) -> ErrorCode:
    match error:
        case UnauthenticatedError():
            return "unauthenticated"
        case PermissionDeniedError():
            return "forbidden"
        case RateLimitedError():
            return "rate_limited"
        case UnavailableError():
            return "unavailable"
        case BodyTooLargeError():
            return "too_large"
        case TaskNotFoundError() | MethodNotFoundError():
            return "not_found"
        case UnsupportedOperationError():
            return "unsupported"
        case InvalidParamsError() | InvalidRequestError():
            return "bad_request"
        case _:
            return "bad_request" if error.row.http < 500 else "internal"


async def reply_console_error(request: AsgiRequest, error: BaseException) -> None:
    """Reply with an error."""
    shown = as_console_error(error)
    headers = [(b"cache-control", b"no-store"), *shown.headers]
    body = msgspec.json.encode({"error": shown.as_json()})
    await request.reply(STATUSES[shown.code], body, headers=headers)
