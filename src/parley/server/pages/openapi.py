"""The OpenAPI 3.1 document of one agent: all its HTTP routes and JSON-RPC methods.

It is generated from the operation table, the error table and the wire structs of the dialects, and the dialects encode
its examples, so it always agrees with the server. Operations that the card does not offer are left out. The schemas of
requests are as tolerant as the decoders; those of replies are exact (see `wire_schemas`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs

from parley.dialects import v0_2, v0_3, v0_3_card, v0_3_protojson, v1_0
from parley.dialects.dialect import JsonDialect
from parley.dialects.json_errors import encode_rest_error
from parley.dialects.registry import DIALECTS
from parley.protocol import errors as e
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard, OAuth2Scheme, SecurityScheme
from parley.protocol.errors import A2AError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.operations import OPERATIONS, Needs, Operation, Route, routes_of
from parley.protocol.versions import Version
from parley.server.bindings.http import BodyTooLargeError, MediaTypeError
from parley.server.pages import openapi_elements as oa
from parley.server.pages.sample_requests import sample_request
from parley.server.pages.wire_schemas import JSON_VALUE, NULL, Schemas, any_json, object_of, ref
from parley.wire.rest import RESERVED_TENANTS, MethodNotAllowedError

OPENAPI_VERSION = "3.1.0"

_SENDS = (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE)
_VERSION_HEADER = "The caller's A2A version, with or without a patch number. It may be in the query instead."
_PATH_PARAMETERS = {"id": "The task.", "config_id": "The webhook."}
_PREFIXES = {Version.V0_1: "v0_1", Version.V0_2: "v0_2", Version.V0_3: "v0_3", Version.V1_0: "v1_0"}


def document(card: AgentCard, *, base_url: str) -> bytes:
    """The document as JSON, for an agent at this URL."""
    return msgspec.json.encode(_Writer(card).write(base_url))


class _Writer:
    """Collects the components while the paths are written."""

    def __init__(self, card: AgentCard) -> None:
        self._card = card
        self._components: JsonObject = {JSON_VALUE: any_json()}
        self._responses: JsonObject = {}
        self._schemas = {version: Schemas(_PREFIXES[version], self._components) for version in Version}
        self._proto_schemas = Schemas("v0_3_protojson", self._components)

    def write(self, base_url: str) -> JsonObject:
        card = self._card
        paths: JsonObject = {}
        for version in (Version.V1_0, Version.V0_3):
            self._add_rest(paths, version)
        paths["/"] = {"post": self._jsonrpc(), "get": oa.root_get()}
        paths |= self._cards() | oa.page_paths()
        return {
            "openapi": OPENAPI_VERSION,
            "info": {"title": card.name, "description": card.description, "version": card.version or "0"},
            "servers": [{"url": base_url.rstrip("/") or "/"}],
            "tags": oa.tags(),
            "security": [{name: list(scopes) for name, scopes in each.items()} for each in card.security],
            "paths": paths,
            "components": {
                "schemas": self._components | oa.error_schemas(),
                "responses": self._responses,
                "securitySchemes": {name: encode_scheme(scheme) for name, scheme in card.security_schemes.items()},
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
            "tags": [oa.rest_tag(version)],
            "parameters": self._parameters(version, operation, route, with_tenant=with_tenant),
        }
        body = self._rest_json_body(version, operation) if verb == "POST" else None
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
            about = f"The tenant; not {' or '.join(sorted(RESERVED_TENANTS))}."
            parameters.append(oa.parameter("tenant", "path", {"type": "string", "minLength": 1}, about))
        parameters.extend(
            oa.parameter(name, "path", {"type": "string", "minLength": 1}, _PATH_PARAMETERS[name]) for name in names
        )
        schemas = self._schemas[version]
        parameters.extend(oa.parameter(name, "query", schemas.of_query(reader, name)) for name in route.query)
        return [*parameters, *self._headers([version], operation)]

    def _headers(self, versions: list[Version], operation: Operation | None) -> list[JsonValue]:
        version: JsonObject = {"enum": [*versions, ""]}
        required = [extension.uri for extension in self._card.capabilities.extensions if extension.required]
        uris = ", ".join(extension.uri for extension in self._card.capabilities.extensions)
        extensions: JsonObject = {"enum": [", ".join(required)]} if required else {"type": "string"}
        headers = [
            oa.parameter("A2A-Version", "header", version, _VERSION_HEADER),
            oa.parameter(
                "A2A-Extensions" if versions[-1] is Version.V1_0 else "X-A2A-Extensions",
                "header",
                extensions,
                f"The extensions to activate, separated by commas. The agent supports: {uris or 'none'}.",
                required=bool(required),
            ),
        ]
        if operation is None or operation.streams:
            number: JsonObject = {"type": "string", "pattern": "^[0-9]{0,15}$"}
            about = "The id of the last event that the caller has received; the stream resumes after it."
            headers.append(oa.parameter("Last-Event-ID", "header", number, about))
        return [*headers]

    def _rest_json_body(self, version: Version, operation: Operation) -> JsonObject | None:
        if version is Version.V0_3:
            return self._rest_body_0_3(operation)
        codec = v1_0.REST_DIALECT.requests[operation.name]
        schema = self._schemas[version].of_request(codec.reader)
        sample = sample_request(self._card, v1_0.REST_DIALECT, operation)
        if operation in _SENDS:
            return oa.json_body(schema, sample)
        # The body need not repeat what is in the path, and such a member is ignored.
        given = "taskId" if operation is ops.CREATE_PUSH_CONFIG else "id"
        name = str(schema["$ref"]).rsplit("/", 1)[1]
        whole: Any = self._components[name]
        required = [key for key in whole["required"] if key != given]
        properties: JsonObject = {key: value for key, value in whole["properties"].items() if key != given}
        body = object_of(properties, required)
        sample.pop(given, None)
        return oa.json_body(body, sample, is_required=bool(required))

    def _rest_body_0_3(self, operation: Operation) -> JsonObject | None:
        if operation in _SENDS:
            text = self._schemas[Version.V0_3].of_request(v0_3.REST_DIALECT.requests[operation.name].reader)
            proto = self._proto_schemas.of_request(v0_3_protojson.REST_DIALECT.requests[operation.name].reader)
            sample = sample_request(self._card, v0_3.REST_DIALECT, operation)
            forms: list[JsonValue] = [oa.with_parts_in(text, "parts"), oa.with_parts_in(proto, "content")]
            return oa.json_body({"anyOf": forms}, sample)
        if operation is not ops.CREATE_PUSH_CONFIG:
            return None  # the body is ignored
        self._schemas[Version.V0_3].of_request(v0_3.TASK_PUSH_CONFIG.reader)
        config = ref("v0_3.PushConfigInput")
        wrapped = object_of({"config": config}, ["config"])
        sample = sample_request(self._card, v0_3.REST_DIALECT, operation)["pushNotificationConfig"]
        return oa.json_body({"anyOf": [oa.wrapped_config(config), wrapped]}, {"config": sample})

    def _rest_reply(self, version: Version, operation: Operation) -> JsonObject:
        shapes = [(self._schemas[version], self._dialect(version))]
        if version is Version.V0_3:
            shapes.append((self._proto_schemas, v0_3_protojson.REST_DIALECT))
        if operation.streams:
            frames = [schemas.of_reply(dialect.events.reader) for schemas, dialect in shapes]
            return oa.event_stream([*frames, ref(f"{_PREFIXES[version]}.Error")])
        if operation is ops.DELETE_PUSH_CONFIG:
            schema: JsonObject = {"type": "object", "maxProperties": 0}
        else:
            name = operation.name
            schema = oa.any_of([schemas.of_reply(dialect.results[name].reader) for schemas, dialect in shapes])
        content_type = oa.A2A_JSON if version is Version.V1_0 else oa.JSON
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
            failure = oa.error_reply(status, "\n".join(reasons), ref(f"{_PREFIXES[version]}.Error"))
            responses[str(status)] = self._share(f"{_PREFIXES[version]}.{status}", failure)
        return responses

    def _share(self, name: str, response: JsonObject) -> JsonObject:
        """A reference to a response that many operations share. Different responses of a name are numbered."""
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
            sample = sample_request(self._card, DIALECTS[versions[-1]], operation)
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
            for version in Version
            if _offers(self._card, ops.SEND_STREAMING_MESSAGE)
        ]
        ok = oa.json_reply("The result or the error.", {"anyOf": [ref("jsonrpc.Error"), *replies]})
        if frames:
            content: Any = ok["content"]
            content |= oa.event_stream(frames, wrapped=True)["content"]
        return {
            "operationId": "call",
            "summary": "Call a method of JSON-RPC.",
            "description": "The method name determines the version. If several versions have it, `A2A-Version` does.",
            "tags": ["JSON-RPC"],
            "parameters": self._headers(list(Version), None),
            "requestBody": {
                "required": True,
                "content": {oa.JSON: {"schema": bodies, "examples": examples}},
            },
            "responses": {"200": ok, **oa.rpc_failures()},
        }

    def _methods(self) -> dict[str, tuple[Operation, list[Version]]]:
        methods: dict[str, tuple[Operation, list[Version]]] = {}
        for operation in OPERATIONS:
            for version in Version:
                if version in operation.methods and _offers(self._card, operation):
                    methods.setdefault(operation.methods[version], (operation, []))[1].append(version)
        return methods

    def _rpc_request(self, method: str, operation: Operation, versions: list[Version]) -> JsonObject:
        found: list[JsonObject] = []
        for version in versions:
            if not (version is Version.V0_2 and Version.V0_3 in versions):  # their requests are the same
                found.append(self._schemas[version].of_request(DIALECTS[version].requests[operation.name].reader))
        takes_nothing = all(not self._resolve(schema).get("required") for schema in found)
        params = oa.any_of([*found, *([NULL] if takes_nothing else [])])
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
                *([] if versions == [Version.V0_1] else ["jsonrpc"]),  # 0.1 does not require it
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
            result = oa.any_of(
                [
                    self._schemas[version].of_reply(DIALECTS[version].results[operation.name].reader)
                    for version in versions
                    if not (version is Version.V0_2 and Version.V0_3 in versions)
                ]
            )
        return oa.rpc_envelope("result", result)

    # --- cards --------------------------------------------------------------------------------------------------------

    def _cards(self) -> JsonObject:
        newest = (Version.V1_0, Version.V0_3, Version.V0_1)
        shapes = [self._schemas[version].of_reply(DIALECTS[version].cards.reader) for version in newest]
        older = Schemas("v0_2", self._components).of_reply(v0_2.CARDS.reader)
        version = self._headers(list(Version), None)[0]
        unchanged: JsonObject = {"description": "The caller has the current card."}
        tag = oa.parameter("If-None-Match", "header", {"type": "string"}, "The `ETag` of the card that the caller has.")
        since = oa.parameter(
            "If-Modified-Since",
            "header",
            {"type": "string"},
            "Its `Last-Modified`, if it has no `ETag`.",
        )
        refused = oa.error_reply(400, "`VERSION_NOT_SUPPORTED`", ref("v1_0.Error"))
        routes: JsonObject = {}
        for path, name, schema, about in (
            ("/.well-known/agent-card.json", "get_card", oa.any_of(shapes), "Read the card in the requested version."),
            (
                "/.well-known/agent.json",
                "get_card_0_2",
                oa.any_of([older, *shapes]),
                "Read the card in A2A 0.2.",
            ),
        ):
            reply = oa.json_reply("The card.", schema)
            names = ("ETag", "Last-Modified", "Cache-Control")
            reply["headers"] = {name: {"schema": {"type": "string"}} for name in names}
            responses: JsonObject = {"200": reply, "304": unchanged, "400": refused}
            routes[path] = {"get": oa.public_get(name, about, "Cards", responses, [version, tag, since])}
        if self._card.capabilities.extended_card:
            routes["/agent/authenticatedExtendedCard"] = {"get": self._extended_card(version, oa.any_of(shapes))}
        return routes

    def _extended_card(self, version: JsonValue, schema: JsonObject) -> JsonObject:
        """The extended card at a URL of its own, which A2A 0.2 has instead of a method."""
        return {
            "operationId": "get_extended_card_0_2",
            "summary": "Read the extended card, as in A2A 0.2.",
            "tags": ["Cards"],
            "parameters": [version],
            "responses": {
                "200": oa.json_reply("The card.", schema),
                **self._errors(Version.V1_0, ops.GET_EXTENDED_CARD),
            },
        }


def encode_scheme(scheme: SecurityScheme) -> JsonObject:
    """A security scheme: as in A2A 0.3, which has them from OpenAPI, but without the URL of OAuth metadata.

    OpenAPI has no device code flow, so such a flow is left out. Spec: OpenAPI 3.1 sections 4.8.27 to 4.8.30.
    """
    if isinstance(scheme, OAuth2Scheme):
        scheme = structs.replace(scheme, metadata_url=None)
    return msgspec.to_builtins(v0_3_card.encode_scheme(scheme))


# --- operations and their errors --------------------------------------------------------------------------------------


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
    """The errors that an operation may return."""
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
