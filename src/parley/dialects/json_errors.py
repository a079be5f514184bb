"""Errors in JSON: the `error` object of JSON-RPC and the error bodies of REST, in every dialect.

An error keeps its code everywhere except where a release has no such code, or gives the number another meaning: those
are in `_CODES`. Decoders use the ErrorInfo reason first, then the code, then the text, then the HTTP status, and
understand the statuses of 1.0.0 and 1.0.1. Spec: 1.0.1 sections 5.4, 9.5 and 11.6; 0.3 section 8; 0.1 error codes.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from parley.dialects.fields import Fault, Reader, parse
from parley.protocol import errors as e
from parley.protocol.errors import A2AError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.versions import Version

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"

_CODES: dict[Version, dict[type[A2AError], int]] = {
    Version.V0_1: {
        e.TaskFinishedError: e.UnsupportedOperationError.row.code,
        # 0.1 gives these numbers other meanings; what it does not have becomes the general case.
        e.InvalidAgentResponseError: e.InternalError.row.code,
        e.ExtendedCardNotConfiguredError: e.UnsupportedOperationError.row.code,
        e.ExtensionSupportRequiredError: e.InvalidRequestError.row.code,
        e.VersionNotSupportedError: e.InvalidRequestError.row.code,
        e.UnauthenticatedError: -32007,
        e.PermissionDeniedError: -32008,
        e.RateLimitedError: -32010,
        e.UnavailableError: -32011,
    },
    Version.V0_2: {e.TaskFinishedError: e.InvalidParamsError.row.code},
    Version.V0_3: {e.TaskFinishedError: e.InvalidParamsError.row.code},
    Version.V1_0: {},
}

_BY_REASON = {error.row.reason: error for error in e.WIRE_ERRORS}
_BY_CODE = {error.row.code: error for error in e.WIRE_ERRORS}
_BY_CODE_0_1 = _BY_CODE | {
    -32006: e.UnsupportedOperationError,  # streaming not supported
    -32007: e.UnauthenticatedError,
    -32008: e.PermissionDeniedError,
    -32009: e.UnsupportedOperationError,  # invalid task state
    -32010: e.RateLimitedError,
    -32011: e.UnavailableError,
}
_BY_TEXT = {error().message: error for error in e.WIRE_ERRORS}
_BY_HTTP: dict[int, type[A2AError]] = {
    400: e.InvalidRequestError,
    401: e.UnauthenticatedError,
    403: e.PermissionDeniedError,
    404: e.TaskNotFoundError,
    405: e.MethodNotFoundError,
    409: e.TaskNotCancelableError,
    415: e.ContentTypeNotSupportedError,
    422: e.InvalidParamsError,
    429: e.RateLimitedError,
    500: e.InternalError,
    501: e.UnsupportedOperationError,
    502: e.InvalidAgentResponseError,
    503: e.UnavailableError,
}


def code_of(version: Version, error: A2AError) -> int:
    """The JSON-RPC code of an error in a version; a peer's own code is passed on if it is a JSON-RPC code.

    JSON-RPC codes are the numbers from -32000 down; an HTTP or gRPC status is not one of them.
    """
    if isinstance(error, e.UnknownRemoteError):
        return error.code if error.code <= -32000 else e.InternalError.row.code
    return _CODES[version].get(type(error), error.row.code)


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


class _RpcError(Struct):
    code: int
    message: str = ""
    data: JsonValue = None


_rpc_errors = Reader(_RpcError)


def encode_error(version: Version, error: A2AError) -> bytes:
    """The `error` member of a JSON-RPC response."""
    data = _details(error) if version is Version.V1_0 else _facts(error)
    return msgspec.json.encode({"code": code_of(version, error), "message": str(error), "data": data})


def decode_error(version: Version, raw: bytes) -> A2AError:
    """The error that a peer's JSON-RPC response reports.

    Raises:
        PeerProtocolError: the member is not a JSON-RPC error.
    """
    try:
        wire = _rpc_errors.read(raw)
    except Fault as fault:
        raise e.PeerProtocolError(f"Invalid JSON-RPC error: {fault.reason}", path=fault.path) from None
    codes = _BY_CODE_0_1 if version is Version.V0_1 else _BY_CODE
    data = wire.data
    details: list[JsonValue] = data if isinstance(data, list) else [_as_detail(data)]
    return _make(wire.message, details, codes.get(wire.code), fallback_code=wire.code, data=data)


# --- REST -------------------------------------------------------------------------------------------------------------


def encode_rest_error(version: Version, error: A2AError) -> tuple[int, bytes]:
    """The HTTP status and body; in 0.3 the body has all forms in use: a bare message, `type`, `code`, and Status."""
    is_0_3 = version is Version.V0_3
    status = error.row.http_0_3 if is_0_3 else error.row.http
    grpc_status = error.row.grpc_0_3 if is_0_3 else error.row.grpc
    if is_0_3 and isinstance(error, e.TaskFinishedError):
        status, grpc_status = e.InvalidParamsError.row.http_0_3, e.InvalidParamsError.row.grpc_0_3
    body = {"error": {"code": status, "status": grpc_status, "message": str(error), "details": _details(error)}}
    if not is_0_3:
        return status, msgspec.json.encode(body)
    # 0.3 does not define the form: a2a-sdk 0.3 reads the message, a2a-sdk 1.x the type, @a2a-js/sdk the code.
    facts = {"message": str(error), "type": e.wire_name(error), "code": code_of(version, error)}
    return status, msgspec.json.encode({**facts, **body})


def decode_rest_error(status: int, body: bytes, *, phrase: str = "") -> A2AError:
    """The error that an HTTP response reports. Its body may be a Status, problem details, a message, or empty.

    What is not an error of A2A, such as a gateway's page, is reported with the status, its `phrase` and the text.
    A stream that fails reports it in a frame (`event: error`) after an HTTP status 200; there the body's code counts.
    """
    try:
        value = parse(body)
    except Fault:
        value = None
    outer: JsonObject = value if isinstance(value, dict) else {}
    inner = outer.get("error")
    report: JsonObject = inner if isinstance(inner, dict) else outer
    code = report.get("code")
    if status < 400 and type(code) is int:  # true would be 1
        status = code
    texts = [report.get(name) for name in ("message", "detail", "title", "error_description", "error")]
    message = next((text for text in texts if isinstance(text, str) and text), "")
    details = report.get("details")
    by_text = _BY_TEXT.get(message)
    if not message or not (by_text or _is_a2a(report)):
        message = http_text(status, message or body, phrase=phrase)
    return _make(
        message,
        details if isinstance(details, list) else [report],
        by_text or _BY_HTTP.get(status),
        fallback_code=status,
        data=value,
    )


def _is_a2a(report: JsonObject) -> bool:
    """Whether a body is an error of A2A: a google.rpc.Status, an error of 0.3 with its code, or problem details."""
    about = report.get("type")
    has_facts = type(report.get("code")) is int or isinstance(report.get("details"), list)
    return has_facts or (isinstance(about, str) and e.ERROR_DOMAIN in about)


def http_text(status: int, body: bytes | str, *, phrase: str = "") -> str:
    """The answer of a server that is not A2A: `HTTP status 502 Bad Gateway: <html>…`."""
    head = f"HTTP status {status} {phrase}".rstrip()
    text = e.quoted(body)
    return head if text in ("", phrase) else f"{head}: {text}"


# --- details ----------------------------------------------------------------------------------------------------------


def _details(error: A2AError) -> list[JsonObject]:
    """What 1.0 attaches to an error: ErrorInfo always, BadRequest when a member is at fault."""
    info: JsonObject = {"@type": ERROR_INFO, "reason": error.row.reason, "domain": e.ERROR_DOMAIN}
    if error.details:
        info["metadata"] = dict(error.details)
    if not error.path:
        return [info]
    violation: JsonObject = {"field": error.path.removeprefix("$").removeprefix("."), "description": error.message}
    return [info, {"@type": BAD_REQUEST, "fieldViolations": [violation]}]


def _facts(error: A2AError) -> JsonObject:
    """What earlier dialects get as `data`, which they leave to the server."""
    path: JsonObject = {"path": error.path} if error.path else {}
    return {"reason": error.row.reason, **path, **error.details}


def _as_detail(facts: JsonValue) -> JsonValue:
    """What `_facts` wrote, in the form that 1.0 gives to a detail."""
    if not isinstance(facts, dict):
        return None
    return {**facts, "metadata": {name: fact for name, fact in facts.items() if name not in ("reason", "path")}}


def _make(
    message: str, details: list[JsonValue], by_code: type[A2AError] | None, *, fallback_code: int, data: JsonValue
) -> A2AError:
    """The error that the reason or code names, with the facts in the details."""
    reason, path, facts = None, None, dict[str, str]()
    for detail in details:
        if not isinstance(detail, dict):
            continue
        # A reason of another domain is not ours. What `_facts` wrote has no domain, nor have the details of some peers.
        if detail.get("domain", e.ERROR_DOMAIN) == e.ERROR_DOMAIN:
            reason = reason or detail.get("reason")
        path = path or _read_path(detail)
        metadata = detail.get("metadata")
        facts.update({k: v for k, v in (metadata if isinstance(metadata, dict) else {}).items() if isinstance(v, str)})
    error = (_BY_REASON.get(reason) if isinstance(reason, str) else None) or by_code
    if error is None:
        return e.UnknownRemoteError(message, code=fallback_code, data=data)
    # Our own texts repeat the path at their end; keep it in one place.
    return error(message.removesuffix(f" (at {path})") or None, path=path, details=facts)


def _read_path(detail: JsonObject) -> str | None:
    violations = detail.get("fieldViolations")
    first = violations[0] if isinstance(violations, list) and violations else None
    given = first.get("field") if isinstance(first, dict) else detail.get("path")
    if not isinstance(given, str) or not given:
        return None
    return given if given.startswith("$") else f"$.{given}"
