"""A route of the native API: everything that is known of it, in one value.

From the table of routes the API finds handlers, authenticates callers and reads bodies, and the OpenAPI document is
written. A path is a template such as `/v1/conversations/{id:int}/messages`: a segment in braces matches any one
segment, and `int` says that it is a number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from parley.dialects.fields import Fault, Reader
from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.api.query_parameters import QueryParameter, read_number
from parley.host.data.tenant import Tenant
from parley.host.errors import BadRequest
from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest
from parley.server.path_template import PARAMETER, match_path

if TYPE_CHECKING:
    from parley.host.api.metrics import HostMetrics
    from parley.host.host import Host

B = TypeVar("B")
T = TypeVar("T")

JSON_TYPE = "application/json; charset=utf-8"


class Auth(Enum):
    """Who may call a route."""

    NONE = "none"
    TENANT = "tenant"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler answers with: a struct, which becomes JSON, or text of another type."""

    body: Struct | bytes
    status: int = 200
    content_type: str = JSON_TYPE
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiReply:
    """A reply of a route, for the OpenAPI document."""

    body: type[Struct] | None
    """None: it is not JSON, or JSON that no struct describes."""
    status: int = 200
    description: str = "OK"
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[B]):
    """One request to a route, after its caller was authenticated and its body read."""

    host: Host
    metrics: HostMetrics
    request: AsgiRequest
    path: Mapping[str, str]
    """The segments that the braces of the path match, decoded."""
    caller: Tenant | None
    body: B
    principal: Principal

    @property
    def actor(self) -> str:
        """The name of the caller for the audit."""
        return self.principal.name

    @property
    def tenant(self) -> Tenant:
        """The tenant that calls. Only routes for tenants have one."""
        assert self.caller is not None, "The route is not for tenants"
        return self.caller

    def number(self, name: str) -> int:
        """A segment of the path as a number; 0, which nothing has as its id, if it is not a number."""
        text = self.path[name]
        number = read_number(text)
        return number if number is not None and str(number) == text else 0

    def query(self, parameter: QueryParameter[T]) -> T:
        """What a query parameter means. Raises BadRequest if it is not valid."""
        return parameter.read(self.request.query.get(parameter.name, ()))


ApiHandler: TypeAlias = Callable[[ApiCall[B]], Awaitable[Answer | None]]
"""Answers a call. None: it has sent the reply itself, as a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute(Generic[B]):
    """One method of one path."""

    method: str
    path: str
    handler: ApiHandler[B]
    summary: str
    auth: Auth = Auth.TENANT
    scope: Scope | None = None
    """What a tenant's token must allow; None: to read for GET, to manage for all others."""
    needs_scope: bool = True
    """False: any token of a tenant will do."""
    description: str = ""
    body: BodyReader[B] | None = None
    query: Sequence[QueryParameter[object]] = ()
    headers: Mapping[str, str] | None = None
    """Request headers with a meaning, and that meaning."""
    replies: Sequence[ApiReply]
    errors: Sequence[int] = ()
    """The statuses of errors beside those that every route of its kind has."""
    streams: bool = False
    """Whether it answers with server-sent events."""

    @property
    def needed_scope(self) -> Scope:
        """The scope that a tenant's token needs."""
        return self.scope or (Scope.READ if self.method == "GET" else Scope.MANAGE)

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The parameters in the segments of a path; None if the path is another one."""
        return match_path(self.path, segments)

    @property
    def parameters(self) -> Sequence[tuple[str, bool]]:
        """The names of the parameters in the path, and whether each is a number."""
        return [(match[1], match[2] is not None) for match in PARAMETER.finditer(self.path)]

    @property
    def plain_path(self) -> str:
        """The path as OpenAPI writes it: `/v1/conversations/{id}/messages`."""
        return PARAMETER.sub(r"{\1}", self.path)


class BodyReader(Generic[B]):
    """Reads JSON bodies of one type. `documented` are the forms that they have, if the type does not say it."""

    def __init__(
        self, body_type: type[B], *, documented: Sequence[type[Struct]] = (), is_optional: bool = False
    ) -> None:
        self._reader: Reader[B] = Reader(body_type, guesses_tags=False)
        self.documented: Sequence[Any] = documented or (body_type,)
        self.is_optional = is_optional

    def read(self, raw: bytes) -> B:
        """The body in these bytes.

        Raises:
            BadRequest: it is not valid; the error names the JSON path.
        """
        try:
            return self._reader.read(b"{}" if self.is_optional and not raw.strip() else raw)
        except Fault as fault:
            reason = f"invalid JSON: {fault.reason}" if fault.is_syntax else f"{fault.path}: {fault.reason}"
            raise BadRequest(reason) from None
