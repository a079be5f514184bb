"""Why the native API refuses a request: one error for each status, with a JSON body `{"error": …}`."""

from __future__ import annotations

from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject


class ApiError(ParleyError):
    """The request was refused. `more` is added to the body."""

    status = 500

    def __init__(self, message: str | None = None, *, more: JsonObject | None = None) -> None:
        super().__init__(message)
        self.more = more or {}


class BadRequest(ApiError):
    """bad request"""

    status = 400


class Unauthorized(ApiError):
    """missing or invalid bearer token"""

    status = 401


class PathNotFound(ApiError):
    """not found"""

    status = 404


class MethodNotAllowed(ApiError):
    """method not allowed"""

    status = 405

    def __init__(self, *allowed: str) -> None:
        super().__init__(f"method not allowed; use {' or '.join(allowed)}")
        self.allowed = allowed


class Conflict(ApiError):
    """conflict"""

    status = 409


class PreconditionFailed(ApiError):
    """the precondition of a header is not met"""

    status = 412


class TooLarge(ApiError):
    """the request body is too large"""

    status = 413


class TooManyRequests(ApiError):
    """rate limit exceeded"""

    status = 429

    def __init__(self, reason: str, retry_after_seconds: int, message: str | None = None) -> None:
        super().__init__(message, more={"reason": reason, "retry_after_seconds": retry_after_seconds})
        self.retry_after_seconds = retry_after_seconds


class Unavailable(ApiError):
    """the host cannot do this now; try again later"""

    status = 503
