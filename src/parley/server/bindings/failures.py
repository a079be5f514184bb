"""How errors become replies, and the errors of HTTP itself.

An unexpected error is logged with a reference; the caller gets only the reference.
"""

from __future__ import annotations

import logging
from copy import copy

from parley.engine.clock import random_id
from parley.protocol.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ErrorRow,
    InternalError,
    InvalidRequestError,
    ParleyError,
    PermissionDeniedError,
    RateLimitedError,
    UnavailableError,
)
from parley.server.security.authentication import challenges_of
from parley.server.security.resource_metadata import pointed_to
from parley.server.security.schemes.scheme import Challenge
from parley.server.security.throttle import retry_after_of
from parley.wire.rest import MethodNotAllowedError

logger = logging.getLogger(__name__)

Header = tuple[bytes, bytes]


class BodyTooLargeError(InvalidRequestError):
    """The request body is too long"""

    row = ErrorRow(-32600, 413, "RESOURCE_EXHAUSTED", "INVALID_REQUEST", 413, "RESOURCE_EXHAUSTED")


class MediaTypeError(ContentTypeNotSupportedError):
    """The request body must be JSON; send `Content-Type: application/json`"""

    row = ErrorRow(-32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", 415, "INVALID_ARGUMENT")


class ClientDisconnected(ParleyError):
    """The client closed the connection, so there is no reply to send."""


def as_wire_error(error: BaseException) -> A2AError:
    """The error to reply with: an A2AError as it is, any other as an internal error with a reference to the log."""
    if isinstance(error, A2AError):
        return error
    reference = random_id()
    logger.error("A request failed (reference %s)", reference, exc_info=error)
    return InternalError(f"The server failed. Reference: {reference}")


def with_last_event_id(error: A2AError, last_seq: int) -> A2AError:
    """A copy of the error with the number of the last event that was sent, from which the reader can resume."""
    if not last_seq:
        return error
    copied = copy(error)  # many readers may get the same error
    copied.details = {**error.details, "lastEventId": str(last_seq)}
    return copied


def headers_of_error(error: A2AError, resource_metadata: str | None = None) -> list[Header]:
    """The response headers of an error: `WWW-Authenticate`, `Allow` and `Retry-After`.

    `resource_metadata` is the URL to which challenges of Bearer tokens point, if there is one.
    """
    challenges = challenges_of(error)
    if resource_metadata is not None:
        if not challenges and isinstance(error, PermissionDeniedError) and "scopes" in error.details:
            needed = {"realm": "parley", "error": "insufficient_scope", "scope": error.details["scopes"]}
            challenges = (str(Challenge("Bearer", needed)),)
        challenges = tuple(pointed_to(challenge, resource_metadata) for challenge in challenges)
    headers = [(b"www-authenticate", challenge.encode()) for challenge in challenges]
    if isinstance(error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    retry_after = retry_after_of(error) or (1 if isinstance(error, RateLimitedError | UnavailableError) else None)
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % retry_after))
    return headers
