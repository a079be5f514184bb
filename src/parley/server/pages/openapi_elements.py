"""The elements of an OpenAPI document: parameters, bodies, replies, errors and the paths of pages."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from parley.dialects.json_errors import encode_error
from parley.protocol import errors as e
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.versions import Version
from parley.server.bindings.jsonrpc import HTTP_LEVEL_STATUSES
from parley.server.pages.sample_requests import SAMPLE_TASK_ID
from parley.server.pages.wire_schemas import object_of, ref

JSON = "application/json"
A2A_JSON = "application/a2a+json"
EVENT_STREAM = "text/event-stream"


def rest_tag(version: Version) -> str:
    """The tag of the REST operations of a version."""
    return f"HTTP+JSON, A2A {version}"


def tags() -> list[JsonValue]:
    """All tags, in the order of the document."""
    rest = [rest_tag(version) for version in (Version.V1_0, Version.V0_3)]
    return [{"name": name} for name in (*rest, "JSON-RPC", "Cards", "About")]


def parameter(name: str, location: str, schema: JsonObject, about: str = "", *, required: bool = False) -> JsonObject:
    """A parameter; one in the path is always required."""
    found: JsonObject = {"name": name, "in": location, "required": required or location == "path", "schema": schema}
    return found | ({"description": about} if about else {})


def json_body(schema: JsonObject, example: JsonObject, *, is_required: bool = True) -> JsonObject:
    """A JSON body; the server accepts `application/a2a+json` as well."""
    return {"required": is_required, "content": {JSON: {"schema": schema, "example": example}}}


def any_of(schemas: list[JsonObject]) -> JsonObject:
    """The schema of values that match one of these."""
    distinct = [schema for number, schema in enumerate(schemas) if schema not in schemas[:number]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": [*distinct]}


def json_reply(about: str, schema: JsonObject) -> JsonObject:
    """A JSON reply."""
    return {"description": about, "content": {JSON: {"schema": schema}}}


def event_stream(frames: list[JsonObject], *, wrapped: bool = False) -> JsonObject:
    """A reply with server-sent events. The schema is that of one event, whose data is JSON."""
    data = any_of(frames)
    if wrapped:
        data = any_of([rpc_envelope("result", data), ref("jsonrpc.Error")])
    members: JsonObject = {
        "id": {"type": "string", "description": "The number of the event, to resume after it with `Last-Event-ID`."},
        "event": {"type": "string", "description": "`error` if the stream was cut off."},
        "data": {"type": "string", "contentMediaType": JSON, "contentSchema": data},
    }
    schema: JsonObject = {"type": "object", "properties": members, "required": ["data"]}
    return {"description": "The events of the task.", "content": {EVENT_STREAM: {"schema": schema}}}


def rpc_envelope(member: str, schema: JsonObject) -> JsonObject:
    """A JSON-RPC response with a `result` or an `error`."""
    return {
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "number", "null"]}, member: schema},
        "required": ["jsonrpc", "id", member],
    }


def with_parts_in(schema: JsonObject, member: str) -> JsonObject:
    """A send of 0.3 whose message has its parts in this member, which distinguishes the two forms of 0.3."""
    other = {"parts": "content", "content": "parts"}[member]
    shape: JsonObject = {"type": "object", "required": [member], "not": {"required": [other]}}
    return {"allOf": [schema, {"required": ["message"], "properties": {"message": shape}}]}


def wrapped_config(config: JsonObject) -> JsonObject:
    """The body of SDKs: `{config: {pushNotificationConfig: {…}}}`."""
    text: JsonObject = {"type": "string"}
    inner = object_of({"pushNotificationConfig": config, "name": text}, ["pushNotificationConfig"])
    return object_of({"config": inner, "configId": text, "parent": text}, ["config"])


def error_reply(status: int, about: str, schema: JsonObject) -> JsonObject:
    """A reply with an error, and the header that belongs to its status."""
    reply = json_reply(f"{HTTPStatus(status).phrase}.\n\n{about}", schema)
    names = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}
    if status in names:
        reply["headers"] = {names[status]: {"schema": {"type": "string"}}}
    return reply


def rpc_failures() -> JsonObject:
    """The replies to JSON-RPC whose HTTP status is not 200."""
    failures: JsonObject = {
        str(status): error_reply(status, "The body is a JSON-RPC error.", ref("jsonrpc.Error"))
        for status in sorted(HTTP_LEVEL_STATUSES)
    }
    failures["503"] = error_reply(503, "The server is not running.", ref("v1_0.Error"))
    return failures


def error_schemas() -> JsonObject:
    """The schemas of errors in REST and JSON-RPC."""
    code: JsonObject = {"type": "integer"}
    text: JsonObject = {"type": "string"}
    details: JsonObject = {"type": "array", "items": {"type": "object", "required": ["@type"]}}
    status: JsonObject = {
        "type": "object",
        "properties": {"code": code, "status": text, "message": text, "details": details},
        "required": ["code", "status", "message", "details"],
    }
    report: JsonObject = {
        "type": "object",
        "properties": {"code": code, "message": text, "data": {"type": ["array", "object"]}},
        "required": ["code", "message"],
        "example": msgspec.json.decode(encode_error(Version.V1_0, e.TaskNotFoundError.for_task(SAMPLE_TASK_ID))),
    }
    newer: JsonObject = {"type": "object", "properties": {"error": status}, "required": ["error"]}
    older: JsonObject = {
        "type": "object",
        "properties": {"message": text, "error": status},
        "required": ["message", "error"],
    }
    return {
        "v1_0.Error": newer,
        "v0_3.Error": older,
        "jsonrpc.Error": rpc_envelope("error", report),
    }


_PAGE: JsonObject = {"description": "The page.", "content": {"text/html": {"schema": {"type": "string"}}}}


def public_get(name: str, about: str, tag: str, responses: JsonObject, parameters: list[JsonValue]) -> JsonObject:
    """A GET that needs no credentials."""
    return {
        "operationId": name,
        "summary": about,
        "tags": [tag],
        "security": [],
        "parameters": parameters,
        "responses": responses,
    }


def root_get() -> JsonObject:
    """A GET of the agent's URL, which shows the documentation page in a browser."""
    responses: JsonObject = {"200": _PAGE, "404": error_reply(404, "Not a browser.", ref("v1_0.Error"))}
    return public_get("get_root", "Read about the agent, with a browser.", "About", responses, [])


def page_paths() -> JsonObject:
    """The paths of this document and of the documentation page."""
    document: JsonObject = {"200": json_reply("The document.", {"type": "object"})}
    return {
        "/openapi.json": {"get": public_get("get_openapi", "Read this document.", "About", document, [])},
        "/docs": {"get": public_get("get_docs", "Read about the agent.", "About", {"200": _PAGE}, [])},
    }
