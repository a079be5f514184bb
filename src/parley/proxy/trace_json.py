"""Writes requests, replies, events and errors as JSON for a trace, in a dialect and binding, with secrets masked.

The trace shows what the proxy has decoded, encoded again by the codecs that the bindings use. Protobuf messages are
shown in their JSON form.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from parley.dialects import v0_3_protojson, v1_0
from parley.dialects.json_errors import encode_error, encode_rest_error
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import encode_rest_request
from parley.network.urls import text_without_secrets, without_secrets
from parley.protocol import requests as r
from parley.protocol.authorization import without_credential
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, ParleyError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import Message
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.protocol.requests import Request, Result
from parley.protocol.tasks import Task, TaskStatus
from parley.protocol.versions import Version
from parley.wire.rest import build_path, encode_query

if TYPE_CHECKING:
    from parley.dialects.dialect import JsonDialect
    from parley.dialects.protobuf_dialect import ProtobufDialect

MASK = "••••"

SECRET_HEADERS = re.compile(r"authorization|cookie|csrf|token|secret|key|password|signature|credential", re.IGNORECASE)

REST = {Version.V0_3: v0_3_protojson.REST_DIALECT, Version.V1_0: v1_0.REST_DIALECT}

HIDDEN_HEADERS = frozenset({"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "te"})
"""Headers that are not part of the conversation."""


def show_headers(headers: Mapping[str, str], secrets: Container[str] = ()) -> dict[str, str]:
    """Headers that are part of the conversation, with secrets masked; the name of an HTTP scheme is not a secret.

    `secrets` are further headers to mask; all names are in lower case.
    """
    return {
        name: _masked_header(name, value) if name in secrets or SECRET_HEADERS.search(name) else value
        for name, value in headers.items()
        if name not in HIDDEN_HEADERS
    }


def _masked_header(name: str, value: str) -> str:
    scheme, space, _ = value.partition(" ")
    return f"{scheme} {MASK}" if space and name.endswith("authorization") else MASK


def show_request(
    operation: Operation, request: Request, version: Version, binding: Binding | str
) -> tuple[str, JsonValue]:
    """A request: its method, route or rpc, and its parameters."""
    request = _masked_request(request)
    try:
        if binding == Binding.GRPC:
            dialect = _protobuf(version)
            return dialect.rpc(operation).path, _protobuf_json(dialect.encode_request(operation, request))
        if binding == Binding.HTTP_JSON:
            encoded = encode_rest_request(version, operation, request)
            verb, path = build_path(operation, version, parameters=encoded.parameters, tenant=encoded.tenant)
            query = encode_query(encoded.query)
            return f"{verb} {path}{'?' if query else ''}{query}", _json(encoded.body) if encoded.body else None
        parameters = DIALECTS[version].encode_request(operation, request)
        return operation.methods.get(version, operation.name), _json(parameters)
    except ParleyError as error:
        return operation.name, _not_expressible(version, error)


def show_result(operation: Operation, result: Result, version: Version, binding: Binding | str) -> JsonValue:
    """The result in a reply."""
    result = _masked_result(result)
    try:
        if binding == Binding.GRPC:
            return _protobuf_json(_protobuf(version).encode_result(operation, result))
        return _json(_json_dialect(version, binding).encode_result(operation, result))
    except ParleyError as error:
        return _not_expressible(version, error)


def show_event(event: StreamEvent, version: Version, binding: Binding | str) -> JsonValue:
    """An event of a stream. A 0.1 snapshot consists of several frames, which are shown as a list."""
    event = _masked_event(event)
    try:
        if binding == Binding.GRPC:
            return _protobuf_json(_protobuf(version).encode_event(event))
        frames = [_json(frame) for frame in _json_dialect(version, binding).encode_event(event)]
        return frames[0] if len(frames) == 1 else frames
    except ParleyError as error:
        return _not_expressible(version, error)


def show_error(error: BaseException, version: Version, binding: Binding | str) -> JsonValue:
    """An error of A2A or of the connection, with its URLs cut to the server."""
    if not isinstance(error, A2AError):
        shown: JsonValue = f"{type(error).__name__}: {error}"
    elif binding == Binding.GRPC:
        shown = {"code": error.row.grpc if version is Version.V1_0 else error.row.grpc_0_3, "message": str(error)}
    elif binding == Binding.HTTP_JSON:
        shown = _json(encode_rest_error(version, error)[1])
    else:
        shown = _json(encode_error(version, error))
    return _masked_texts(shown)


def _not_expressible(version: Version, error: ParleyError) -> str:
    return f"cannot be expressed in A2A {version}: {error}"


# --- secrets ----------------------------------------------------------------------------------------------------------


def _masked_request(request: Request) -> Request:
    match request:
        case r.SendMessageRequest(message=message, configuration=configuration):
            if configuration.push_config is not None:
                configuration = structs.replace(configuration, push_config=_masked(configuration.push_config))
            return structs.replace(request, message=without_credential(message), configuration=configuration)
        case r.CreatePushConfigRequest():
            return structs.replace(request, config=_masked(request.config))
        case _:
            return request


def _masked_result(result: Result) -> Result:
    match result:
        case PushConfig():
            return _masked(result)
        case r.PushConfigPage():
            return structs.replace(result, configs=tuple(map(_masked, result.configs)))
        case r.TaskPage():
            return structs.replace(result, tasks=tuple(map(_masked_task, result.tasks)))
        case Task():
            return _masked_task(result)
        case Message():
            return without_credential(result)
        case _:
            return result


def _masked_event(event: StreamEvent) -> StreamEvent:
    """An event without the credentials for its task that an agent repeats."""
    match event:
        case Task():
            return _masked_task(event)
        case Message():
            return without_credential(event)
        case StatusUpdate():
            return structs.replace(event, status=_masked_status(event.status))
        case _:
            return event


def _masked_task(task: Task) -> Task:
    history = tuple(map(without_credential, task.history))
    return structs.replace(task, status=_masked_status(task.status), history=history)


def _masked_status(status: TaskStatus) -> TaskStatus:
    return status if status.message is None else structs.replace(status, message=without_credential(status.message))


def _masked(config: PushConfig) -> PushConfig:
    """A webhook without its secrets: of its URL, only the server is left."""
    authentication = config.authentication
    if authentication is not None:
        credentials = authentication.credentials and MASK
        extra = dict.fromkeys(authentication.extra, MASK)
        authentication = structs.replace(authentication, credentials=credentials, extra=extra)
    url, token = without_secrets(config.url), config.token and MASK
    return structs.replace(config, url=url, token=token, authentication=authentication)


def _masked_texts(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return text_without_secrets(value)
        case list():
            return [_masked_texts(item) for item in value]
        case dict():
            return {name: _masked_texts(item) for name, item in value.items()}
        case _:
            return value


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(text: bytes) -> JsonValue:
    return msgspec.json.decode(text)


def _json_dialect(version: Version, binding: Binding | str) -> JsonDialect:
    return REST[version] if binding == Binding.HTTP_JSON else DIALECTS[version]


def _protobuf(version: Version) -> ProtobufDialect:
    # Imported here because the import is slow, and only gRPC needs it.
    from parley.dialects import protobuf_v0_3, protobuf_v1_0

    return protobuf_v1_0.DIALECT if version is Version.V1_0 else protobuf_v0_3.DIALECT


def _protobuf_json(message: object) -> JsonValue:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import Message

    assert isinstance(message, Message)
    return MessageToDict(message)
