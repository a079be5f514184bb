"""Whatever the bytes, a decoder gives a value or one of the protocol's errors, and an error names its place."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from parley.dialects import json_errors, v0_3_protojson
from parley.dialects.cards import decode_any_card
from parley.dialects.detect import is_proto_shape
from parley.dialects.dialect import JsonDialect
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import decode_rest_request
from parley.protocol.errors import InternalError, InvalidParamsError, ParleyError, ParseError, PeerProtocolError
from parley.protocol.operations import OPERATIONS, Operation, routes_of
from parley.protocol.versions import Version
from tests import strategies

PAIRS = [(dialect, op) for dialect in DIALECTS.values() for op in OPERATIONS if dialect.speaks(op)]
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["text", "kind", "type", "role", "data", "raw", "id"]), st.text(max_size=3)),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value, itself included."""
    found = [path]
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


def with_replaced(value: Any, path: tuple[Any, ...], replacement: Any) -> Any:
    if not path:
        return replacement
    copy = value.copy()
    copy[path[0]] = with_replaced(value[path[0]], path[1:], replacement)
    return copy


def damaged(data: st.DataObject, raw: bytes) -> bytes:
    """The same JSON with one value replaced, or the same bytes with one of them changed or the end cut off."""
    if data.draw(st.booleans()):
        value = msgspec.json.decode(raw)
        place = data.draw(st.sampled_from(places(value)))
        return msgspec.json.encode(with_replaced(value, place, data.draw(junk)))
    at = data.draw(st.integers(0, len(raw)))
    return raw[:at] + data.draw(st.binary(max_size=1)) + (raw[at + 1 :] if data.draw(st.booleans()) else b"")


def each(dialects: Iterable[JsonDialect]) -> Iterator[JsonDialect]:
    """The dialects one after the other; the last one that is noted is the one that failed."""
    for dialect in dialects:
        note(str(dialect.version))
        yield dialect


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@given(data=st.data())
def test_a_damaged_request_is_read_or_refused_with_its_place(operation: Operation, data: Any) -> None:
    whole = data.draw(strategies.requests[operation.name])
    for dialect in each(dialect for dialect in DIALECTS.values() if dialect.speaks(operation)):
        try:
            request = dialect.decode_request(operation, damaged(data, dialect.encode_request(operation, whole)))
        except InvalidParamsError as error:
            assert error.path is not None
            assert error.path.startswith("$")
        except ParseError:
            pass
        else:
            assert isinstance(request, operation.request)


@given(data=st.data())
def test_a_damaged_reply_is_read_or_refused(data: Any) -> None:
    operation = data.draw(st.sampled_from([op for op in OPERATIONS if not op.streams]))
    result = data.draw(strategies.results[operation.name])
    for dialect in each(dialect for dialect in DIALECTS.values() if dialect.speaks(operation)):
        try:
            dialect.decode_result(operation, damaged(data, dialect.encode_result(operation, result)))
        except PeerProtocolError as error:
            assert error.path is not None


@given(data=st.data())
def test_a_damaged_stream_frame_is_read_or_refused(data: Any) -> None:
    others = strategies.tasks | strategies.messages | strategies.status_updates
    event = data.draw(others | strategies.slotted_artifact_updates)
    for dialect in each(DIALECTS.values()):
        try:
            dialect.decode_event(damaged(data, dialect.encode_event(event)[-1]))
        except PeerProtocolError as error:
            assert error.path is not None


@given(data=st.data())
def test_a_damaged_card_is_read_or_refused(data: Any) -> None:
    card = data.draw(strategies.cards)
    for dialect in each(DIALECTS.values()):
        raw = damaged(data, dialect.encode_card(card))
        for decode in (dialect.decode_card, decode_any_card):
            try:
                decode(raw)
            except PeerProtocolError as error:
                assert error.path is not None


def test_an_object_where_text_or_a_list_belongs_is_refused() -> None:
    """Found by the test before, one time in hundreds."""
    raw = b'{"name":"n","url":"u","version":"1","capabilities":{},"authentication":{"schemes":{}},"skills":[]}'
    for decode in (DIALECTS[Version.V0_1].decode_card, decode_any_card):
        with pytest.raises(PeerProtocolError, match="schemes"):
            decode(raw)


@given(raw=st.binary(max_size=40))
def test_arbitrary_bytes_are_refused_everywhere(raw: bytes) -> None:
    assume(not raw.strip().startswith(b"{"))  # an object may be a request, and others damage those
    for dialect, operation in PAIRS:
        with pytest.raises((InvalidParamsError, ParseError)):
            dialect.decode_request(operation, raw)
    for version in Version:
        with pytest.raises(PeerProtocolError):
            json_errors.decode_error(version, raw)
    assert isinstance(json_errors.decode_rest_error(500, raw), InternalError)


@pytest.mark.parametrize("version", [Version.V0_3, Version.V1_0])
@given(data=st.data(), value=junk | strategies.json_values)
def test_any_rest_request_is_read_or_refused(version: Version, data: Any, value: Any) -> None:
    route, operation = data.draw(st.sampled_from(routes_of(version)))
    names = {name: data.draw(strategies.names) for name in ("id", "config_id") if f"{{{name}}}" in route.path}

    try:
        request, _ = decode_rest_request(
            version, operation, parameters=names, query={}, body=msgspec.json.encode(value), tenant="acme"
        )
    except ParleyError as error:
        assert isinstance(error, InvalidParamsError | ParseError)
    else:
        assert isinstance(request, operation.request)


@given(data=st.data())
def test_a_damaged_protojson_request_of_0_3_is_read_or_refused(data: Any) -> None:
    dialect, operation = v0_3_protojson.REST_DIALECT, OPERATIONS[0]
    raw = damaged(data, dialect.encode_request(operation, data.draw(strategies.requests[operation.name])))

    try:
        is_proto_shape(msgspec.json.decode(raw))
        dialect.decode_request(operation, raw)
    except (InvalidParamsError, ParseError, msgspec.DecodeError, UnicodeDecodeError):
        pass
