"""The native API: finds the route of a request, lets its caller in, reads the body, and sends the answer.

It raises errors; `HostHttp` makes replies of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from parley.engine.store_errors import translated
from parley.host.access.principal import Principal, principal_of
from parley.host.api.matching import AnyRoute, RouteTable
from parley.host.api.metrics import HostMetrics
from parley.host.api.route import Answer, ApiCall, Auth
from parley.host.api.table import ROUTES
from parley.host.data.tenant import Tenant
from parley.host.errors import MethodNotAllowed, Unauthorized
from parley.host.operator_access import OPERATOR
from parley.host.origin import owner_name
from parley.host.quotas import RATE_LIMIT
from parley.protocol.errors import RateLimitedError
from parley.server.bindings.http import AsgiRequest

if TYPE_CHECKING:
    from parley.host.host import Host

ANYONE = Principal("anyone", "", frozenset())

AGENT_PATH, TENANT_PATH = "/v1/agents/{id", "/v1/admin/tenants/{id"
"""Routes that name an agent or a tenant."""

_encoder = msgspec.json.Encoder()


class NativeApi:
    """The native API of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._table = RouteTable(ROUTES)
        self._metrics = HostMetrics(host)
        self._operator = host.operator

    async def handle(self, request: AsgiRequest) -> None:
        """Answer a request.

        Raises:
            ApiError, HostDataError, A2AError: the request is refused.
        """
        try:
            route, path = self._table.find(request.verb, request.path)
        except MethodNotAllowed as error:
            if request.verb != "OPTIONS":
                raise
            await request.start_reply(204, [(b"allow", ", ".join(error.allowed).encode())])
            await request.send_chunk(b"", is_last=True)
            return
        with translated:
            await self._answer(request, route, path)

    async def _answer(self, request: AsgiRequest, route: AnyRoute, path: dict[str, str]) -> None:
        tenant, principal = await self._admit(request, route)
        try:
            answer = await self._call(request, route, path, tenant, principal)
        except RateLimitedError as error:
            if tenant is not None:
                self._metrics.rate_limited(tenant.id, error.details.get("reason", RATE_LIMIT))
            raise
        if answer is not None:
            body = answer.body if isinstance(answer.body, bytes) else _encoder.encode(answer.body)
            await self._reply(request, answer, body)

    async def _reply(self, request: AsgiRequest, answer: Answer, body: bytes) -> None:
        """Send an answer. The memory of a long one is bounded, and a reader that does not read holds little of it."""
        content_type, bodies = answer.content_type.encode(), self._host.app.shared.bodies
        if answer.status != 200:  # a record that was created, which is short
            await request.reply(answer.status, body, content_type, answer.headers)
            return
        reserved = request.reserve_reply(bodies, body)
        await request.reply_long(bodies, reserved, body, content_type, answer.headers)

    async def _call(
        self,
        request: AsgiRequest,
        route: AnyRoute,
        path: dict[str, str],
        tenant: Tenant | None,
        principal: Principal,
    ) -> Answer | None:
        """Read the body and call the handler. A stream does not count as a request while it is open."""
        shared = self._host.app.shared
        name = owner_name(tenant.id) if tenant is not None else ""
        with shared.throttle.admit(name, request.address):
            body: Any = None
            if route.body is not None:
                body = route.body.read(await request.read_json_body(shared.limits, shared.bodies))
            await self._know(route, path, tenant)
            call = ApiCall(self._host, self._metrics, request, path, tenant, body, principal)
            if not route.streams:
                return await route.handler(call)
        with shared.throttle.admit_stream(name, request.address):  # before any work begins
            return await route.handler(call)

    async def _know(self, route: AnyRoute, path: dict[str, str], tenant: Tenant | None) -> None:
        """Learn of the agent or the tenant that a path names, if another process has just created it."""
        if tenant is not None and route.path.startswith(AGENT_PATH):
            await self._host.find_program(tenant.id, path["id"])
        elif route.path.startswith(TENANT_PATH):
            await self._host.know_tenant(path["id"])

    # --- callers ------------------------------------------------------------------------------------------------------

    async def _admit(self, request: AsgiRequest, route: AnyRoute) -> tuple[Tenant | None, Principal]:
        """Check that the caller may call a route, and return its tenant, if it has one, and who it is."""
        match route.auth:
            case Auth.NONE:
                return None, ANYONE
            case Auth.ADMIN:
                await self._operator.admit(request)
                return None, OPERATOR
            case Auth.TENANT if self._operator.acts_for_tenant(request):
                await self._operator.admit(request)
                tenant = await self._operator.tenant_named(request)
                return tenant, Principal(OPERATOR.name, tenant.id)
            case Auth.TENANT:
                identity = await self._host.app.shared.authenticate(request.credentials, request.address)
                tenant = self._host.tenant(identity.tenant or "")
                if tenant is None:
                    raise Unauthorized
                principal = principal_of(tenant.id, identity.scopes, identity.claims)
                if route.needs_scope:
                    principal.require(route.needed_scope)
                return tenant, principal
