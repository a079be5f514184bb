"""What goes over gRPC as people can read it: the ProtoJSON of the messages, in the spelling of their version.

It needs the extra `grpc`, like gRPC itself, and so is imported by nobody before something has to be written down.
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
    """A request, after the method that it is for."""
    dialect = _dialect(version)
    try:
        return f"gRPC {dialect.rpc(operation).path}\n\n{_json(dialect.encode_request(operation, request))}"
    except ParleyError as error:  # the call itself will say so
        return f"gRPC {operation.name}\n\n({error})"


def result_as_json(version: Version, operation: Operation, result: Any) -> str:
    """An answer, written again from what was read: what its reader does not know is not shown."""
    try:
        return _json(_dialect(version).encode_result(operation, result))
    except ParleyError as error:
        return f"({error})"


def event_as_json(version: Version, event: StreamEvent) -> str:
    """An event of a stream, in a line."""
    try:
        return _json(_dialect(version).encode_event(event), indent=None)
    except ParleyError as error:
        return f"({error})"


def refused(error: ParleyError, version: Version) -> str:
    """An error: as the status that stands for it, if it is the agent's."""
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
