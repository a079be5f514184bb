"""Every error in Parley, and how each is written on the wire.

    ParleyError
    ├── A2AError                              crosses the wire; one `ErrorRow` each
    │   ├── ParseError                        the bytes are not JSON
    │   ├── InvalidRequestError               JSON, but no request
    │   ├── MethodNotFoundError
    │   ├── InvalidParamsError                a member is missing, wrong or out of range
    │   │   └── IdempotencyKeyReusedError     the key of a send was used for other content
    │   ├── InternalError
    │   ├── TaskNotFoundError                 absent, or another caller's: the two look the same
    │   ├── TaskNotCancelableError
    │   ├── PushNotificationNotSupportedError
    │   ├── UnsupportedOperationError
    │   │   ├── TaskFinishedError             a message to a task that has ended
    │   │   └── TaskBusyError                 a message that is not to wait, while a task is at work
    │   ├── ContentTypeNotSupportedError
    │   ├── InvalidAgentResponseError
    │   ├── ExtendedCardNotConfiguredError
    │   ├── ExtensionSupportRequiredError
    │   ├── VersionNotSupportedError
    │   ├── UnauthenticatedError
    │   ├── PermissionDeniedError
    │   ├── RateLimitedError
    │   ├── UnavailableError
    │   └── UnknownRemoteError                a peer's error with a code that A2A does not define
    ├── LocalProtocolError                    this side, or its agent, broke the protocol
    │   └── IllegalTransitionError
    └── PeerProtocolError                     what the peer sent is not A2A
        └── SignatureInvalidError

A docstring is the default message. Internal texts never go into an error: a correlation id does. Texts of errors that
cross the wire are at most `MAX_TEXT` long; a longer one is cut and ends with an ellipsis.
Spec: 1.0.1 sections 3.3.2, 5.4, 9.5, 10.6 and 11.6; statuses of 0.3 as a2a-sdk 0.3 has them.
"""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from parley.protocol.jsonvalue import JsonValue
from parley.protocol.tasks import TaskState
from parley.safe_text import printable_line

MAX_TEXT = 300
"""Longest message, path and detail of an error: they may quote what a peer sent, which may be of any length."""

MAX_QUOTED = 200
"""Longest quotation from a peer whose answer is not A2A. The status and the reason come before it."""

ERROR_DOMAIN = "a2a-protocol.org"
"""The `domain` of every ErrorInfo."""


class ErrorRow(Struct, frozen=True):
    """One error in the four status spaces: JSON-RPC code, HTTP status, gRPC status, ErrorInfo reason."""

    code: int
    http: int
    grpc: str
    reason: str
    http_0_3: int
    grpc_0_3: str


class ParleyError(Exception):
    """Something went wrong in Parley."""

    max_text: ClassVar[int] = MAX_TEXT

    def __init__(self, message: str | None = None) -> None:
        self.message = _cut(message or _first_line(type(self).__doc__), self.max_text)
        super().__init__(self.message)


def _cut(text: str, length: int) -> str:
    """Shorten a text to at most this length; a longer one ends after a word, with an ellipsis."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    return f"{kept.rsplit(None, 1)[0] if ' ' in kept[length // 2 :] else kept}…"


def quoted(source: bytes | str) -> str:
    """The first characters of a peer's text in one line, with control characters replaced.

    `b"<html>\\r\\n<title>Bad\\x1b[2J"` → `"<html> <title>Bad␛[2J"`
    """
    start = source[: 4 * MAX_QUOTED]
    text = start.decode(errors="replace") if isinstance(start, bytes) else start
    return _cut(printable_line(text), MAX_QUOTED)


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n", 1)[0]


class A2AError(ParleyError):
    """An A2A error.

    `path` is the JSON path at fault (`$.message.parts[0]`), `details` are further facts for the peer, such as `taskId`.
    """

    row: ClassVar[ErrorRow]

    def __init__(
        self, message: str | None = None, *, path: str | None = None, details: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.path = path and path[:MAX_TEXT]
        self.details = {name: fact[:MAX_TEXT] for name, fact in (details or {}).items()}

    def __str__(self) -> str:
        return f"{self.message} (at {self.path})" if self.path else self.message


class ParseError(A2AError):
    """Invalid JSON payload"""

    row = ErrorRow(-32700, 400, "INVALID_ARGUMENT", "JSON_PARSE", 400, "INTERNAL")


class InvalidRequestError(A2AError):
    """Request payload validation error"""

    row = ErrorRow(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", 400, "INVALID_ARGUMENT")


class MethodNotFoundError(A2AError):
    """Method not found"""

    row = ErrorRow(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", 404, "NOT_FOUND")


class InvalidParamsError(A2AError):
    """Invalid parameters"""

    row = ErrorRow(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", 422, "INVALID_ARGUMENT")


class IdempotencyKeyReusedError(InvalidParamsError):
    """This Idempotency-Key was used for a message with other content; use a new key"""

    # 422 as the IETF draft has it; peers know the class by the code and the reason of its parent
    row = ErrorRow(-32602, 422, "INVALID_ARGUMENT", "INVALID_PARAMS", 422, "INVALID_ARGUMENT")


class InternalError(A2AError):
    """Internal error"""

    row = ErrorRow(-32603, 500, "INTERNAL", "INTERNAL_ERROR", 500, "INTERNAL")


class TaskNotFoundError(A2AError):
    """Task not found"""

    row = ErrorRow(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", 404, "NOT_FOUND")

    @classmethod
    def for_task(cls, task_id: str) -> Self:
        """The error for this id, whether the task does not exist or belongs to another caller."""
        return cls(details={"taskId": task_id})


class TaskNotCancelableError(A2AError):
    """Task cannot be canceled"""

    row = ErrorRow(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", 409, "UNIMPLEMENTED")


class PushNotificationNotSupportedError(A2AError):
    """Push Notification is not supported"""

    row = ErrorRow(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", 501, "UNIMPLEMENTED")


class UnsupportedOperationError(A2AError):
    """This operation is not supported"""

    row = ErrorRow(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", 501, "UNIMPLEMENTED")


class TaskFinishedError(UnsupportedOperationError):
    """The task has ended and takes no more messages; start a new task in the same context."""

    @classmethod
    def for_task(cls, task_id: str, state: TaskState) -> Self:
        """The error for a message to this task."""
        return cls(details={"taskId": task_id, "state": state.value})


class TaskBusyError(UnsupportedOperationError):
    """A task is at work, and the message is neither to wait for it nor to interrupt it."""

    row = ErrorRow(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", 409, "FAILED_PRECONDITION")

    @classmethod
    def for_task(cls, task_id: str, message: str | None = None) -> Self:
        """The error for a message that this task is in the way of."""
        return cls(message or f"The task {task_id} is at work", details={"taskId": task_id, "reason": "task_busy"})


class ContentTypeNotSupportedError(A2AError):
    """Incompatible content types"""

    row = ErrorRow(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", 415, "UNIMPLEMENTED")


class InvalidAgentResponseError(A2AError):
    """Invalid agent response"""

    row = ErrorRow(-32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE", 502, "INTERNAL")


class ExtendedCardNotConfiguredError(A2AError):
    """Authenticated Extended Card is not configured"""

    row = ErrorRow(-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", 404, "UNIMPLEMENTED")


class ExtensionSupportRequiredError(A2AError):
    """The agent requires an extension that the request does not activate"""

    row = ErrorRow(-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED", 400, "FAILED_PRECONDITION")


class VersionNotSupportedError(A2AError):
    """The requested protocol version is not supported"""

    row = ErrorRow(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION")


# A2A leaves these four to HTTP and gRPC. JSON-RPC needs a number all the same; -3203x is in the range that 1.0 reserves
# for A2A errors and that no release uses.
class UnauthenticatedError(A2AError):
    """Authentication is required"""

    row = ErrorRow(-32031, 401, "UNAUTHENTICATED", "UNAUTHENTICATED", 401, "UNAUTHENTICATED")


class PermissionDeniedError(A2AError):
    """The caller may not do this"""

    row = ErrorRow(-32032, 403, "PERMISSION_DENIED", "PERMISSION_DENIED", 403, "PERMISSION_DENIED")


class RateLimitedError(A2AError):
    """Too many requests; try again later"""

    row = ErrorRow(-32033, 429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", 429, "RESOURCE_EXHAUSTED")


class UnavailableError(A2AError):
    """The agent cannot serve this now; try again later"""

    row = ErrorRow(-32034, 503, "UNAVAILABLE", "UNAVAILABLE", 503, "UNAVAILABLE")


class UnknownRemoteError(A2AError):
    """The peer reported an error that A2A does not define.

    Only decoders create it. `code` is the peer's own code, `data` the data that came with it.
    """

    row = ErrorRow(-32603, 500, "UNKNOWN", "UNKNOWN", 500, "UNKNOWN")

    def __init__(self, message: str, *, code: int, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class LocalProtocolError(ParleyError):
    """This side tried to send something that A2A does not allow."""


class IllegalTransitionError(LocalProtocolError):
    """A task cannot go from its state to that one."""

    def __init__(self, task_id: str, before: TaskState, after: TaskState) -> None:
        super().__init__(f"Task {task_id} cannot go from {before} to {after}.")
        self.task_id = task_id
        self.before = before
        self.after = after


class PeerProtocolError(ParleyError):
    """The peer sent something that is not A2A; `path` is the JSON path at fault."""

    def __init__(self, message: str | None = None, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path and path[:MAX_TEXT]

    def __str__(self) -> str:
        return f"{self.message} (at {self.path})" if self.path else self.message


class SignatureInvalidError(PeerProtocolError):
    """No signature of the card could be verified."""


def wire_name(error: A2AError) -> str:
    """The name by which peers know an error: the class that owns its code, not a subclass of ours."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind in WIRE_ERRORS), type(error).__name__)


WIRE_ERRORS: tuple[type[A2AError], ...] = (
    ParseError,
    InvalidRequestError,
    MethodNotFoundError,
    InvalidParamsError,
    InternalError,
    TaskNotFoundError,
    TaskNotCancelableError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
    ContentTypeNotSupportedError,
    InvalidAgentResponseError,
    ExtendedCardNotConfiguredError,
    ExtensionSupportRequiredError,
    VersionNotSupportedError,
    UnauthenticatedError,
    PermissionDeniedError,
    RateLimitedError,
    UnavailableError,
)
"""Every class that owns a JSON-RPC code."""
