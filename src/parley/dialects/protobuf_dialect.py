"""A protobuf dialect: the counterpart of a JSON dialect for gRPC.

Each protobuf package fills its table from its messages (see `protobuf_table`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from parley.dialects.dialect import Dialect
from parley.dialects.protobuf_pool import MessageClass, ProtoMessage, Rpc, message_class, rpcs_of_service
from parley.dialects.protobuf_table import Converter
from parley.protocol.cards import AgentCard
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.operations import Operation
from parley.protocol.versions import Version

C = TypeVar("C")


class MessageCodec(Generic[C]):
    """One object both ways: protobuf message ⇄ canonical value. `find` gives the class of the message."""

    def __init__(self, find: Callable[[], MessageClass], converter: Converter[C]) -> None:
        self._find = find
        self._converter = converter

    def decode(self, message: ProtoMessage) -> C:
        """The canonical value. Raises `Fault`."""
        return self._converter.decode(message)

    decode_reply = decode

    def encode(self, value: C) -> ProtoMessage:
        """The message. Raises LocalProtocolError for a lone surrogate or a number out of range."""
        try:
            return self._find()(**self._converter.encode(value))
        except (ValueError, OverflowError) as exc:
            raise LocalProtocolError(f"Protobuf cannot represent this value: {exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufDialect(Dialect[ProtoMessage]):
    """One release of A2A in protobuf."""

    package: str

    @property
    def service(self) -> str:
        """The full name of the service."""
        return f"{self.package}.A2AService"

    def rpc(self, operation: Operation) -> Rpc:
        """The rpc of an operation.

        Raises:
            UnsupportedOperationError: the dialect has no such operation.
        """
        self._request(operation)
        return rpcs_of_service(self.service)[operation.rpcs[self.version]]

    def encode_event(self, event: StreamEvent, *, ends: bool | None = None) -> ProtoMessage:
        """The message that sends this event in a stream.

        `ends` is whether the stream ends with this event, which 0.3 writes as `final`. A caller that replays a
        finished stream knows that; with `None`, the state decides.

        Raises:
            LocalProtocolError: protobuf cannot represent it.
        """
        message = self.events.encode(event)
        if ends is not None and isinstance(event, StatusUpdate) and self.version is Version.V0_3:
            message.status_update.final = ends
        return message


def protobuf_dialect(
    version: Version,
    package: str,
    operations: dict[Operation, tuple[Converter[Any], Converter[Any] | None]],
    *,
    events: Converter[StreamEvent],
    cards: Converter[AgentCard],
) -> ProtobufDialect:
    """A dialect from the request and the result of each operation that it has; streaming ones have no result."""
    requests: dict[str, MessageCodec[Any]] = {}
    results: dict[str, MessageCodec[Any]] = {}
    dialect = ProtobufDialect(
        version=version,
        package=package,
        requests=requests,
        results=results,
        events=MessageCodec(lambda: message_class(f"{package}.StreamResponse"), events),
        cards=MessageCodec(lambda: message_class(f"{package}.AgentCard"), cards),
    )
    for operation, (request, result) in operations.items():
        requests[operation.name] = MessageCodec(lambda rpc=operation: dialect.rpc(rpc).request, request)
        if result is not None:
            results[operation.name] = MessageCodec(lambda rpc=operation: dialect.rpc(rpc).response, result)
    return dialect
