"""The OpenAPI 3.1 document of a host, written from the table of routes and the structs of bodies and replies.

Only the routes of A2A are described by hand: their bodies are those of the protocol, and each agent's own document has
them in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, cast

import msgspec
from msgspec import Struct

from parley import __version__
from parley.host.api.event_schemas import EVENTS
from parley.host.api.query_parameters import QueryParameter
from parley.host.api.route import ApiReply, ApiRoute, Auth, BodyReader
from parley.protocol.jsonvalue import JsonObject, JsonValue

OPENAPI_VERSION = "3.1.0"
REF = "#/components/schemas/{name}"

_SECURITY: dict[Auth, list[JsonValue]] = {
    Auth.NONE: [],
    Auth.TENANT: [{"tenant": []}],
    Auth.ADMIN: [{"admin": []}],
}
_TAGS = {
    "agents": "The agents of a tenant.",
    "orchestrate": "Sending messages to agents.",
    "requests": "What agents work on, and have worked on.",
    "queue": "What waits, and in which order.",
    "conversations": "Conversations with agents, and their messages.",
    "artifacts": "The files of conversations.",
    "memory": "What the agents of a tenant remember.",
    "models": "The models that agents can use.",
    "mcp": "The MCP servers whose tools agents can use.",
    "budgets": "What a tenant may spend, and has left.",
    "usage": "What a tenant has used.",
    "schedules": "Messages that go to agents at chosen times.",
    "admin": "The operator's routes.",
    "health": "For machines that watch the host.",
    "metrics": "For machines that watch the host.",
    "a2a": "The Agent2Agent protocol.",
}


class ErrorBody(Struct, frozen=True):
    """Why a request was refused. `$.temperature: …` names the member of the body at fault."""

    error: str


class RateLimitedBody(Struct, frozen=True):
    """Why a request was refused for now."""

    error: str
    reason: str
    retry_after_seconds: int


def document(routes: Sequence[ApiRoute[Any]], base_url: str) -> bytes:
    """The document as JSON, for a host at this URL."""
    _, components = msgspec.json.schema_components(_types(routes), ref_template=REF)
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(route.plain_path, {})[route.method.lower()] = _operation(route)
    return msgspec.json.encode(
        {
            "openapi": OPENAPI_VERSION,
            "info": {
                "title": "Parley host",
                "description": "Agents for many tenants: the native API. Each agent also speaks A2A.",
                "version": __version__,
            },
            "servers": [{"url": base_url.rstrip("/") or "/"}],
            "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
            "paths": {**paths, **_a2a_paths()},
            "components": {
                "schemas": _portable(components),
                "securitySchemes": {
                    "tenant": {"type": "http", "scheme": "bearer", "description": "The token of a tenant: `atr_…`."},
                    "admin": {"type": "http", "scheme": "bearer", "description": "The admin token: `adm_…`."},
                },
            },
        }
    )


def _types(routes: Iterable[ApiRoute[Any]]) -> list[Any]:
    """All structs that the document names."""
    bodies = [body for route in routes if route.body is not None for body in route.body.documented]
    replies = [reply.body for route in routes for reply in route.replies if reply.body is not None]
    return [*dict.fromkeys([ErrorBody, RateLimitedBody, *bodies, *replies, *EVENTS.values()])]


def _portable(schema: Any) -> Any:
    """A schema whose patterns every reader understands: only Python writes the end of a text as `\\Z`."""
    match schema:
        case dict():
            members = cast("JsonObject", schema)
            return {
                name: value.replace("\\Z", "$") if name == "pattern" and isinstance(value, str) else _portable(value)
                for name, value in members.items()
            }
        case list():
            return [_portable(item) for item in cast("list[JsonValue]", schema)]
        case _:
            return schema


# --- one route --------------------------------------------------------------------------------------------------------


def _operation(route: ApiRoute[Any]) -> JsonObject:
    name = getattr(route.handler, "__name__", "")
    described: JsonObject = {
        "operationId": name,
        "summary": route.summary,
        "tags": [_tag(route.path)],
        "security": _SECURITY[route.auth],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.description:
        described["description"] = route.description
    if route.body is not None:
        described["requestBody"] = _request_body(route.body)
    return described


def _tag(path: str) -> str:
    segment = path.split("/")[2] if path.startswith("/v1/") else "health"
    return segment if segment in _TAGS else "health"


def _parameters(route: ApiRoute[Any]) -> list[JsonValue]:
    in_path: list[JsonValue] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 1} if is_number else {"type": "string", "minLength": 1},
        }
        for name, is_number in route.parameters
    ]
    in_query: list[JsonValue] = [_query_parameter(parameter) for parameter in route.query]
    in_headers: list[JsonValue] = [
        {"name": name, "in": "header", "description": about, "schema": {"type": "string"}}
        for name, about in (route.headers or {}).items()
    ]
    return [*in_path, *in_query, *in_headers]


def _query_parameter(parameter: QueryParameter[object]) -> JsonObject:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "schema": parameter.schema,
    }


def _request_body(body: BodyReader[Any]) -> JsonObject:
    return {
        "required": not body.is_optional,
        "content": {"application/json": {"schema": _any_of([ref(form) for form in body.documented])}},
    }


def _responses(route: ApiRoute[Any]) -> JsonObject:
    responses: JsonObject = {}
    for reply in route.replies:
        responses[str(reply.status)] = _merged(responses.get(str(reply.status)), _response(reply))
    for status in sorted(_error_statuses(route)):
        responses.setdefault(str(status), _error_response(status))
    return responses


def _merged(earlier: JsonValue, reply: JsonObject) -> JsonObject:
    """A reply with the content types of an earlier one of its status, whose description stays."""
    match earlier, reply:
        case {"description": about, "content": dict(one)}, {"content": dict(other)}:
            return {"description": about, "content": {**one, **other}}
        case _:
            return reply


def _error_statuses(route: ApiRoute[Any]) -> set[int]:
    """What may go wrong with every route of its kind, and with this one."""
    common = {429, 500, 503}
    refused = {401} if route.auth is not Auth.NONE else set[int]()
    with_body = {400, 413, 415} if route.body is not None else set[int]()
    with_query = {400} if route.query else set[int]()
    return common | refused | with_body | with_query | set(route.errors)


def _response(reply: ApiReply) -> JsonObject:
    if reply.content_type == "text/event-stream":
        return {"description": reply.description, "content": {reply.content_type: _event_stream()}}
    without_struct: JsonObject = {"type": "object" if reply.content_type == "application/json" else "string"}
    schema = without_struct if reply.body is None else ref(reply.body)
    return {"description": reply.description, "content": {reply.content_type: {"schema": schema}}}


def _event_stream() -> JsonObject:
    """OpenAPI 3.1 cannot describe the events of a stream, so `x-events` has the schema of each one's data."""
    names = ", ".join(f"`{name}`" for name in EVENTS)
    about = f"Server-sent events, each with its number as its id. Their names are {names}."
    return {
        "schema": {"type": "string", "description": about},
        "x-events": {name: ref(struct) for name, struct in EVENTS.items()},
    }


def _error_response(status: int) -> JsonObject:
    body = RateLimitedBody if status == HTTPStatus.TOO_MANY_REQUESTS else ErrorBody
    response: JsonObject = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": ref(body)}},
    }
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        response["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
    return response


def ref(struct: type[Struct]) -> JsonObject:
    """A reference to the schema of a struct."""
    return {"$ref": REF.format(name=struct.__name__)}


def _any_of(schemas: Sequence[JsonObject]) -> JsonObject:
    return schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]}


# --- A2A --------------------------------------------------------------------------------------------------------------


def _a2a_paths() -> JsonObject:
    anything: JsonObject = {"application/json": {"schema": {"type": "object"}}}
    agent: JsonObject = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    refused: JsonObject = {"401": _error_response(401)}
    unknown: JsonObject = {**refused, "404": _error_response(404)}
    return {
        "/.well-known/agent-card.json": {
            "get": {
                "operationId": "get_host_card",
                "summary": "Read how to find the agents",
                "tags": ["a2a"],
                "security": _SECURITY[Auth.NONE],
                "responses": {"200": {"description": "A card that names no agent.", "content": anything}},
            }
        },
        "/v1/a2a/agents/{id}": {
            "post": {
                "operationId": "call_agent",
                "summary": "Call an agent with JSON-RPC",
                "description": "All methods of A2A. Errors of the protocol come with the status 200.",
                "tags": ["a2a"],
                "security": _SECURITY[Auth.TENANT],
                "parameters": [agent],
                "requestBody": {"required": True, "content": anything},
                "responses": {
                    "200": {
                        "description": "The result or the error, or a stream of them.",
                        "content": {**anything, "text/event-stream": {"schema": {"type": "string"}}},
                    },
                    **refused,
                },
            }
        },
        "/v1/a2a/agents/{id}/agent-card.json": {
            "get": {
                "operationId": "get_agent_card",
                "summary": "Read the card of an agent",
                "tags": ["a2a"],
                "security": _SECURITY[Auth.TENANT],
                "parameters": [agent],
                "responses": {"200": {"description": "The card.", "content": anything}, **unknown},
            }
        },
    }
