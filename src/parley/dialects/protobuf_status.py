"""Errors on gRPC: the google.rpc.Status of 1.0, the `<ErrorName>: <message>` text of 0.3, and back.

A decoder uses the most precise thing it finds: ErrorInfo's reason, then the name in the text, then the status code. So
the status values of 1.0.0 and 1.0.1 are understood alike. Spec: 1.0 section 10.6; 0.3 as a2a-sdk 0.3 does it.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from parley.dialects.protobuf_pool import ProtoMessage, message_class
from parley.dialects.protobuf_table import Fields
from parley.protocol import errors as e

GRPC_CODES = {
    "OK": 0,
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "DATA_LOSS": 15,
    "UNAUTHENTICATED": 16,
}
"""The numbers of gRPC's status codes, which gRPC itself gives by name."""

_TYPE_PREFIX = "type.googleapis.com/"
_ERROR_INFO = "google.rpc.ErrorInfo"
_BAD_REQUEST = "google.rpc.BadRequest"

_BY_REASON = {error.row.reason: error for error in e.WIRE_ERRORS}

_NAMES_0_3: dict[type[e.A2AError], str] = {
    e.ParseError: "JSONParseError",
    e.ExtendedCardNotConfiguredError: "AuthenticatedExtendedCardNotConfiguredError",
    e.TaskFinishedError: "InvalidParamsError",
}
_BY_NAME = {error.__name__: error for error in e.WIRE_ERRORS} | {
    "JSONParseError": e.ParseError,
    "AuthenticatedExtendedCardNotConfiguredError": e.ExtendedCardNotConfiguredError,
    "ExtendedAgentCardNotConfiguredError": e.ExtendedCardNotConfiguredError,  # a2a-sdk 1.x answering as 0.3
}

# For a peer that sends the code alone. Each code has several errors; these are the most likely.
_BY_CODE: dict[str, type[e.A2AError]] = {
    "INVALID_ARGUMENT": e.InvalidParamsError,
    "NOT_FOUND": e.TaskNotFoundError,
    "FAILED_PRECONDITION": e.UnsupportedOperationError,
    "UNIMPLEMENTED": e.UnsupportedOperationError,
    "INTERNAL": e.InternalError,
    "UNAUTHENTICATED": e.UnauthenticatedError,
    "PERMISSION_DENIED": e.PermissionDeniedError,
    "RESOURCE_EXHAUSTED": e.RateLimitedError,
    "UNAVAILABLE": e.UnavailableError,
}


def encode_status(error: e.A2AError) -> ProtoMessage:
    """The google.rpc.Status of this error in 1.0."""
    info = {"reason": error.row.reason, "domain": e.ERROR_DOMAIN, "metadata": error.details}
    details = [_pack(_ERROR_INFO, info)]
    if error.path:
        violation = {"field": error.path.removeprefix("$").removeprefix("."), "description": error.message}
        details.append(_pack(_BAD_REQUEST, {"field_violations": [violation]}))
    code = GRPC_CODES[error.row.grpc]
    return message_class("google.rpc.Status")(code=code, message=error.message, details=details)


def encode_status_text(error: e.A2AError) -> tuple[str, str]:
    """The status code's name and the text of this error in 0.3.

    A message to a finished task is InvalidParams there: `("INVALID_ARGUMENT", "InvalidParamsError: The task has…")`.
    """
    row = e.InvalidParamsError.row if isinstance(error, e.TaskFinishedError) else error.row
    return row.grpc_0_3, f"{_NAMES_0_3.get(type(error), e.wire_name(error))}: {error}"


def decode_status(code: str, text: str, status: bytes | None = None) -> e.A2AError:
    """The error that a peer of either version reported: the code's name, the text, and the details trailer, if any."""
    details = _unpack(status) if status else {}
    info, bad_request = details.get(_ERROR_INFO), details.get(_BAD_REQUEST)
    error, message = _recognize(code, text, info)
    if error is None:
        return e.UnknownRemoteError(message, code=GRPC_CODES.get(code, GRPC_CODES["UNKNOWN"]), data=code)
    return error(message, path=_decode_path(bad_request), details=dict(info.metadata) if info else None)


def _recognize(code: str, text: str, info: ProtoMessage | None) -> tuple[type[e.A2AError] | None, str]:
    """The class of the error, and its message without the name."""
    if info and info.domain == e.ERROR_DOMAIN and info.reason in _BY_REASON:
        return _BY_REASON[info.reason], text
    name, _, message = text.partition(": ")
    if message and name in _BY_NAME:
        return _BY_NAME[name], message
    quoted = e.quoted(text)
    return _BY_CODE.get(code), f"gRPC status {code}: {quoted}" if quoted else f"gRPC status {code}"


def _decode_path(bad_request: ProtoMessage | None) -> str | None:
    if not bad_request or not bad_request.field_violations:
        return None
    field = bad_request.field_violations[0].field
    return f"$.{field}" if field else "$"


def _pack(full_name: str, fields: Fields) -> Fields:
    """The fields of a google.protobuf.Any."""
    return {"type_url": _TYPE_PREFIX + full_name, "value": message_class(full_name)(**fields).SerializeToString()}


def _unpack(status: bytes) -> dict[str, ProtoMessage]:
    """The known details by full name; none if the trailer is invalid, because the code and the text remain."""
    try:
        details = message_class("google.rpc.Status").FromString(status).details
        known = {detail.type_url.rpartition("/")[2]: detail.value for detail in details}
        return {
            name: message_class(name).FromString(known[name]) for name in (_ERROR_INFO, _BAD_REQUEST) if name in known
        }
    except DecodeError:
        return {}
