"""The OpenAPI 3.1 document of one agent: every HTTP route that it is served under, and every JSON-RPC method.

It is made from the operation table, the error table and the wire structs of the dialects, and its examples are written
by the dialects, so that it cannot say anything else than the server does. What the card does not offer is left out.
Schemas of requests are as tolerant as the readers, those of replies exact (see `wire_schemas`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from parley.dialects import v0_2, v0_3, v0_3_protojson, v1_0
from parley.dialects.dialect import JsonDialect
from parley.dialects.json_errors import encode_error, encode_rest_error
from parley.dialects.registry import DIALECTS
from parley.protocol import errors as e
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard
from parley.protocol.errors import A2AError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import OPERATIONS, Needs, Operation, Route, routes_of
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.bindings.http import BodyTooLargeError, MediaTypeError
from parley.server.bindings.jsonrpc import HTTP_LEVEL_STATUSES
from parley.server.pages.security_schemes import encode_requirements, encode_schemes
from parley.server.pages.wire_schemas import JSON_VALUE, NULL, Schemas, any_json, object_of, ref
from parley.wire.rest import RESERVED_TENANTS, MethodNotAllowedError

OPENAPI_VERSION = "3.1.0"
JSON = "application/json"
A2A_JSON = "application/a2a+json"
EVENT_STREAM = "text/event-stream"

SAMPLE_TASK_ID = "task-1"
"""The task that the examples speak of."""
SAMPLE_CONFIG_ID = "webhook-1"
"""The webhook that the examples speak of."""

ALL_VERSIONS: tuple[Version, ...] = tuple(Version)

_SENDS = (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE)
_PREFIXES = {Version.V0_1: "v0_1", Version.V0_2: "v0_2", Version.V0_3: "v0_3", Version.V1_0: "v1_0"}


def document(card: AgentCard, *, base_url: str, versions: Collection[Version] = ALL_VERSIONS) -> bytes:
    """The document as JSON, for an agent that is reached at this URL in these versions."""
    return msgspec.json.encode(_Writer(card, [version for version in Version if version in versions]).write(base_url))


class _Writer:
    """Collects the components while the paths are written."""

    def __init__(self, card: AgentCard, versions: list[Version]) -> None:
        self._card = card
        self._versions = versions
        self._components: JsonObject = {JSON_VALUE: any_json()}
        self._responses: JsonObject = {}
        self._schemas = {version: Schemas(_PREFIXES[version], self._components) for version in versions}
        self._proto_schemas = Schemas("v0_3_protojson", self._components)
        self._samples = _Samples(card)

    def write(self, base_url: str) -> JsonObject:
        card = self._card
        paths: JsonObject = {}
        for version in (Version.V1_0, Version.V0_3):
            if version in self._versions:
                self._add_rest(paths, version)
        paths["/"] = {"post": self._jsonrpc(), "get": _front()}
        paths |= self._cards() | _pages()
        return {
            "openapi": OPENAPI_VERSION,
            "info": {"title": card.name, "description": card.description, "version": card.version or "0"},
            "servers": [{"url": base_url.rstrip("/") or "/"}],
            "tags": _tags(self._versions),
            "security": encode_requirements(card.security),
            "paths": paths,
            "components": {
                "schemas": self._components | _error_schemas(),
                "responses": self._responses,
                "securitySchemes": encode_schemes(card.security_schemes),
            },
        }

    # --- REST ---------------------------------------------------------------------------------------------------------

    def _add_rest(self, paths: JsonObject, version: Version) -> None:
        prefixes = ("", "/{tenant}") if version is Version.V1_0 else ("",)
        for prefix in prefixes:
            for route, operation in routes_of(version):
                for verb in route.verbs if _offers(self._card, operation) else ():
                    item: Any = paths.setdefault(prefix + route.path, {})
                    item[verb.lower()] = self._rest_operation(version, operation, verb, with_tenant=bool(prefix))

    def _rest_operation(self, version: Version, operation: Operation, verb: str, *, with_tenant: bool) -> JsonObject:
        route = operation.routes[version]
        suffixes = [
            *(["of_tenant"] if with_tenant else []),
            *(["by", verb.lower()] if verb != route.verbs[0] else []),
            *(["0_3"] if version is Version.V0_3 else []),
        ]
        described: JsonObject = {
            "operationId": "_".join([operation.verb, *suffixes]),
            "summary": operation.summary,
            "tags": [_rest_tag(version)],
            "parameters": self._parameters(version, operation, route, with_tenant=with_tenant),
        }
        body = self._rest_body(version, operation) if verb == "POST" else None
        if body is not None:
            described["requestBody"] = body
        described["responses"] = {"200": self._rest_reply(version, operation), **self._errors(version, operation)}
        return described

    def _parameters(
        self, version: Version, operation: Operation, route: Route, *, with_tenant: bool
    ) -> list[JsonValue]:
        reader = self._dialect(version).requests[operation.name].reader
        names = [name for name in ("id", "config_id") if f"{{{name}}}" in route.path]
        parameters: list[JsonValue] = []
        if with_tenant:
            about = f"Whose agent it is, where one server has many; never {' or '.join(sorted(RESERVED_TENANTS))}."
            parameters.append(_parameter("tenant", "path", {"type": "string", "minLength": 1}, about))
        parameters.extend(
            _parameter(name, "path", {"type": "string", "minLength": 1}, _PATH_NAMES[name]) for name in names
        )
        schemas = self._schemas[version]
        parameters.extend(_parameter(name, "query", schemas.of_query(reader, name)) for name in route.query)
        return [*parameters, *self._headers([version], operation)]

    def _headers(self, versions: list[Version], operation: Operation | None) -> list[JsonValue]:
        version: JsonObject = {"enum": [*versions, ""]}
        demanded = [extension.uri for extension in self._card.capabilities.extensions if extension.required]
        uris = ", ".join(extension.uri for extension in self._card.capabilities.extensions)
        extensions: JsonObject = {"enum": [", ".join(demanded)]} if demanded else {"type": "string"}
        headers = [
            _parameter("A2A-Version", "header", version, _VERSION),
            _parameter(
                "A2A-Extensions" if versions[-1] is Version.V1_0 else "X-A2A-Extensions",
                "header",
                extensions,
                f"The extensions to activate, separated by commas. The agent knows: {uris or 'none'}.",
                required=bool(demanded),
            ),
        ]
        if operation is None or operation.streams:
            number: JsonObject = {"type": "string", "pattern": "^[0-9]{0,15}$"}
            about = "The id of the last event that the caller has, to go on after it."
            headers.append(_parameter("Last-Event-ID", "header", number, about))
        return [*headers]

    def _rest_body(self, version: Version, operation: Operation) -> JsonObject | None:
        if version is Version.V0_3:
            return self._rest_body_0_3(operation)
        codec = v1_0.REST_DIALECT.requests[operation.name]
        schema = self._schemas[version].of_request(codec.reader)
        sample = self._samples.request(v1_0.REST_DIALECT, operation)
        if operation in _SENDS:
            return _body(schema, sample)
        # What stands in the path needs not be repeated, and is not looked at.
        given = "taskId" if operation is ops.CREATE_PUSH_CONFIG else "id"
        name = str(schema["$ref"]).rsplit("/", 1)[1]
        whole: Any = self._components[name]
        required = [key for key in whole["required"] if key != given]
        properties: JsonObject = {key: value for key, value in whole["properties"].items() if key != given}
        body = object_of(properties, required)
        sample.pop(given, None)
        return _body(body, sample, is_required=bool(required))

    def _rest_body_0_3(self, operation: Operation) -> JsonObject | None:
        if operation in _SENDS:
            text = self._schemas[Version.V0_3].of_request(v0_3.REST_DIALECT.requests[operation.name].reader)
            proto = self._proto_schemas.of_request(v0_3_protojson.REST_DIALECT.requests[operation.name].reader)
            sample = self._samples.request(v0_3.REST_DIALECT, operation)
            return _body({"anyOf": [_of_shape(text, "parts"), _of_shape(proto, "content")]}, sample)
        if operation is not ops.CREATE_PUSH_CONFIG:
            return None  # what a body says beside the path is not looked at
        self._schemas[Version.V0_3].of_request(v0_3.TASK_PUSH_CONFIG.reader)
        config = ref("v0_3.PushConfigInput")
        wrapped = object_of({"config": config}, ["config"])
        sample = self._samples.request(v0_3.REST_DIALECT, operation)
        sample.pop("taskId", None)
        return _body({"anyOf": [_wrapped_config(config), wrapped]}, {"config": sample["pushNotificationConfig"]})

    def _rest_reply(self, version: Version, operation: Operation) -> JsonObject:
        shapes = [(self._schemas[version], self._dialect(version))]
        if version is Version.V0_3:
            shapes.append((self._proto_schemas, v0_3_protojson.REST_DIALECT))
        if operation.streams:
            frames = [schemas.of_reply(dialect.events.reader) for schemas, dialect in shapes]
            return _stream([*frames, ref(f"{_PREFIXES[version]}.Error")])
        if operation is ops.DELETE_PUSH_CONFIG:
            schema: JsonObject = {"type": "object", "maxProperties": 0}
        else:
            schema = _any_of([schemas.of_reply(dialect.results[operation.name].reader) for schemas, dialect in shapes])
        content_type = A2A_JSON if version is Version.V1_0 else JSON
        return {"description": operation.summary, "content": {content_type: {"schema": schema}}}

    def _dialect(self, version: Version) -> JsonDialect:
        return v1_0.REST_DIALECT if version is Version.V1_0 else v0_3.REST_DIALECT

    def _errors(self, version: Version, operation: Operation) -> JsonObject:
        by_status: dict[int, list[A2AError]] = {}
        for error in _errors_of(operation):
            by_status.setdefault(encode_rest_error(version, error)[0], []).append(error)
        responses: JsonObject = {}
        for status, errors in sorted(by_status.items()):
            reasons = dict.fromkeys(f"`{error.row.reason}`: {error.message}." for error in errors)
            failure = _failure(status, "\n".join(reasons), ref(f"{_PREFIXES[version]}.Error"))
            responses[str(status)] = self._share(f"{_PREFIXES[version]}.{status}", failure)
        return responses

    def _share(self, name: str, response: JsonObject) -> JsonObject:
        """A reference to a response that many operations have; the name gets a number where there are several."""
        number = 1
        while self._responses.setdefault(numbered := f"{name}.{number}", response) != response:
            number += 1
        return {"$ref": f"#/components/responses/{numbered}"}

    # --- JSON-RPC -----------------------------------------------------------------------------------------------------

    def _jsonrpc(self) -> JsonObject:
        methods = self._methods()
        requests = {method: f"jsonrpc.{method.replace('/', '.')}.request" for method in methods}
        replies: list[JsonObject] = []
        examples: JsonObject = {}
        for method, (operation, versions) in methods.items():
            self._components[requests[method]] = self._rpc_request(method, operation, versions)
            if not operation.streams:
                name = f"jsonrpc.{method.replace('/', '.')}.response"
                self._components[name] = self._rpc_reply(operation, versions)
                replies.append(ref(name))
            sample = self._samples.request(DIALECTS[versions[-1]], operation)
            call: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sample}
            about = f"{operation.summary} A2A {' and '.join(versions)}."
            examples[method] = {"summary": about, "value": call}
        bodies: JsonObject = {
            "anyOf": [ref(name) for name in requests.values()],
            "discriminator": {
                "propertyName": "method",
                "mapping": {method: str(ref(name)["$ref"]) for method, name in requests.items()},
            },
        }
        frames = [
            self._schemas[version].of_reply(DIALECTS[version].events.reader)
            for version in self._versions
            if _offers(self._card, ops.SEND_STREAMING_MESSAGE)
        ]
        ok = _json_reply("The result, or why there is none.", {"anyOf": [ref("jsonrpc.Error"), *replies]})
        if frames:
            content: Any = ok["content"]
            content |= _stream(frames, wrapped=True)["content"]
        return {
            "operationId": "call",
            "summary": "Call a method of JSON-RPC.",
            "description": "The method's name tells the version; `A2A-Version` does where several have it.",
            "tags": ["JSON-RPC"],
            "parameters": self._headers(self._versions, None),
            "requestBody": {
                "required": True,
                "content": {JSON: {"schema": bodies, "examples": examples}},
            },
            "responses": {"200": ok, **_rpc_failures()},
        }

    def _methods(self) -> dict[str, tuple[Operation, list[Version]]]:
        methods: dict[str, tuple[Operation, list[Version]]] = {}
        for operation in OPERATIONS:
            for version in self._versions:
                if version in operation.methods and _offers(self._card, operation):
                    methods.setdefault(operation.methods[version], (operation, []))[1].append(version)
        return methods

    def _rpc_request(self, method: str, operation: Operation, versions: list[Version]) -> JsonObject:
        found: list[JsonObject] = []
        for version in versions:
            if not (version is Version.V0_2 and Version.V0_3 in versions):  # they read the same
                found.append(self._schemas[version].of_request(DIALECTS[version].requests[operation.name].reader))
        takes_nothing = all(not self._resolve(schema).get("required") for schema in found)
        params = _any_of([*found, *([NULL] if takes_nothing else [])])
        return {
            "type": "object",
            "description": operation.summary,
            "properties": {
                "jsonrpc": {"const": "2.0"},
                "id": {"type": ["string", "number", "null"]},
                "method": {"const": method},
                "params": params,
            },
            "required": [
                *([] if versions == [Version.V0_1] else ["jsonrpc"]),  # callers of 0.1 may leave it out
                "method",
                *([] if takes_nothing else ["params"]),
            ],
        }

    def _resolve(self, schema: JsonObject) -> JsonObject:
        found = self._components[str(schema["$ref"]).rsplit("/", 1)[1]]
        assert isinstance(found, dict)
        return found

    def _rpc_reply(self, operation: Operation, versions: list[Version]) -> JsonObject:
        result: JsonObject = NULL
        if operation is not ops.DELETE_PUSH_CONFIG:
            result = _any_of(
                [
                    self._schemas[version].of_reply(DIALECTS[version].results[operation.name].reader)
                    for version in versions
                    if not (version is Version.V0_2 and Version.V0_3 in versions)
                ]
            )
        return _envelope("result", result)

    # --- cards --------------------------------------------------------------------------------------------------------

    def _cards(self) -> JsonObject:
        newest = [version for version in (Version.V1_0, Version.V0_3, Version.V0_1) if version in self._versions]
        shapes = [self._schemas[version].of_reply(DIALECTS[version].cards.reader) for version in newest]
        older = Schemas("v0_2", self._components).of_reply(v0_2.CARDS.reader)
        version = self._headers(list(Version), None)[0]
        unchanged: JsonObject = {"description": "The card is still the one that the caller has."}
        tag = _parameter("If-None-Match", "header", {"type": "string"}, "The `ETag` of a card that the caller has.")
        since = _parameter("If-Modified-Since", "header", {"type": "string"}, "Its `Last-Modified`, without an `ETag`.")
        refused = _failure(400, "`VERSION_NOT_SUPPORTED`", ref("v1_0.Error"))
        routes: JsonObject = {}
        for path, name, schema, about in (
            ("/.well-known/agent-card.json", "get_card", _any_of(shapes), "Read the card, in the version asked for."),
            ("/.well-known/agent.json", "get_card_0_2", _any_of([older, *shapes]), "Read the card as A2A 0.2 has it."),
        ):
            reply = _json_reply("The card.", schema)
            names = ("ETag", "Last-Modified", "Cache-Control")
            reply["headers"] = {name: {"schema": {"type": "string"}} for name in names}
            routes[path] = {
                "get": {
                    "operationId": name,
                    "summary": about,
                    "tags": ["Cards"],
                    "security": [],
                    "parameters": [version, tag, since],
                    "responses": {"200": reply, "304": unchanged, "400": refused},
                }
            }
        if self._card.capabilities.extended_card:
            routes["/agent/authenticatedExtendedCard"] = {"get": self._extended_card(version)}
        return routes

    def _extended_card(self, version: JsonValue) -> JsonObject:
        """The page that A2A 0.2 has instead of a method."""
        newest = [known for known in (Version.V1_0, Version.V0_3, Version.V0_1) if known in self._versions]
        shapes = [self._schemas[known].of_reply(DIALECTS[known].cards.reader) for known in newest]
        return {
            "operationId": "get_extended_card_0_2",
            "summary": "Read the card that only authenticated callers see, as A2A 0.2 does.",
            "tags": ["Cards"],
            "parameters": [version],
            "responses": {
                "200": _json_reply("The card.", _any_of(shapes)),
                **self._errors(Version.V1_0, ops.GET_EXTENDED_CARD),
            },
        }


# --- what is offered --------------------------------------------------------------------------------------------------


def _offers(card: AgentCard, operation: Operation) -> bool:
    return operation.needs is Needs.NOTHING or bool(getattr(card.capabilities, operation.needs.value))


_ALWAYS: tuple[A2AError, ...] = (
    e.ParseError(),
    e.InvalidRequestError(),
    e.InvalidParamsError(),
    e.MethodNotFoundError(),
    e.UnsupportedOperationError(),
    e.ExtensionSupportRequiredError(),
    e.VersionNotSupportedError(),
    e.UnauthenticatedError(),
    e.PermissionDeniedError(),
    MethodNotAllowedError(("GET",)),
    BodyTooLargeError(),
    MediaTypeError(),
    e.RateLimitedError(),
    e.InternalError(),
    e.UnavailableError(),
)


def _errors_of(operation: Operation) -> list[A2AError]:
    """The errors that an operation may be answered with."""
    found = [*_ALWAYS]
    if operation not in (ops.LIST_TASKS, ops.GET_EXTENDED_CARD):
        found.append(e.TaskNotFoundError())
    if operation is ops.CANCEL_TASK:
        found.append(e.TaskNotCancelableError())
    if operation in _SENDS:
        found += [e.TaskFinishedError(), e.ContentTypeNotSupportedError(), e.InvalidAgentResponseError()]
    if operation in _SENDS or operation.needs is Needs.PUSH:
        found.append(e.PushNotificationNotSupportedError())
    if operation.needs is Needs.EXTENDED_CARD:
        found.append(e.ExtendedCardNotConfiguredError())
    return found


# --- pieces of the document -------------------------------------------------------------------------------------------

_VERSION = "The caller's version, with or without its patch number. It may stand in the query instead."
_PATH_NAMES = {"id": "The task.", "config_id": "The webhook."}


def _rest_tag(version: Version) -> str:
    return f"HTTP+JSON, A2A {version}"


def _tags(versions: list[Version]) -> list[JsonValue]:
    rest = [_rest_tag(version) for version in (Version.V1_0, Version.V0_3) if version in versions]
    return [{"name": name} for name in (*rest, "JSON-RPC", "Cards", "About")]


def _parameter(name: str, place: str, schema: JsonObject, about: str = "", *, required: bool = False) -> JsonObject:
    parameter: JsonObject = {"name": name, "in": place, "required": required or place == "path", "schema": schema}
    return parameter | ({"description": about} if about else {})


def _body(schema: JsonObject, example: JsonObject, *, is_required: bool = True) -> JsonObject:
    """A body in JSON; readers take `application/a2a+json` for the same."""
    return {"required": is_required, "content": {JSON: {"schema": schema, "example": example}}}


def _any_of(schemas: list[JsonObject]) -> JsonObject:
    distinct = [schema for number, schema in enumerate(schemas) if schema not in schemas[:number]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": [*distinct]}


def _json_reply(about: str, schema: JsonObject) -> JsonObject:
    return {"description": about, "content": {JSON: {"schema": schema}}}


def _stream(frames: list[JsonObject], *, wrapped: bool = False) -> JsonObject:
    """A reply in server-sent events: the schema is that of one event, whose data is JSON."""
    data = _any_of(frames)
    if wrapped:
        data = _any_of([_envelope("result", data), ref("jsonrpc.Error")])
    members: JsonObject = {
        "id": {"type": "string", "description": "The number of the event, to resume after it with `Last-Event-ID`."},
        "event": {"type": "string", "description": "`error` where the stream was cut."},
        "data": {"type": "string", "contentMediaType": JSON, "contentSchema": data},
    }
    schema: JsonObject = {"type": "object", "properties": members, "required": ["data"]}
    return {"description": "What happens, event by event.", "content": {EVENT_STREAM: {"schema": schema}}}


def _envelope(member: str, schema: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "number", "null"]}, member: schema},
        "required": ["jsonrpc", "id", member],
    }


def _of_shape(schema: JsonObject, member: str) -> JsonObject:
    """A send of 0.3 whose message holds its parts in this member, by which the two shapes are told apart."""
    other = {"parts": "content", "content": "parts"}[member]
    shape: JsonObject = {"type": "object", "required": [member], "not": {"required": [other]}}
    return {"allOf": [schema, {"required": ["message"], "properties": {"message": shape}}]}


def _wrapped_config(config: JsonObject) -> JsonObject:
    """The body of SDKs: `{config: {pushNotificationConfig: {…}}}`."""
    text: JsonObject = {"type": "string"}
    inner = object_of({"pushNotificationConfig": config, "name": text}, ["pushNotificationConfig"])
    return object_of({"config": inner, "configId": text, "parent": text}, ["config"])


def _failure(status: int, about: str, schema: JsonObject) -> JsonObject:
    reply = _json_reply(f"{HTTPStatus(status).phrase}.\n\n{about}", schema)
    names = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}
    if status in names:
        reply["headers"] = {names[status]: {"schema": {"type": "string"}}}
    return reply


def _rpc_failures() -> JsonObject:
    """Where HTTP itself speaks, and what the body says all the same."""
    failures: JsonObject = {
        str(status): _failure(status, "As JSON-RPC has it.", ref("jsonrpc.Error"))
        for status in sorted(HTTP_LEVEL_STATUSES)
    }
    failures["503"] = _failure(503, "The server is not running.", ref("v1_0.Error"))
    return failures


def _error_schemas() -> JsonObject:
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
        "jsonrpc.Error": _envelope("error", report),
    }


_PAGE: JsonObject = {"description": "The page.", "content": {"text/html": {"schema": {"type": "string"}}}}


def _front() -> JsonObject:
    """What a browser gets where others call."""
    return {
        "operationId": "get_front",
        "summary": "Read about the agent, with a browser.",
        "tags": ["About"],
        "security": [],
        "parameters": [],
        "responses": {"200": _PAGE, "404": _failure(404, "For anything but a browser.", ref("v1_0.Error"))},
    }


def _pages() -> JsonObject:
    """What describes the agent to people and tools."""
    return {
        "/openapi.json": {
            "get": {
                "operationId": "get_openapi",
                "summary": "Read this document.",
                "tags": ["About"],
                "security": [],
                "responses": {"200": _json_reply("The document.", {"type": "object"})},
            }
        },
        "/docs": {
            "get": {
                "operationId": "get_docs",
                "summary": "Read about the agent.",
                "tags": ["About"],
                "security": [],
                "responses": {"200": _PAGE},
            }
        },
    }


# --- examples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Samples:
    """One request of each operation, to say in any dialect what the agent may be asked."""

    card: AgentCard

    def request(self, dialect: JsonDialect, operation: Operation) -> JsonObject:
        """The request as this dialect spells it."""
        return msgspec.json.decode(dialect.encode_request(operation, self._canonical(operation)))

    def _canonical(self, operation: Operation) -> r.Request:
        task_id, config_id = SAMPLE_TASK_ID, SAMPLE_CONFIG_ID
        config = PushConfig("https://example.com/webhook", id=config_id, token="secret")
        match operation:
            case ops.GET_TASK:
                return r.GetTaskRequest(task_id, history_length=10)
            case ops.LIST_TASKS:
                return r.ListTasksRequest(page_size=10)
            case ops.CANCEL_TASK:
                return r.CancelTaskRequest(task_id)
            case ops.SUBSCRIBE_TO_TASK:
                return r.SubscribeToTaskRequest(task_id)
            case ops.CREATE_PUSH_CONFIG:
                return r.CreatePushConfigRequest(task_id, config)
            case ops.GET_PUSH_CONFIG:
                return r.GetPushConfigRequest(task_id, config_id)
            case ops.LIST_PUSH_CONFIGS:
                return r.ListPushConfigsRequest(task_id)
            case ops.DELETE_PUSH_CONFIG:
                return r.DeletePushConfigRequest(task_id, config_id)
            case ops.GET_EXTENDED_CARD:
                return r.GetExtendedCardRequest()
            case _:
                text = next((example for skill in self.card.skills for example in skill.examples), "Hello")
                return r.SendMessageRequest(Message("message-1", Role.USER, (TextPart(text),)))
