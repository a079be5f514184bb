"""What callers hear of what went wrong: errors that HTTP itself must speak of, and how any error becomes a reply.

What is not for callers goes into the log under a reference, and the reference to the caller.
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
    RateLimitedError,
    UnavailableError,
)
from parley.server.security.requirements import challenges_of
from parley.server.security.throttle import retry_after_of
from parley.wire.rest import MethodNotAllowedError

logger = logging.getLogger(__name__)

Header = tuple[bytes, bytes]


class BodyTooLargeError(InvalidRequestError):
    """The request's body is too long"""

    row = ErrorRow(-32600, 413, "RESOURCE_EXHAUSTED", "INVALID_REQUEST", 413, "RESOURCE_EXHAUSTED")


class MediaTypeError(ContentTypeNotSupportedError):
    """The request's body must be JSON; say so with `Content-Type: application/json`"""

    row = ErrorRow(-32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", 415, "INVALID_ARGUMENT")


class ClientGone(ParleyError):
    """The client closed the connection; nobody waits for a reply."""


def as_wire_error(error: BaseException) -> A2AError:
    """The error to answer with. What is not for callers goes into the log, with a reference that they get."""
    if isinstance(error, A2AError):
        return error
    reference = random_id()
    logger.error("A request failed (reference %s)", reference, exc_info=error)
    return InternalError(f"The server failed. Reference: {reference}")


def resumable(error: A2AError, last_seq: int) -> A2AError:
    """The error with the number of the last event its reader has got, to come back with.

    Many readers may get the same error, so it stays as it is.
    """
    if not last_seq:
        return error
    told = copy(error)
    told.details = {**error.details, "lastEventId": str(last_seq)}
    return told


def headers_of_error(error: A2AError) -> list[Header]:
    """The headers that an error brings along: what to authenticate with, when to come back, what to call instead."""
    headers = [(b"www-authenticate", challenge.encode()) for challenge in challenges_of(error)]
    if isinstance(error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    retry_after = retry_after_of(error) or (1 if isinstance(error, RateLimitedError | UnavailableError) else None)
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % retry_after))
    return headers
