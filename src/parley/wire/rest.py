"""REST routes and query strings: from a verb and a path to an operation, and back.

It does not read bodies. Paths and query strings are raw, percent-encoded as in the request line, and relative to the
interface's URL, so that an id can hold a slash, and `a:cancel` (`/tasks/a%3Acancel`) differs from cancelling `a`.
`match(version, *build_path(...))` gives back what was built, except under a tenant in `RESERVED_TENANTS`.
Spec: 1.0 section 11, 0.3 section 3.5.3 and the HTTP annotations of both protobufs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlencode

from msgspec import Struct

from parley.protocol.errors import ErrorRow, InvalidParamsError, LocalProtocolError, MethodNotFoundError
from parley.protocol.operations import OPERATIONS, Operation, Route, routes_of
from parley.protocol.versions import Version

QueryValue: TypeAlias = str | int | bool

MAX_QUERY_FIELDS = 100
"""The longest route reads seven parameters; the rest is for gateways that add their own."""

RESERVED_TENANTS = frozenset(
    ["console"]
    + [route.path.split("/")[1] for op in OPERATIONS for route in op.routes.values() if route.path.count("/") > 1]
)
"""Tenant names that look like routes without a tenant: `tasks`, 0.3's `v1`, and `console`, where servers have a page.

`/tasks/tasks` is the task called `tasks`, not the list of the tenant `tasks`: the route without a tenant wins. Do not
give a tenant these names.
"""


class RouteMatch(Struct, frozen=True):
    """What a request line means: the operation, and the decoded names in the path (`id`, `config_id`)."""

    version: Version
    operation: Operation
    parameters: dict[str, str]
    tenant: str | None = None

    @property
    def route(self) -> Route:
        """The row of the operation table that matched; `read_query` takes it."""
        return self.operation.routes[self.version]


class MethodNotAllowedError(MethodNotFoundError):
    """This path does not support the HTTP method.

    `allowed` are the methods that it supports, for the `Allow` header.
    """

    row = ErrorRow(-32601, 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND", 405, "UNIMPLEMENTED")

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This path supports only {' and '.join(allowed)}")
        self.allowed = allowed


class _Path(Struct, frozen=True):
    pattern: re.Pattern[str]
    operations: dict[str, Operation]


def _compile_paths(version: Version) -> list[_Path]:
    by_template: dict[str, dict[str, Operation]] = {}
    for route, operation in routes_of(version):
        by_template.setdefault(route.path, {}).update(dict.fromkeys(route.verbs, operation))
    prefixes = ("", "/{tenant}") if _has_tenants(version) else ("",)
    return [
        _Path(_compile_template(prefix + template, _suffixes_of(template, by_template)), operations)
        for prefix in prefixes
        for template, operations in by_template.items()
    ]


def _has_tenants(version: Version) -> bool:
    return version is Version.V1_0


def _suffixes_of(template: str, templates: Mapping[str, object]) -> list[str]:
    """What may follow a template to make another one: `:cancel` and `:subscribe` for `/tasks/{id}`."""
    return [other.removeprefix(template) for other in templates if other.startswith(f"{template}:")]


def _compile_template(template: str, suffixes: Sequence[str]) -> re.Pattern[str]:
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
    return re.compile(pattern + "".join(f"(?<!{re.escape(suffix)})" for suffix in suffixes))


_PATHS = {version: _compile_paths(version) for version in Version}


def match(version: Version, verb: str, path: str) -> RouteMatch:
    """The operation that a version gives to an HTTP verb and a raw path.

    `POST /tasks/a:b:cancel` is CancelTask of `a:b`; `GET /acme/tasks` is ListTasks of the tenant `acme`.

    Raises:
        MethodNotAllowedError: the path exists, for other verbs.
        MethodNotFoundError: there is no such path.
        InvalidParamsError: a name in the path is not UTF-8.
    """
    allowed: list[str] = []
    for candidate in _PATHS[version]:
        found = candidate.pattern.fullmatch(path)
        if found is None:
            continue
        operation = candidate.operations.get(verb)
        if operation is not None:
            names = {name: _decode_segment(name, text) for name, text in found.groupdict().items()}
            tenant = names.pop("tenant", None)
            return RouteMatch(version, operation, names, tenant)
        allowed.extend(candidate.operations)
    if allowed:
        raise MethodNotAllowedError(sorted(set(allowed)))
    raise MethodNotFoundError("Path not found")


def match_any(verb: str, path: str) -> RouteMatch:
    """The operation of a verb and a raw path where one interface serves every version: `/v1/…` is 0.3, the rest 1.0.

    Raises: as `match`.
    """
    version = Version.V0_3 if path.startswith("/v1/") else Version.V1_0
    return match(version, verb, path)


def build_path(
    operation: Operation, version: Version, *, parameters: Mapping[str, str], tenant: str | None = None
) -> tuple[str, str]:
    """The HTTP verb and raw path that call an operation: `("POST", "/acme/tasks/t1:cancel")`.

    Raises:
        LocalProtocolError: the version has no such route or no tenants, or a name is missing, empty or not Unicode.
    """
    route = operation.routes.get(version)
    if route is None:
        raise LocalProtocolError(f"A2A {version} has no REST route for {operation.name}")
    if tenant is not None and not _has_tenants(version):
        raise LocalProtocolError(f"A2A {version} has no tenants")
    try:
        path = route.path.format_map({name: _encode_segment(name, value) for name, value in parameters.items()})
    except KeyError as exc:
        raise LocalProtocolError(f"The path of {operation.name} needs a value for {exc.args[0]}") from exc
    prefix = "" if tenant is None else f"/{_encode_segment('tenant', tenant)}"
    return route.verbs[0], prefix + path


def _decode_segment(name: str, text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
        decoded.encode()  # a server may hand over bytes that are not UTF-8 as halves of surrogate pairs
        return decoded
    except UnicodeError as exc:
        raise InvalidParamsError(f"The {name} in the path is not UTF-8") from exc


def _encode_segment(name: str, value: str) -> str:
    if not value:
        raise LocalProtocolError(f"The {name} in a path cannot be empty")
    if value in (".", ".."):
        return value.replace(".", "%2E")  # HTTP clients drop such segments, and would call another path
    try:
        return quote(value, safe="")
    except UnicodeEncodeError as exc:
        raise LocalProtocolError(f"The {name} in a path is not Unicode") from exc


def parse_query(query: str) -> dict[str, list[str]]:
    """All values of every name in a raw query string, decoded, in order; lists with commas are not split.

    Raises:
        InvalidParamsError: it has too many fields, or is not UTF-8.
    """
    if query.count("&") >= MAX_QUERY_FIELDS:
        raise InvalidParamsError(f"A query string may have {MAX_QUERY_FIELDS} fields at most")
    try:
        query.encode()  # as in _decode_segment
        return parse_qs(query, keep_blank_values=True, errors="strict")
    except UnicodeError as exc:
        raise InvalidParamsError("The query string is not UTF-8") from exc


def read_query(route: Route, fields: Mapping[str, Sequence[str]]) -> dict[str, QueryValue]:
    """The parameters that a route declares, typed, out of `parse_query`'s fields; other names are ignored.

    Names in snake_case are read too: SDKs of 0.3 send the protobuf's own.

    Raises:
        InvalidParamsError: a value has the wrong type, or a name occurs twice; `path` names it.
    """
    given = {_CAMEL_CASE.get(name, name): values for name, values in fields.items()}
    if len(given) < len(fields):
        twice = next(name for name in fields if _CAMEL_CASE.get(name, "") in fields)
        raise InvalidParamsError("Given more than once", path=f"$.{_CAMEL_CASE[twice]}")
    return {name: _read_value(name, given[name]) for name in route.query if name in given}


def encode_query(values: Mapping[str, QueryValue | None]) -> str:
    """The raw query string of some parameters, without its `?`; those that are None are left out.

    Raises:
        LocalProtocolError: a value is not Unicode.
    """
    texts = {name: _write_value(value) for name, value in values.items() if value is not None}
    try:
        return urlencode(texts, quote_via=quote)
    except UnicodeEncodeError as exc:
        raise LocalProtocolError("A query string can hold Unicode only") from exc


_CAMEL_CASE = {
    re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): name
    for operation in OPERATIONS
    for route in operation.routes.values()
    for name in route.query
    if name != name.lower()
}
_INTEGERS = frozenset({"historyLength", "pageSize"})
_BOOLEANS = frozenset({"includeArtifacts"})


def _read_value(name: str, values: Sequence[str]) -> QueryValue:
    if len(values) > 1:
        raise InvalidParamsError("Given more than once", path=f"$.{name}")
    text = values[0]
    if name in _INTEGERS:
        return _read_integer(name, text)
    if name in _BOOLEANS:
        return _read_boolean(name, text)
    return text


def _read_integer(name: str, text: str) -> int:
    # int32 in the protobufs. Ten digits are enough for it, and keep int() away from its limit of 4,300.
    if re.fullmatch("-?[0-9]{1,10}", text) and -(2**31) <= (number := int(text)) < 2**31:
        return number
    raise InvalidParamsError("Must be a whole number of 32 bits", path=f"$.{name}")


def _read_boolean(name: str, text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise InvalidParamsError("Must be true or false", path=f"$.{name}")


def _write_value(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
