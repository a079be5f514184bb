"""The gRPC server: the services of 0.3 and 1.0 on one port, with health and reflection.

Requests are parsed here and not by gRPC, so that invalid bytes get a precise error. Several agents share the port:
callers of 1.0 name the agent in `tenant` (`agent`, or `agent/tenant`), as its card says. 0.3 has no tenant, so it
works only where one agent is served. Spec: 1.0 section 10, 0.3 section 3.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2
from msgspec import structs

from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import loaded_pool, parse_request
from parley.dialects.protobuf_status import encode_status, encode_status_text
from parley.dialects.protobuf_v0_3 import DIALECT as V0_3
from parley.dialects.protobuf_v1_0 import DIALECT as V1_0
from parley.engine.reading.large import encoded
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.negotiation import read_version
from parley.protocol.operations import OPERATIONS, Operation
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.cursor import read_last_event_id
from parley.server.bindings.failures import as_wire_error, headers_of_error, with_last_event_id
from parley.server.call_stream import CallStream, FlaggedEvents
from parley.server.security.credentials import Identity, PeerCertificate, PresentedCredentials
from parley.server.service import Service, extension_headers
from parley.server.telemetry.call import Call

# The type stubs of grpcio-health-checking lack these two.
_HealthServicer: Any = vars(health)["aio"].HealthServicer
_add_health: Callable[[Any, grpc.aio.Server], None] = vars(health_pb2_grpc)["add_HealthServicer_to_server"]

Context = Any  # grpc.aio.ServicerContext is generic over messages; here every message is bytes

MAX_METADATA_BYTES = 32 * 1024
"""Tokens may have several kilobytes. HTTP servers have about the same limit for all headers."""

LARGE_BYTES = 256 * 1024
"""Longer requests are decoded in a thread. A part takes only five bytes, so a few megabytes can take seconds."""


NAMED_AGENTS = 10
"""Agents that an error names."""


class GrpcServer:
    """The gRPC server of an app. `http_url` is the app's HTTP URL, which its cards name.

    If it `shares_port`, other processes may listen on the same one, and the system spreads connections over them.
    """

    def __init__(self, app: App, *, http_url: str = "http://localhost", shares_port: bool = False) -> None:
        self._app = app
        self._http_url = http_url
        self._shares_port = shares_port
        self._server: grpc.aio.Server | None = None
        self._health = _Health(app)

    async def start(self, host: str, port: int, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen, and return the port; 0 picks a free one.

        Raises:
            OSError: the port is in use or not permitted.
        """
        server = grpc.aio.server(options=self._options())
        services = [dialect.service for dialect in (V1_0, V0_3)]
        server.add_generic_rpc_handlers(tuple(self._handlers(dialect) for dialect in (V1_0, V0_3)))
        _add_health(self._health, server)
        enable_reflection(server, services)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                bound = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, credentials)
        except RuntimeError as exc:
            raise OSError(f"gRPC cannot listen on {address}: is the port in use?") from exc
        await server.start()
        self._health.services = ("", *services)
        await self._health.refresh()
        self._server = server
        self._app.announce_grpc(bound)
        return bound

    async def refresh_health(self) -> None:
        """Tell readers of the health service at once what `/readyz` says now."""
        await self._health.refresh()

    async def stop(self, grace: float = 0.0) -> None:
        """Accept no more calls, and give active ones `grace` seconds to finish."""
        await self._health.enter_graceful_shutdown()
        if self._server is not None:
            await self._server.stop(grace)

    def _options(self) -> list[tuple[str, int]]:
        limits = self._app.limits
        return [
            ("grpc.so_reuseport", int(self._shares_port)),  # otherwise two servers could share a port unnoticed
            ("grpc.max_receive_message_length", limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.max_concurrent_streams", limits.rates.streams or 2_000),
            ("grpc.keepalive_time_ms", int(limits.heartbeat_seconds * 1000)),
            ("grpc.keepalive_timeout_ms", int(limits.stalled_seconds * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]

    def _handlers(self, dialect: ProtobufDialect) -> grpc.GenericRpcHandler:
        methods: dict[str, Any] = {}
        for operation in OPERATIONS:
            if not dialect.speaks(operation):
                continue
            rpc = _Rpc(self._app, dialect, operation, self._http_url)
            # For a unary request gRPC would read the whole message before the caller is authenticated. On the wire
            # a unary request looks the same as a stream of one message.
            make = grpc.stream_stream_rpc_method_handler if operation.streams else grpc.stream_unary_rpc_method_handler
            methods[dialect.rpc(operation).name] = make(rpc.follow if operation.streams else rpc.answer)
        return grpc.method_handlers_generic_handler(dialect.service, methods)


class _Health(_HealthServicer):
    """gRPC's health service. It reports for every service what `/readyz` reports."""

    def __init__(self, app: App) -> None:
        _HealthServicer.__init__(self)
        self._app = app
        self.services: tuple[str, ...] = ()

    async def Check(self, request: Any, context: Context) -> Any:
        """Report whether a service is ready; `Watch` streams get the new state as well."""
        await self.refresh()
        return await _HealthServicer.Check(self, request, context)

    async def refresh(self) -> None:
        """Update the state of all services."""
        states = health_pb2.HealthCheckResponse
        state = states.NOT_SERVING if await self._app.health.reasons() else states.SERVING
        for service in self.services:
            await self.set(service, state)


class _Rpc:
    """One RPC of one dialect."""

    def __init__(self, app: App, dialect: ProtobufDialect, operation: Operation, http_url: str) -> None:
        self._app = app
        self._dialect = dialect
        self._operation = operation
        self._http_url = http_url
        self._request_class = dialect.rpc(operation).request
        self._stalled_seconds = app.limits.stalled_seconds

    # gRPC stores the exception of an aborted call next to its context, and the traceback refers to our frames. That
    # is a reference cycle, so these frames drop the context and the error before they abort.

    async def answer(self, _: object, context: Context) -> bytes:
        """Answer one request."""
        answer = await self._answer(context)
        if isinstance(answer, bytes):
            return answer
        aborting = self._abort(context, answer)
        del _, context, answer
        return await aborting

    async def follow(self, _: object, context: Context) -> None:
        """Answer one request with a stream."""
        error = await self._follow(context)
        if error is not None:
            aborting = self._abort(context, error)
            del _, context, error
            await aborting

    async def _answer(self, context: Context) -> bytes | A2AError:
        operation = self._operation
        try:
            service, call, request = await self._read_call(context)
            result = await service.answer(call, request)
            await _send_extensions(context, call)
            return await encoded(
                result, lambda value: self._dialect.encode_result(operation, value).SerializeToString()
            )
        except Exception as error:  # here a request ends
            return as_wire_error(error)

    async def _follow(self, context: Context) -> A2AError | None:
        """Send a stream, and return the error that has cut it off."""
        last = 0
        try:
            service, call, request = await self._read_call(context)
            events = service.follow(call, request)
            del request  # a message may be large, and its stream may be long
            async with aclosing(events):
                is_first = True
                while (flagged := await self._next(events)) is not None:
                    if is_first:
                        await _send_extensions(context, call)
                        is_first = False
                    while flagged:
                        last = await self._send(context, call.address, flagged)
            return None
        except Exception as error:  # here a request ends
            return with_last_event_id(as_wire_error(error), last)

    async def _send(self, context: Context, address: str, flagged: FlaggedEvents) -> int:
        """Send the next event, and return its number. The event is released when it is encoded."""
        seq, event, ends = flagged.popleft()
        message = await encoded(event, lambda value: self._dialect.encode_event(value, ends=ends).SerializeToString())
        del event
        with self._app.bodies.reserved(address, len(message)):
            await self._write(context, message)
        return seq

    async def _next(self, events: CallStream) -> FlaggedEvents | None:
        """The next events, or None at the end."""
        try:
            async with asyncio.timeout(self._app.limits.idle_stream_seconds):
                return await anext(events, None)
        except TimeoutError:
            raise UnavailableError("The stream was idle; subscribe again from the last event") from None

    async def _write(self, context: Context, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._stalled_seconds):
                await context.write(message)
        except TimeoutError:
            raise UnavailableError(
                "The client read nothing for too long; subscribe again from the last event"
            ) from None

    async def _read_call(self, context: Context) -> tuple[Service, Call, Any]:
        """Authenticate and decode a request, and find its agent."""
        headers = _headers(context)
        address = _address(context.peer())
        shared, agent_id = self._app.shared, ""
        try:
            if not self._app.is_running:
                raise UnavailableError("The server is not running")
            self._check_version(headers.get("a2a-version"))
            identity = await shared.authenticate(lambda: _credentials(context, headers, address), address)
            request: Any = await self._decode(await self._receive(context))
            service, request = self._choose(request, identity)
            agent_id = service.agent_id
            call = self._call(service, headers, identity, address)
            if self._operation.streams:
                call.after = read_last_event_id(headers)
        except A2AError as error:
            shared.refused(agent_id, Binding.GRPC, error)
            raise
        return service, call, request

    async def _receive(self, context: Context) -> bytes:
        """The message of a request. Raises InvalidRequestError if it does not arrive in time."""
        try:
            async with asyncio.timeout(self._stalled_seconds):
                data = await context.read()
        except TimeoutError:
            raise InvalidRequestError("The request message did not arrive in time") from None
        if data is grpc.aio.EOF:
            raise InvalidRequestError("The request has no message")
        return data

    async def _decode(self, data: bytes) -> Any:
        if len(data) <= LARGE_BYTES:
            return self._read(data)
        return await asyncio.to_thread(self._read, data)

    def _read(self, data: bytes) -> Any:
        return self._dialect.decode_request(self._operation, parse_request(self._request_class, data))

    def _check_version(self, header: str | None) -> None:
        stated = read_version(header)
        if stated is not None and stated is not self._dialect.version:
            raise VersionNotSupportedError(
                f"This service belongs to A2A {self._dialect.version}, but a2a-version says {stated}"
            )

    def _choose(self, request: Any, identity: Identity) -> tuple[Service, Any]:
        """The agent that the tenant of a request names, and the request with the rest of the tenant.

        Without such an agent, it is the agent at the root.
        """
        table, is_1_0 = self._app.table, self._dialect.version is Version.V1_0
        name, _, tenant = ((is_1_0 and request.tenant) or "").partition("/")
        if name != table.root and (site := self._app.site_named(name, identity)) is not None:
            return site.service, structs.replace(request, tenant=tenant or None)
        if (site := table.site(table.root)) is not None:
            return site.service, request
        if not is_1_0:
            raise UnsupportedOperationError("This server has several agents; only A2A 1.0 can name one over gRPC")
        if not len(table):  # a host: it names its agents to their tenants only
            raise InvalidParamsError("The tenant must name an agent that the caller has", path="$.tenant")
        known = ", ".join(agent.id for agent in self._app.agents) if len(table) <= NAMED_AGENTS else "see /agents"
        raise InvalidParamsError(f"The tenant must name one of these agents: {known}", path="$.tenant")

    def _call(self, service: Service, headers: Mapping[str, str], identity: Identity, address: str) -> Call:
        return Call(
            service.agent_id,
            self._operation,
            self._dialect.version,
            Binding.GRPC,
            headers,
            identity,
            address,
            self._app.url_of(service.agent_id, self._http_url),
        )

    async def _abort(self, context: Context, error: A2AError) -> bytes:
        """End the call with an error, in the format of the dialect. Does not return."""
        trailers: list[tuple[str, str | bytes]] = [
            (name.decode(), value.decode())
            for name, value in headers_of_error(error, self._app.resource_metadata_of(self._http_url))
            if name != b"allow"
        ]
        if self._dialect.version is Version.V1_0:
            code, text = error.row.grpc, error.message  # a2a-sdk expects the same text as in the details
            trailers.append(("grpc-status-details-bin", encode_status(error).SerializeToString()))
        else:
            code, text = encode_status_text(error)
        aborting = context.abort(grpc.StatusCode[code], text, tuple(trailers))
        del context, error
        await aborting
        raise AssertionError("abort raises")


async def _send_extensions(context: Context, call: Call) -> None:
    if call.extensions:
        headers = extension_headers(call)
        await context.send_initial_metadata(tuple((name.decode(), value.decode()) for name, value in headers))


def _headers(context: Context) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in context.invocation_metadata() or ():
        if isinstance(value, str):  # the values of names that end in -bin are bytes, and A2A uses none
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _address(peer: str) -> str:
    """The IP address in gRPC's name of a peer: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    _, _, host_and_port = unquote(peer).partition(":")
    host = host_and_port.rpartition(":")[0].strip("[]")
    try:
        return str(ip_address(host))
    except ValueError:
        return ""


def _credentials(context: Context, headers: Mapping[str, str], address: str) -> PresentedCredentials:
    (pem, *_) = context.auth_context().get("x509_pem_cert") or (None,)
    certificate = PeerCertificate.from_pem(pem) if pem else None
    return PresentedCredentials(headers, {}, certificate, address)


def enable_reflection(server: grpc.aio.Server, services: list[str]) -> None:
    """Let tools list the services. Ours are in a descriptor pool of our own, so the others must be added to it."""
    pool = loaded_pool()
    for file in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    names = [*services, health.SERVICE_NAME, reflection.SERVICE_NAME]
    reflection.enable_server_reflection(names, server, pool=pool)
