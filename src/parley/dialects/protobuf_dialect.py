"""A protobuf dialect: one table of converters, and the methods that servers and clients use.

The counterpart of `dialect` for gRPC. Each protobuf package fills the table from its messages (see `protobuf_table`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from parley.dialects.dialect import request_error
from parley.dialects.fields import Fault
from parley.dialects.protobuf_pool import MessageClass, ProtoMessage, Rpc, message_class, rpcs_of_service
from parley.dialects.protobuf_table import Converter
from parley.protocol.cards import AgentCard
from parley.protocol.errors import LocalProtocolError, PeerProtocolError, UnsupportedOperationError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufDialect:
    """One release of A2A in protobuf.

    `operations` holds the request and the result of each operation that the release has; streaming ones have no result.
    """

    version: Version
    package: str
    operations: dict[Operation, tuple[Converter[Any], Converter[Any] | None]]
    events: Converter[StreamEvent]
    cards: Converter[AgentCard]

    @property
    def service(self) -> str:
        """The full name of the service."""
        return f"{self.package}.A2AService"

    def speaks(self, operation: Operation) -> bool:
        """Whether the dialect has this operation."""
        return operation in self.operations

    def rpc(self, operation: Operation) -> Rpc:
        """The rpc of an operation.

        Raises:
            UnsupportedOperationError: the dialect has no such operation.
        """
        self._converters(operation)
        return rpcs_of_service(self.service)[operation.rpcs[self.version]]

    def decode_request(self, operation: Operation, message: ProtoMessage) -> Request:
        """The request that a caller sent.

        Raises:
            InvalidParamsError: it is invalid; the path names the member.
            UnsupportedOperationError: the dialect has no such operation.
        """
        converter, _ = self._converters(operation)
        try:
            return converter.decode(message)
        except Fault as fault:
            raise request_error(fault) from None

    def encode_request(self, operation: Operation, request: Request) -> ProtoMessage:
        """The message that sends this request.

        Raises:
            LocalProtocolError: protobuf cannot represent it.
            UnsupportedOperationError: the dialect has no such operation.
        """
        converter, _ = self._converters(operation)
        return _build(self.rpc(operation).request, converter, request)

    def decode_result(self, operation: Operation, message: ProtoMessage) -> Result:
        """The result that an agent sent.

        Raises:
            PeerProtocolError: it is not valid A2A.
            UnsupportedOperationError: the dialect has no such operation, or it answers with a stream.
        """
        return _decode_reply(self._result(operation), message)

    def encode_result(self, operation: Operation, result: Result) -> ProtoMessage:
        """The message that sends this result.

        Raises:
            LocalProtocolError: protobuf cannot represent it.
            UnsupportedOperationError: the dialect has no such operation, or it answers with a stream.
        """
        return _build(self.rpc(operation).response, self._result(operation), result)

    def decode_event(self, message: ProtoMessage) -> StreamEvent:
        """One event of a stream.

        Raises:
            PeerProtocolError: it is not valid A2A.
        """
        return _decode_reply(self.events, message)

    def encode_event(self, event: StreamEvent, *, ends: bool | None = None) -> ProtoMessage:
        """The message that sends this event in a stream.

        `ends` is whether the stream ends with this event, which 0.3 writes as `final`. A caller that replays a
        finished stream knows that; with `None`, the state decides.

        Raises:
            LocalProtocolError: protobuf cannot represent it.
        """
        message = _build(message_class(f"{self.package}.StreamResponse"), self.events, event)
        if ends is not None and isinstance(event, StatusUpdate) and self.version is Version.V0_3:
            message.status_update.final = ends
        return message

    def decode_card(self, message: ProtoMessage) -> AgentCard:
        """An agent's card.

        Raises:
            PeerProtocolError: it is not a valid card.
        """
        return _decode_reply(self.cards, message)

    def encode_card(self, card: AgentCard) -> ProtoMessage:
        """The card in this dialect."""
        return _build(message_class(f"{self.package}.AgentCard"), self.cards, card)

    def _converters(self, operation: Operation) -> tuple[Converter[Any], Converter[Any] | None]:
        found = self.operations.get(operation)
        if found is None:
            raise UnsupportedOperationError(f"A2A {self.version} has no {operation.name}")
        return found

    def _result(self, operation: Operation) -> Converter[Any]:
        _, converter = self._converters(operation)
        if converter is None:
            raise UnsupportedOperationError(f"A2A {self.version} answers {operation.name} with a stream")
        return converter


def _build(target: MessageClass, converter: Converter[C], value: C) -> ProtoMessage:
    """Build a message; protobuf cannot hold a lone surrogate or a number out of range."""
    try:
        return target(**converter.encode(value))
    except (ValueError, OverflowError) as exc:
        raise LocalProtocolError(f"Protobuf cannot represent this value: {exc}") from exc


def _decode_reply(converter: Converter[C], message: ProtoMessage) -> C:
    try:
        return converter.decode(message)
    except Fault as fault:
        raise PeerProtocolError(fault.reason, path=fault.path) from None
