"""Errors of the host as HTTP replies: `{"error": …}`, whatever raised them, with the status that says what to do."""

from __future__ import annotations

import msgspec

from parley.host.budgets.exceeded import BUDGET_LIMIT
from parley.host.constitution import render
from parley.host.data.agents import AgentExistsError
from parley.host.data.errors import (
    AlreadyExistsError,
    HostDataError,
    InvalidValueError,
    LimitReachedError,
    NotFoundError,
    StaleRevisionError,
)
from parley.host.data.stops import AgentStoppedError
from parley.host.errors import (
    ApiError,
    BadRequest,
    Conflict,
    MethodNotAllowed,
    PathNotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from parley.host.orchestration.narration import STOPPED
from parley.protocol.errors import A2AError, RateLimitedError, TaskBusyError, UnauthenticatedError
from parley.protocol.jsonvalue import JsonObject
from parley.server.bindings.failures import Header, as_wire_error, headers_of_error
from parley.server.bindings.http import AsgiRequest
from parley.server.security.resource_metadata import pointed_to
from parley.server.security.throttle import retry_after_of

JSON_UTF8 = b"application/json; charset=utf-8"


async def reply_error(request: AsgiRequest, error: BaseException) -> None:
    """Reply with an error. An unexpected one is logged, and the caller gets a reference to the log."""
    known = _as_api_error(error)
    if known is not None:
        headers, body = _headers(known, error, request), {"error": known.message, **known.more}
        await request.reply(known.status, msgspec.json.encode(body), JSON_UTF8, headers)
        return
    failure = as_wire_error(error)
    text = f"{failure.path}: {failure.message}" if failure.path else failure.message
    body = msgspec.json.encode({"error": text})
    await request.reply(failure.row.http, body, JSON_UTF8, headers_of_error(failure, request.resource_metadata))


def _as_api_error(error: BaseException) -> ApiError | None:
    match error:
        case ApiError():
            return error
        case UnauthenticatedError():
            return Unauthorized()
        case AgentStoppedError(stop=stop):
            more: JsonObject = {"error_code": STOPPED, "stopped_by": stop.by, "stopped_at": stop.at}
            return Conflict(error.message, more=more)
        case TaskBusyError():
            about: JsonObject = {"error_code": "task_busy", "request_id": error.details.get("taskId", "")}
            return Conflict(error.message, more=about)
        case RateLimitedError():
            reason = error.details.get("reason", "rate_limit")
            text = error.message if reason == BUDGET_LIMIT else None
            return TooManyRequests(reason, retry_after_of(error) or 1, text)
        case HostDataError():
            return _of_data(error)
        case _:
            return None


def _of_data(error: HostDataError) -> ApiError | None:
    match error:
        case NotFoundError():
            return PathNotFound(error.message)
        case AgentExistsError():
            existing = error.existing
            shown = render(existing.constitution, existing.created_at, existing.updated_at)
            return Conflict(error.message, more={"existing": shown})
        case AlreadyExistsError() | StaleRevisionError():
            return Conflict(error.message)
        case InvalidValueError():
            return BadRequest(error.message)
        case LimitReachedError():
            return TooLarge(error.message)
        case _:
            return None


def _headers(known: ApiError, error: BaseException, request: AsgiRequest) -> list[Header]:
    match known:
        case MethodNotAllowed():
            return [(b"allow", ", ".join(known.allowed).encode())]
        case TooManyRequests():
            return [(b"retry-after", b"%d" % known.retry_after_seconds)]
        case Unavailable():
            return [(b"retry-after", b"1")]
        case Unauthorized() if not isinstance(error, A2AError):
            challenge, url = 'Bearer realm="parley"', request.resource_metadata
            return [(b"www-authenticate", (challenge if url is None else pointed_to(challenge, url)).encode())]
        case _:
            return headers_of_error(error, request.resource_metadata) if isinstance(error, A2AError) else []
