"""A gRPC server whose methods a test writes itself, in raw bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from parley.client.transports.grpc import GrpcTransport
from parley.dialects.protobuf_v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.versions import Version
from tests.deadlines import fail_after


@asynccontextmanager
async def grpc_agent(answer: Any, follow: Any = None, **options: Any) -> AsyncGenerator[GrpcTransport]:
    """A way to a server that answers GetTask and streams like this; `options` are those of the transport."""
    server = grpc.aio.server()
    methods = {DIALECT.rpc(ops.GET_TASK).name: grpc.unary_unary_rpc_method_handler(answer)}
    for operation in (ops.SEND_STREAMING_MESSAGE, ops.SUBSCRIBE_TO_TASK):
        methods[DIALECT.rpc(operation).name] = grpc.unary_stream_rpc_method_handler(follow)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(DIALECT.service, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    face = AgentInterface(f"127.0.0.1:{port}", Binding.GRPC, Version.V1_0)
    transport = GrpcTransport(face, Version.V1_0, **options)
    try:
        with fail_after(5):
            yield transport
    finally:
        await transport.close()
        await server.stop(0)
