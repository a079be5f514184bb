"""Shows gRPC messages as ProtoJSON, as their version spells it.

This needs the extra `grpc`, so protobuf is imported only when a message is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.protocol.errors import A2AError, ParleyError
from parley.protocol.events import StreamEvent
from parley.protocol.operations import Operation
from parley.protocol.requests import Request
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from parley.dialects.protobuf_dialect import ProtobufDialect


def request_as_json(version: Version, operation: Operation, request: Request) -> str:
    """The method and the request."""
    dialect = _dialect(version)
    try:
        return f"gRPC {dialect.rpc(operation).path}\n\n{_json(dialect.encode_request(operation, request))}"
    except ParleyError as error:  # the call itself raises it
        return f"gRPC {operation.name}\n\n({error})"


def result_as_json(version: Version, operation: Operation, result: Any) -> str:
    """A result, encoded again after decoding: unknown fields are not shown."""
    try:
        return _json(_dialect(version).encode_result(operation, result))
    except ParleyError as error:
        return f"({error})"


def event_as_json(version: Version, event: StreamEvent) -> str:
    """An event of a stream, on one line."""
    try:
        return _json(_dialect(version).encode_event(event), indent=None)
    except ParleyError as error:
        return f"({error})"


def refusal_as_text(error: ParleyError, version: Version) -> str:
    """An error, with its gRPC status if the agent sent it."""
    if not isinstance(error, A2AError):
        return f"{type(error).__name__}: {error}"
    status = error.row.grpc if version is Version.V1_0 else error.row.grpc_0_3
    return f"gRPC {status} ({type(error).__name__}): {error}"


def _dialect(version: Version) -> ProtobufDialect:
    from parley.dialects import protobuf_v0_3, protobuf_v1_0

    return protobuf_v1_0.DIALECT if version is Version.V1_0 else protobuf_v0_3.DIALECT


def _json(message: Any, *, indent: int | None = 2) -> str:
    from google.protobuf.json_format import MessageToJson

    return MessageToJson(message, indent=indent, ensure_ascii=False)
