"""JSON-RPC envelopes: what is read, what is refused and with which id, and that everything written is read back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    LocalProtocolError,
    ParseError,
    PeerProtocolError,
)
from parley.wire.jsonrpc import (
    RejectedRequest,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_error,
    encode_request,
    encode_result,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
).map(lambda value: json.dumps(value).encode())
json_objects = st.dictionaries(st.text(), json_values, max_size=4).map(
    lambda members: b"{%b}" % b",".join(json.dumps(name).encode() + b":" + value for name, value in members.items())
)
ids = (st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()).map(
    lambda value: json.dumps(value, ensure_ascii=False).encode()
)
methods = st.text()


def rejection_of(body: bytes) -> RejectedRequest:
    with pytest.raises(RejectedRequest) as caught:
        decode_request(body)
    return caught.value


def assert_rejected(
    body: bytes, error: type[A2AError], *, path: str | None = None, request_id: bytes = b"null"
) -> None:
    rejected = rejection_of(body)
    assert (type(rejected.error), rejected.error.path, rejected.request_id) == (error, path, request_id)


@given(ids, methods, json_objects)
def test_a_request_that_was_encoded_is_decoded_to_the_same(id: bytes, method: str, params: bytes):
    assert decode_request(encode_request(id, method, params)) == Request(id, method, params)


@given(ids, json_values)
def test_a_result_that_was_encoded_is_decoded_to_the_same(id: bytes, result: bytes):
    assert decode_response(encode_result(id, result)) == Response(id, result=result)


@given(ids, json_objects)
def test_an_error_that_was_encoded_is_decoded_to_the_same(id: bytes, error_object: bytes):
    assert decode_response(encode_error(id, error_object)) == Response(id, error=error_object)


def test_what_is_encoded_is_compact_json_rpc():
    assert encode_request(b"1", "tasks/gét", b"{}") == (
        '{"jsonrpc":"2.0","id":1,"method":"tasks/gét","params":{}}'.encode()
    )
    assert encode_result(b'"a"', b"[1]") == b'{"jsonrpc":"2.0","id":"a","result":[1]}'
    assert encode_error(b"null", b'{"code":1}') == b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}'


@pytest.mark.parametrize(
    "spelling",
    ["1", "1.50", "-0.0", "1e3", "1E+400", "9" * 5000, '""', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '"a/b"', "null"],
)
def test_an_id_keeps_its_exact_spelling(spelling: str):
    request = decode_request(f'{{"jsonrpc":"2.0", "id": {spelling} , "method":"GetTask"}}'.encode())
    assert request.id == spelling.encode()


def test_a_request_of_0_1_may_lack_jsonrpc_and_id():
    request = decode_request(b'{"method":"tasks/get","params":{"id":"t"}}')
    assert request == Request(b"null", "tasks/get", b'{"id":"t"}', states_version=False)


@pytest.mark.parametrize("params", [b"", b',"params":null', b',"params":{}'])
def test_params_that_are_absent_or_null_are_empty(params: bytes):
    assert decode_request(b'{"id":1,"method":"GetExtendedAgentCard"%b}' % params).params == b"{}"


def test_escapes_in_names_and_strings_mean_what_they_say():
    body = rb'{"jsonrpc":"\u0032.0","i\u0064":7,"method":"Get\u0054ask","params":{}}'
    assert decode_request(body) == Request(b"7", "GetTask", b"{}")


@pytest.mark.parametrize("id", [b"true", b"false", b"{}", b"[1]"])
def test_an_id_that_is_no_string_number_or_null_is_refused(id: bytes):
    assert_rejected(b'{"id":%b,"method":"GetTask"}' % id, InvalidRequestError, path="$.id")


@pytest.mark.parametrize("version", [b'"1.0"', b"2.0", b"null", b"{}"])
def test_another_version_of_json_rpc_is_refused_under_its_id(version: bytes):
    body = b'{"jsonrpc":%b,"id":"x","method":"GetTask"}' % version
    assert_rejected(body, InvalidRequestError, path="$.jsonrpc", request_id=b'"x"')


@pytest.mark.parametrize("method", [b"", b',"method":null', b',"method":1', b',"method":["GetTask"]'])
def test_a_request_without_a_method_is_refused_under_its_id(method: bytes):
    assert_rejected(b'{"id":1.50%b}' % method, InvalidRequestError, path="$.method", request_id=b"1.50")


@pytest.mark.parametrize("params", [b"[]", b"1", b'"x"', b"false"])
def test_params_that_are_no_object_are_refused_under_the_id(params: bytes):
    body = b'{"id":3,"method":"GetTask","params":%b}' % params
    assert_rejected(body, InvalidParamsError, path="$.params", request_id=b"3")


def test_a_batch_is_refused_by_name():
    rejected = rejection_of(b'[{"id":1,"method":"GetTask"}]')
    assert isinstance(rejected.error, InvalidRequestError)
    assert "Batches are not part of A2A" in str(rejected)


@pytest.mark.parametrize("body", [b'"GetTask"', b"1", b"null", b" true "])
def test_json_that_is_no_object_is_refused(body: bytes):
    assert_rejected(body, InvalidRequestError, path="$")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"GetTask",
        b"{",
        b"[",
        b"[1] 2",
        b'{"id":1,"method":"GetTask"} x',
        b'{"id":NaN,"method":"GetTask"}',
        b'{"id":1,"method":"GetTask","params":{"x":Infinity}}',
        b'{"id":1,"method":"GetTask",}',
        b'{"id":01,"method":"GetTask"}',
        b'{"id":"\xff","method":"GetTask"}',
        b'{"id":1,"method":"\xff"}',
        b'{"id":1,"method":"GetTask","params":{"x":"\xff"}}',
        b'{"id":1,"method":"GetTask","other":"\xff"}',
        rb'{"id":"\udc00","method":"GetTask"}',
        rb'{"id":1,"method":"GetTask","params":{"x":"\ud800"}}',
        b'\xef\xbb\xbf{"id":1,"method":"GetTask"}',
        '{"id":1,"method":"GetTask"}'.encode("utf-16"),
    ],
)
def test_bytes_that_are_no_json_are_refused(body: bytes):
    assert_rejected(body, ParseError)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"id":1,"params":' + b"[" * 100_000])
def test_json_that_is_nested_too_deeply_is_refused(body: bytes):
    rejected = rejection_of(body)
    assert isinstance(rejected.error, ParseError)
    assert str(rejected) == "The JSON text is nested too deeply"


def envelopes(*names: str) -> st.SearchStrategy[bytes]:
    """Objects with some of the names an envelope has, each holding any JSON."""
    members = st.dictionaries(st.sampled_from(names), json_values | st.just(b'"2.0"'))
    return members.map(lambda m: b"{%b}" % b",".join(b'"%b":%b' % (k.encode(), v) for k, v in m.items()))


any_bytes = st.binary() | json_values | json_values.map(lambda value: value[:-1])


@given(any_bytes | envelopes("jsonrpc", "id", "method", "params"))
def test_whatever_arrives_is_a_request_or_is_rejected_with_an_error_that_can_be_sent(body: bytes):
    outcome = outcome_of(body)
    if isinstance(outcome, Request):
        assert is_an_id(outcome.id)
        assert isinstance(json.loads(outcome.params), dict)
    else:
        assert isinstance(outcome.error, ParseError | InvalidRequestError | InvalidParamsError)
        assert is_an_id(outcome.request_id)


def outcome_of(body: bytes) -> Request | RejectedRequest:
    try:
        return decode_request(body)
    except RejectedRequest as rejected:
        return rejected


def is_an_id(text: bytes) -> bool:
    value: Any = json.loads(text)
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


@given(any_bytes | envelopes("jsonrpc", "id", "result", "error"))
@example(b'{"id":1,"result":null}')
@example(b'{"id":1,"error":{}}')
def test_whatever_arrives_is_a_response_or_the_peers_fault(body: bytes):
    try:
        response = decode_response(body)
    except PeerProtocolError:
        return
    assert is_an_id(response.id)
    assert (response.result is None) != (response.error is None)


@pytest.mark.parametrize(
    ("body", "response"),
    [
        (b'{"id":1,"result":null}', Response(b"1", result=b"null")),
        (b'{"id":1,"result":{"a" : 1},"error":null}', Response(b"1", result=b'{"a" : 1}')),
        (b'{"id":1,"result":null,"error":null}', Response(b"1", result=b"null")),
        (b'{"id":1,"result":null,"error":{"code":1}}', Response(b"1", error=b'{"code":1}')),
        (b'{"id":1}', Response(b"1", result=b"null")),  # how a2a-sdk 0.2 and 0.3 answer a deletion
        (b'{"id":1,"error":null}', Response(b"1", result=b"null")),
        (b'{"error":{"code":1}}', Response(b"null", error=b'{"code":1}')),
    ],
)
def test_null_beside_the_other_member_counts_as_absent(body: bytes, response: Response):
    assert decode_response(body) == response


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"id":1,"result":{},"error":{}}', None),
        (b'{"id":1,"error":"no"}', "$.error"),
        (b'{"id":[],"result":{}}', "$.id"),
        (b'{"jsonrpc":"1.0","result":{}}', "$.jsonrpc"),
        (b"[]", "$"),
        (b"<html>", None),
        (b'{"id":1,"result":"\xff"}', None),
        (b'{"id":1,"result":' + b"[" * 100_000, None),
    ],
)
def test_a_peer_that_sends_no_response_is_told_apart_from_one_that_fails(body: bytes, path: str | None):
    with pytest.raises(PeerProtocolError) as caught:
        decode_response(body)
    assert caught.value.path == path


@given(st.floats())
def test_only_finite_numbers_are_ids(number: float):
    body = b'{"id":%b,"method":"m"}' % json.dumps(number).encode()
    if math.isfinite(number):
        assert decode_request(body).id == json.dumps(number).encode()
    else:
        assert_rejected(body, ParseError)


def test_half_a_surrogate_pair_is_no_method() -> None:
    with pytest.raises(LocalProtocolError, match="The method is not Unicode"):
        encode_request(b"1", "\ud800", b"{}")


@pytest.mark.parametrize(
    ("body", "error", "path", "request_id"),
    [
        (b'{"id":1,"method":"m","method":"n"}', InvalidRequestError, "$.method", b"1"),
        (b'{"id":1,"method":"m","params":{"id":1},"params":{"id":1}}', InvalidRequestError, "$.params", b"1"),
        (b'{"id":1,"method":"m","id":2}', InvalidRequestError, "$.id", b"null"),
        (b'{"id":1,"method":"m","params":{"a":[{"b":1,"\\u0062":2}]}}', InvalidParamsError, "$.a[0].b", b"1"),
    ],
)
def test_a_name_that_comes_twice_is_refused(body: bytes, error: type[A2AError], path: str, request_id: bytes) -> None:
    assert_rejected(body, error, path=path, request_id=request_id)
    assert decode_response(b'{"id":1,"result":{"a":1,"a":2}}').result == b'{"a":1,"a":2}'  # of others all is taken


def test_a_name_that_comes_twice_is_refused_however_deep_the_rest_is() -> None:
    """Two readers look at a request, and one of them reads a little less deep than the other."""
    for depth in range(500, 1_050):
        body = b'{"id":1,"method":"m","method":"n","x":%b%b}' % (b"[" * depth, b"]" * depth)
        with pytest.raises(RejectedRequest):
            decode_request(body)
