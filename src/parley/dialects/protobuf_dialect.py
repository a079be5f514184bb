"""A protobuf dialect: one table of codecs, the verbs that servers and clients use, and the types both packages share.

A codec reads a message into a canonical value, and writes a canonical value as `Fields`: the nested keyword arguments
from which protobuf builds the whole message in one call. Readers raise `Fault`; each level adds its name to the path
only when that happens, in the spelling of 1.0. The twin of `dialect`, for gRPC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, Generic, TypeAlias, TypeVar

from parley.dialects.dialect import request_error
from parley.dialects.fields import Fault
from parley.dialects.protobuf_pool import MessageClass, ProtoMessage, Rpc, message_class, rpcs_of_service
from parley.protocol.cards import AgentCard
from parley.protocol.errors import LocalProtocolError, PeerProtocolError, UnsupportedOperationError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version

Fields: TypeAlias = dict[str, Any]  # protobuf's constructors take scalars, dicts, lists and messages alike
C = TypeVar("C")
S = TypeVar("S", bound=Sized)


@dataclass(frozen=True, slots=True)
class Codec(Generic[C]):
    """One object both ways."""

    decode: Callable[[ProtoMessage], C]
    encode: Callable[[C], Fields]

    def build(self, target: MessageClass, value: C) -> ProtoMessage:
        """The message that says this value.

        Raises:
            LocalProtocolError: protobuf cannot say it: half a surrogate pair, or a number out of range.
        """
        try:
            return target(**self.encode(value))
        except (ValueError, OverflowError) as exc:
            raise LocalProtocolError(f"Protobuf cannot say this: {exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufDialect:
    """One release of A2A in protobuf. An operation without an entry in `requests` does not exist there."""

    version: Version
    package: str
    requests: dict[str, Codec[Any]]
    results: dict[str, Codec[Any]]
    events: Codec[StreamEvent]
    cards: Codec[AgentCard]

    @property
    def service(self) -> str:
        """The full name of the service."""
        return f"{self.package}.A2AService"

    def speaks(self, operation: Operation) -> bool:
        """Whether the dialect has this operation."""
        return operation.name in self.requests

    def rpc(self, operation: Operation) -> Rpc:
        """The rpc that stands for an operation.

        Raises:
            UnsupportedOperationError: the dialect has no such operation.
        """
        self._check(operation)
        return rpcs_of_service(self.service)[operation.rpcs[self.version]]

    def decode_request(self, operation: Operation, message: ProtoMessage) -> Request:
        """What a caller asks.

        Raises:
            InvalidParamsError: what it says makes no sense; the path says where.
            UnsupportedOperationError: the dialect has no such operation.
        """
        self._check(operation)
        try:
            return self.requests[operation.name].decode(message)
        except Fault as fault:
            raise request_error(fault) from None

    def encode_request(self, operation: Operation, request: Request) -> ProtoMessage:
        """What to send to ask this.

        Raises:
            UnsupportedOperationError: the dialect has no such operation.
        """
        rpc = self.rpc(operation)
        return self.requests[operation.name].build(rpc.request, request)

    def decode_result(self, operation: Operation, message: ProtoMessage) -> Result:
        """What an agent answered.

        Raises:
            PeerProtocolError: the answer is not A2A.
            UnsupportedOperationError: the dialect has no such operation, or it answers with a stream.
        """
        return _decode_reply(self._result(operation), message)

    def encode_result(self, operation: Operation, result: Result) -> ProtoMessage:
        """The answer in this dialect.

        Raises:
            LocalProtocolError: protobuf cannot say it.
            UnsupportedOperationError: the dialect has no such operation, or it answers with a stream.
        """
        return self._result(operation).build(self.rpc(operation).response, result)

    def decode_event(self, message: ProtoMessage) -> StreamEvent:
        """One message of a stream.

        Raises:
            PeerProtocolError: it is not A2A.
        """
        return _decode_reply(self.events, message)

    def encode_event(self, event: StreamEvent, *, ends: bool | None = None) -> ProtoMessage:
        """The message that tells a stream's reader of this event.

        `ends` says whether the stream ends with this event, which 0.3 writes as `final`. A caller that replays what is
        past knows it; where nobody does (`None`), the state decides.

        Raises:
            LocalProtocolError: protobuf cannot say it.
        """
        message = self.events.build(message_class(f"{self.package}.StreamResponse"), event)
        if ends is not None and isinstance(event, StatusUpdate) and self.version is Version.V0_3:
            message.status_update.final = ends
        return message

    def decode_card(self, message: ProtoMessage) -> AgentCard:
        """An agent's card.

        Raises:
            PeerProtocolError: it is none.
        """
        return _decode_reply(self.cards, message)

    def encode_card(self, card: AgentCard) -> ProtoMessage:
        """The card in this dialect."""
        return self.cards.build(message_class(f"{self.package}.AgentCard"), card)

    def _check(self, operation: Operation) -> None:
        if not self.speaks(operation):
            raise UnsupportedOperationError(f"A2A {self.version} has no {operation.name}")

    def _result(self, operation: Operation) -> Codec[Any]:
        self._check(operation)
        if operation.name not in self.results:
            raise UnsupportedOperationError(f"A2A {self.version} answers {operation.name} with a stream")
        return self.results[operation.name]


def _decode_reply(codec: Codec[C], message: ProtoMessage) -> C:
    try:
        return codec.decode(message)
    except Fault as fault:
        raise PeerProtocolError(fault.reason, path=fault.path) from None


# --- reading members --------------------------------------------------------------------------------------------------


def decode_at(name: str, decode: Callable[[ProtoMessage], C], value: ProtoMessage) -> C:
    """A member, with its name put before the path of any fault in it."""
    try:
        return decode(value)
    except Fault as fault:
        raise _inside(name, fault) from None


def decode_each(name: str, decode: Callable[[ProtoMessage], C], values: Iterable[ProtoMessage]) -> tuple[C, ...]:
    """The items of a repeated member."""
    decoded: list[C] = []
    try:
        for value in values:
            decoded.append(decode(value))
    except Fault as fault:
        raise _inside(f"{name}[{len(decoded)}]", fault) from None
    return tuple(decoded)


def _inside(name: str, fault: Fault) -> Fault:
    return Fault(fault.reason, f"$.{name}{fault.path[1:]}")


def decode_optional(name: str, decode: Callable[[ProtoMessage], C], parent: ProtoMessage, field: str) -> C | None:
    """A message that may be absent."""
    return decode_at(name, decode, getattr(parent, field)) if parent.HasField(field) else None


def decode_required(name: str, decode: Callable[[ProtoMessage], C], parent: ProtoMessage, field: str) -> C:
    """A message that must be there."""
    if not parent.HasField(field):
        raise Fault("Missing", f"$.{name}")
    return decode_at(name, decode, getattr(parent, field))


def required(name: str, value: S) -> S:
    """A text or a list that must not be empty, which in protobuf is the same as missing."""
    if not value:
        raise Fault("Missing or empty", f"$.{name}")
    return value


def decode_count(name: str, value: int) -> int:
    """A number that cannot be negative."""
    if value < 0:
        raise Fault("Negative", f"$.{name}")
    return value


def decode_enum(name: str, meanings: dict[int, C], number: int) -> C:
    """What an enum's number stands for."""
    if number not in meanings:
        raise Fault(f"No such value: {number}", f"$.{name}")
    return meanings[number]


# --- free-form JSON ---------------------------------------------------------------------------------------------------

MAX_DEPTH = 31
"""How deep JSON may nest, so that it can be sent on. Parsers stop at 100 nested messages; an object costs three, and
the outermost is the seventh where it stands deepest."""

MAX_EXACT = 2**53
"""A protobuf number is a double, which is exact for integers up to here."""


def decode_struct(struct: ProtoMessage, depth: int = 1) -> JsonObject:
    """A google.protobuf.Struct as a JSON object, which is this many levels deep in another."""
    _check_depth(depth)
    return {name: decode_value(value, depth) for name, value in struct.fields.items()}


def decode_metadata(message: ProtoMessage) -> JsonObject:
    """The metadata of a message, which most messages have none of."""
    return decode_at("metadata", decode_struct, message.metadata) if message.HasField("metadata") else {}


def encode_struct(value: JsonObject) -> ProtoMessage | None:
    """A JSON object as a google.protobuf.Struct; nothing for an empty one.

    Raises:
        LocalProtocolError: it nests too deep, or holds what JSON cannot.
    """
    if not value:
        return None
    struct = message_class("google.protobuf.Struct")()
    _fill_struct(struct, value, 1)
    return struct


def decode_value(value: ProtoMessage, depth: int = 1) -> JsonValue:
    """A google.protobuf.Value as JSON. Whole numbers are integers again; one without any kind is null.

    It counts as one level deep even when it stands alone, for 0.3 may have to wrap it in an object.
    """
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return _decode_number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return decode_struct(value.struct_value, depth + 1)
        case "list_value":
            _check_depth(depth + 1)
            return [decode_value(item, depth + 1) for item in value.list_value.values]
        case _:
            return None


def encode_value(value: JsonValue) -> ProtoMessage:
    """Any JSON as a google.protobuf.Value.

    Raises:
        LocalProtocolError: it nests too deep, or holds what JSON cannot.
    """
    target = message_class("google.protobuf.Value")()
    _fill_value(target, value, 0)
    return target


def _decode_number(number: float) -> int | float:
    if number.is_integer() and abs(number) <= MAX_EXACT:
        return int(number)
    if not isfinite(number):
        raise Fault("JSON has no infinity and no NaN")
    return number


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Fault(f"Nested deeper than {MAX_DEPTH} levels")


def _fill_struct(target: ProtoMessage, value: JsonObject, depth: int) -> None:
    fields = target.fields
    for name, item in value.items():
        _fill_value(fields[name], item, depth)


def _fill_value(target: ProtoMessage, value: JsonValue, depth: int) -> None:
    match value:
        case str():
            target.string_value = value
        case bool():
            target.bool_value = value
        case int() | float() if isfinite(value):
            target.number_value = value
        case None:
            target.null_value = 0
        case dict() | list() if depth == MAX_DEPTH:
            raise LocalProtocolError(f"Protobuf cannot say JSON that nests deeper than {MAX_DEPTH} levels")
        case dict():
            target.struct_value.SetInParent()  # an empty object is a value, too
            _fill_struct(target.struct_value, value, depth + 1)
        case list():
            target.list_value.SetInParent()
            for item in value:
                _fill_value(target.list_value.values.add(), item, depth + 1)
        case _:
            raise LocalProtocolError(f"Not JSON: {value!r:.100}")


# --- timestamps -------------------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND = -62_135_596_800  # 0001-01-01T00:00:00Z
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z


def decode_timestamp(timestamp: ProtoMessage) -> datetime:
    """A google.protobuf.Timestamp, to the microsecond."""
    if not _FIRST_SECOND <= timestamp.seconds <= _LAST_SECOND or not 0 <= timestamp.nanos < 1_000_000_000:
        raise Fault("Timestamp out of range")
    return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)


def encode_timestamp(timestamp: datetime | None) -> Fields | None:
    """The fields of a google.protobuf.Timestamp."""
    if timestamp is None:
        return None
    since = timestamp - _EPOCH
    return {"seconds": since.days * 86_400 + since.seconds, "nanos": since.microseconds * 1000}
