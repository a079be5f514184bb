"""A dialect: one table of codecs, and the methods that servers and clients use.

Each dialect module fills the table; a missing entry means that the dialect lacks the operation. Requests that cannot be
read are the caller's fault (`ParseError`, `InvalidParamsError`), replies the peer's (`PeerProtocolError`). A dialect
in JSON is a `JsonDialect`; `protobuf_dialect` has the counterpart for gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from parley.dialects.fields import MAX_DEPTH, MAX_REPLY_DEPTH, Fault, Reader
from parley.protocol.cards import AgentCard
from parley.protocol.errors import (
    InvalidParamsError,
    LocalProtocolError,
    ParseError,
    PeerProtocolError,
    UnsupportedOperationError,
)
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

M = TypeVar("M")
W = TypeVar("W")
C = TypeVar("C")

_encoder = msgspec.json.Encoder()


class Codec(Generic[W, C]):
    """One object both ways: bytes ⇄ wire struct (by `reader`) ⇄ canonical value (by the two functions)."""

    def __init__(self, reader: Reader[W], decode: Callable[[W], C], encode: Callable[[C], Any]) -> None:
        self.reader = reader
        self._decode = decode
        self._encode = encode

    def decode(self, raw: bytes, *, max_depth: int = MAX_DEPTH) -> C:
        """The canonical value.

        Raises:
            Fault: the bytes are not valid.
        """
        return self._decode(self.reader.read(raw, max_depth=max_depth))

    def decode_reply(self, raw: bytes) -> C:
        """The same for a reply, which may nest deeper."""
        return self.decode(raw, max_depth=MAX_REPLY_DEPTH)

    def decode_value(self, value: JsonValue) -> C:
        """The canonical value of JSON that was parsed already."""
        return self._decode(self.reader.read_value(value))

    def encode(self, value: C) -> bytes:
        """The JSON text.

        Raises:
            LocalProtocolError: the value lacks something that this dialect requires, or JSON cannot represent it.
        """
        try:
            return _encoder.encode(self._encode(value))
        except ValueError as exc:  # of a struct, or (UnicodeEncodeError) of the encoder for a lone surrogate
            raise LocalProtocolError(str(exc)) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Generic[M]):
    """One release of A2A in one format; `M` is a message in it: JSON text, or a message of protobuf.

    Each codec has `decode`, `decode_reply` and `encode`. Those of requests and results go by the operation's name.
    """

    version: Version
    requests: dict[str, Any]
    results: dict[str, Any]
    events: Any
    cards: Any

    def speaks(self, operation: Operation) -> bool:
        """Whether the dialect has this operation."""
        return operation.name in self.requests

    def decode_request(self, operation: Operation, params: M) -> Request:
        """The request that a caller sent.

        Raises:
            InvalidParamsError, ParseError: it is invalid; the path names the member.
            UnsupportedOperationError: the dialect has no such operation.
        """
        try:
            return self._request(operation).decode(params)
        except Fault as fault:
            raise request_error(fault) from None

    def encode_request(self, operation: Operation, request: Request) -> M:
        """What sends a request.

        Raises:
            LocalProtocolError: the request lacks something that this dialect requires, or it cannot represent it.
            UnsupportedOperationError: the dialect has no such operation.
        """
        return self._request(operation).encode(request)

    def decode_result(self, operation: Operation, raw: M) -> Result:
        """The result that an agent sent.

        Raises:
            PeerProtocolError: it is not valid A2A.
            UnsupportedOperationError: the dialect has no such operation, or it answers with a stream.
        """
        return _decode_reply(self._result(operation), raw)

    def encode_result(self, operation: Operation, result: Result) -> M:
        """The answer in this dialect.

        Raises:
            LocalProtocolError: the answer lacks something that this dialect requires, or it cannot represent it.
            UnsupportedOperationError: the dialect has no such operation, or it answers with a stream.
        """
        return self._result(operation).encode(result)

    def decode_event(self, raw: M) -> StreamEvent:
        """One event of a stream.

        Raises:
            PeerProtocolError: it is not valid A2A.
        """
        return _decode_reply(self.events, raw)

    def decode_card(self, raw: M) -> AgentCard:
        """An agent's card.

        Raises:
            PeerProtocolError: it is not a valid card.
        """
        return _decode_reply(self.cards, raw)

    def encode_card(self, card: AgentCard) -> M:
        """The card in this dialect, without members of others.

        Raises:
            LocalProtocolError: the dialect cannot represent it.
        """
        return self.cards.encode(card)

    def _request(self, operation: Operation) -> Any:
        codec = self.requests.get(operation.name)
        if codec is None:
            raise UnsupportedOperationError(f"A2A {self.version} has no {operation.name}")
        return codec

    def _result(self, operation: Operation) -> Any:
        codec = self.results.get(operation.name)
        if codec is None:
            self._request(operation)
            raise UnsupportedOperationError(f"A2A {self.version} answers {operation.name} with a stream")
        return codec


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDialect(Dialect[bytes]):
    """One release of A2A in JSON.

    `frames` gives the wire structs of a stream event: one, except in 0.1, which has no snapshots and sends their parts.
    Its second argument is whether the stream ends with the event, if that is known. `pushes_events` is whether a
    webhook gets the event itself, as in 1.0, or the whole task.
    """

    requests: dict[str, Codec[Any, Any]]
    results: dict[str, Codec[Any, Any]]
    events: Codec[Any, StreamEvent]
    cards: Codec[Any, AgentCard]
    pushes: Codec[Any, StreamEvent]
    frames: Callable[[StreamEvent, bool | None], tuple[Any, ...]]
    pushes_events: bool = False

    def decode_request_value(self, operation: Operation, value: JsonObject) -> Request:
        """The request in JSON that was put together from a path, a query and a body. Raises as `decode_request`."""
        try:
            return self._request(operation).decode_value(value)
        except Fault as fault:
            raise request_error(fault) from None

    def encode_event(self, event: StreamEvent, *, ends: bool | None = None) -> tuple[bytes, ...]:
        """The frames that send this event in a stream; only the last may carry the event's SSE id.

        `ends` is whether the stream ends with this event, which dialects before 1.0 write as `final`. A caller that
        replays a finished stream knows that; with `None`, the state decides.

        Raises:
            LocalProtocolError: the event lacks something that this dialect requires, or JSON cannot represent it.
        """
        try:
            return tuple([_encoder.encode(wire) for wire in self.frames(event, ends)])
        except ValueError as exc:  # as in `Codec.encode`
            raise LocalProtocolError(str(exc)) from exc

    def decode_push(self, raw: bytes) -> StreamEvent:
        """What a webhook received.

        Raises:
            PeerProtocolError: the body is not valid A2A.
        """
        return _decode_reply(self.pushes, raw)

    def encode_push(self, event: StreamEvent, task: Task) -> bytes:
        """The body for a webhook that was registered in this dialect: the event in 1.0, before that the whole task.

        Raises:
            LocalProtocolError: it lacks something that this dialect requires, or JSON cannot represent it.
        """
        return self.pushes.encode(event if self.pushes_events else task)


def request_error(fault: Fault) -> InvalidParamsError | ParseError:
    """A fault in what a caller sent, as the error to answer with."""
    if fault.is_syntax:
        return ParseError(fault.reason)
    return InvalidParamsError(fault.reason, path=fault.path)


def _decode_reply(codec: Any, raw: object) -> Any:
    try:
        return codec.decode_reply(raw)
    except Fault as fault:
        raise PeerProtocolError(fault.reason, path=fault.path) from None


def nothing(_: object) -> None:
    """The canonical answer to a deletion, which has no content."""
