"""REST requests: from a path, a query and a body to an operation's request, and back.

`wire.rest` parses request lines; nothing here depends on HTTP. 0.3 has two live shapes of bodies: both are read, and
the dialect that comes back with the request is the one to answer in. Spec: 1.0 section 11, 0.3 section 3.5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from parley.dialects import v0_3, v0_3_protojson, v1_0
from parley.dialects.detect import is_proto_shape
from parley.dialects.dialect import JsonDialect, request_error
from parley.dialects.fields import Fault, parse
from parley.dialects.resource_names import id_in_name
from parley.protocol import operations as ops
from parley.protocol.errors import InvalidParamsError, LocalProtocolError, UnsupportedOperationError
from parley.protocol.json_names import DUPLICATE_NAME, find_repeated_name
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, SendMessageRequest
from parley.protocol.versions import Version

_SENDS = (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE)
_PUSH = (ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG, ops.LIST_PUSH_CONFIGS, ops.DELETE_PUSH_CONFIG)


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request in REST: names for the path, parameters for the query, and a body where the verb has one."""

    parameters: dict[str, str] = field(default_factory=dict[str, str])
    query: dict[str, str | int | bool] = field(default_factory=dict[str, "str | int | bool"])
    body: bytes = b""
    tenant: str | None = None


def _path_members(version: Version, operation: Operation) -> dict[str, str]:
    """Which member of the request each name in the path is."""
    if version is Version.V0_3:
        task = "taskId" if operation is ops.CREATE_PUSH_CONFIG else "id"
        return {"id": task, "config_id": "pushNotificationConfigId"}
    return {"id": "taskId", "config_id": "id"} if operation in _PUSH else {"id": "id"}


# --- for servers ------------------------------------------------------------------------------------------------------


def decode_rest_request(
    version: Version,
    operation: Operation,
    *,
    parameters: Mapping[str, str],
    query: Mapping[str, str | int | bool],
    body: bytes = b"",
    tenant: str | None = None,
) -> tuple[Request, JsonDialect]:
    """The request that a caller sent over REST, and the dialect to answer in.

    Raises:
        InvalidParamsError, ParseError: it is invalid; the path names the member.
        UnsupportedOperationError: the version has no such route.
    """
    if version not in operation.routes:
        raise UnsupportedOperationError(f"A2A {version} has no REST route for {operation.name}")
    if version is Version.V0_3:
        decoded = _decode_0_3(operation, parameters, query, body)
    else:
        decoded = _decode_1_0(operation, parameters, query, body, tenant)
    if body and (path := find_repeated_name(body)) is not None:
        raise InvalidParamsError(DUPLICATE_NAME, path=path)
    return decoded


def _decode_1_0(
    operation: Operation,
    parameters: Mapping[str, str],
    query: Mapping[str, str | int | bool],
    body: bytes,
    tenant: str | None,
) -> tuple[Request, JsonDialect]:
    dialect = v1_0.REST_DIALECT
    if operation in _SENDS:
        request = dialect.decode_request(operation, body)
        assert isinstance(request, SendMessageRequest)
        return (structs.replace(request, tenant=tenant) if tenant else request), dialect
    # Values in the path win over those in the body, as google.api.http has it.
    value: JsonObject = {**query, **_read_body(body), **_read_path(Version.V1_0, operation, parameters)}
    if tenant:
        value["tenant"] = tenant
    return dialect.decode_request_value(operation, value), dialect


def _decode_0_3(
    operation: Operation, parameters: Mapping[str, str], query: Mapping[str, str | int | bool], body: bytes
) -> tuple[Request, JsonDialect]:
    if operation in _SENDS:
        dialect = v0_3_protojson.REST_DIALECT if is_proto_shape(_parse_body(body)) else v0_3.REST_DIALECT
        return dialect.decode_request(operation, body), dialect
    names = _read_path(Version.V0_3, operation, parameters)
    if operation is ops.CREATE_PUSH_CONFIG:
        config, dialect = _find_push_config(_read_body(body))
        return v0_3.REST_DIALECT.decode_request_value(operation, {"pushNotificationConfig": config, **names}), dialect
    request = v0_3.REST_DIALECT.decode_request_value(operation, {**query, **names})
    return request, v0_3_protojson.REST_DIALECT


def _find_push_config(body: JsonObject) -> tuple[JsonValue, JsonDialect]:
    """The webhook in any of the bodies that peers send.

    They are ProtoJSON's `{parent, configId, config: {name, pushNotificationConfig}}`, which a2a-sdk 1.x writes in
    snake_case, the text's `{config: {…}}`, and a bare config, with or without its task around it.
    """
    inner = body.get("config", body)
    if not isinstance(inner, dict):
        raise InvalidParamsError("Expected `object`", path="$.config")
    config = inner.get("pushNotificationConfig", inner.get("push_notification_config", inner))
    name = inner.get("name")
    config_id = body.get("configId") or body.get("config_id")
    if config_id in (None, "None") and isinstance(name, str):
        config_id = id_in_name(name)
    if isinstance(config, dict) and config_id and not config.get("id"):
        config = {**config, "id": config_id}
    is_core = "taskId" in inner or "url" in inner
    return config, v0_3.REST_DIALECT if is_core else v0_3_protojson.REST_DIALECT


def _read_path(version: Version, operation: Operation, parameters: Mapping[str, str]) -> JsonObject:
    members = _path_members(version, operation)
    return {members[name]: value for name, value in parameters.items()}


def _read_body(body: bytes) -> JsonObject:
    """A body that may be empty, as that of a cancellation."""
    value = _parse_body(body) if body else {}
    if not isinstance(value, dict):
        raise InvalidParamsError("Expected `object`", path="$")
    return value


def _parse_body(body: bytes) -> JsonValue:
    try:
        return parse(body)
    except Fault as fault:
        raise request_error(fault) from None


# --- for clients ------------------------------------------------------------------------------------------------------


def encode_rest_request(version: Version, operation: Operation, request: Request) -> RestRequest:
    """The REST form of a request; for 0.3 in the shape that SDKs understand.

    Raises:
        LocalProtocolError: the version has no such route, or the request lacks something that it requires.
    """
    if version not in operation.routes:
        raise LocalProtocolError(f"A2A {version} has no REST route for {operation.name}")
    dialect = v1_0.REST_DIALECT if version is Version.V1_0 else v0_3_protojson.REST_DIALECT
    tenant = getattr(request, "tenant", None) if version is Version.V1_0 else None
    encoded = dialect.encode_request(operation, request)
    if operation in _SENDS:
        return RestRequest(body=encoded, tenant=tenant)
    if version is Version.V0_3 and operation is ops.CREATE_PUSH_CONFIG:
        return RestRequest({"id": getattr(request, "task_id", "")}, body=encoded)
    members: JsonObject = msgspec.json.decode(encoded)
    names = {v: k for k, v in _path_members(version, operation).items() if f"{{{k}}}" in operation.routes[version].path}
    # A webhook that was registered without an id is known by its task's.
    task_id = getattr(request, "task_id", "")
    parameters = {name: str(members.pop(member, task_id)) for member, name in names.items()}
    members.pop("tenant", None)
    if operation.routes[version].verbs[0] == "POST":
        return RestRequest(parameters, body=msgspec.json.encode(members), tenant=tenant)
    allowed = operation.routes[version].query
    query = {k: v for k, v in members.items() if k in allowed and isinstance(v, str | int | bool)}
    return RestRequest(parameters, query, tenant=tenant)
