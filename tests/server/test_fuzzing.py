"""Whatever a caller sends, the server answers soon, does not call it its own failure, and goes on answering.

Requests of all four dialects and both protobuf services are damaged and sent over real connections. `make soak` runs
many more, and others each time.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Generator
from typing import Any

import grpc
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from parley.dialects import protobuf_v0_3, protobuf_v1_0
from parley.dialects.registry import DIALECTS
from parley.protocol.operations import OPERATIONS
from parley.protocol.versions import Version
from parley.wire.sse import HEARTBEAT
from tests import samples
from tests.dialects.test_fuzzing import junk, places, with_replaced
from tests.server.served import Served, served_agent

EXAMPLES = int(os.environ.get("PARLEY_FUZZ_EXAMPLES", "0"))
ANSWER_SECONDS = 15  # far more than any answer takes, even on a machine that is busy with other tests

CALLS = [
    msgspec.json.encode(
        {"jsonrpc": "2.0", "id": 1, "method": operation.methods[version], "params": msgspec.Raw(encoded)}
    )
    for version, dialect in DIALECTS.items()
    for operation in OPERATIONS
    if version in operation.methods
    for request in samples.REQUESTS[operation.name]
    for encoded in [dialect.encode_request(operation, request)]
]

fuzzed = settings(
    max_examples=EXAMPLES or 2_000,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def served() -> Generator[Served]:
    """The server, with the task `t-1` of the samples: 0.1 lets callers choose ids, and its sends open it again."""
    with served_agent() as agent:
        message = {"role": "user", "parts": [{"type": "text", "text": "ask me"}]}
        params = {"id": "t-1", "sessionId": "c-1", "message": message}
        call = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params})
        assert b'"state":"input-required"' in exchange(agent.http, call, [])
        yield agent


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------

ODD_NUMBERS = [b"1e999", b"-1e999", b"1" * 400, b"0." + b"1" * 4_000, b"1e-400", b"-0", b"9223372036854775808", b"01"]
ODD_TEXTS = [
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\\u0000"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"\x00"',
    b'"a/b:cancel"',
]
ODD_TIMES = [b'"9999-12-31T23:59:59-23:59"', b'"0000-01-01T00:00:00Z"', b'"2026-13-01"']
ODD_SYNTAX = [b'{"a":1,"a":2}', b'{"":{"":[]}}', b"NaN", b"nul", b"'x'", b"[1,]", b"// x", b"\xef\xbb\xbf{}"]
ODD_JSON = st.one_of(
    junk.map(msgspec.json.encode),
    st.sampled_from(ODD_NUMBERS),
    st.sampled_from(ODD_TEXTS),
    st.sampled_from(ODD_TIMES),
    st.sampled_from(ODD_SYNTAX),
    st.builds(lambda opens, depth: opens * depth, st.sampled_from([b"[", b'{"a":']), st.sampled_from([31, 100_000])),
    st.builds(
        lambda pair, depth: pair[0] * depth + b"1" + pair[1] * depth,
        st.sampled_from([(b"[", b"]"), (b'{"a":', b"}")]),
        st.sampled_from([28, 30, 45, 200, 5_000]),
    ),
)
HEADER_NAMES = (
    b"A2A-Version A2A-Extensions X-A2A-Extensions Last-Event-ID Content-Type Content-Encoding Accept Authorization "
    b"Cookie Host Origin Expect traceparent baggage If-None-Match X-Forwarded-For"
)
HEADER_WORDS = b"1.0 0.3 0.2.6 0.1 9.9 1 -1 99999999999999999999 text/html * gzip 00-0-0-0 100-continue [::1 a=b;c"
HEADER_TEXTS = [b"", b"application/json; charset=utf-16", b"Bearer \xff", b"Basic !!!", b"a" * 9_000, b"\xff", b"x\x7f"]
SOME_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(HEADER_NAMES.split()),
        st.one_of(
            st.sampled_from(HEADER_WORDS.split()),
            st.sampled_from(HEADER_TEXTS),
            st.binary(max_size=12).map(lambda text: re.sub(rb"[\r\n\x00]", b"?", text)),
        ),
    ),
    max_size=3,
)
HEADERS = st.one_of(st.just([]), SOME_HEADERS)  # most calls must come past the headers


@st.composite
def damaged_calls(draw: st.DrawFn) -> bytes:
    """A call with something odd in it, or with damaged bytes, or both."""
    raw = draw(st.sampled_from(CALLS))
    if draw(st.integers(0, 3)):
        value = json.loads(raw)
        place = draw(st.sampled_from(places(value)))
        if draw(st.booleans()) and place:
            raw = msgspec.json.encode(with_replaced(value, place, "@odd@")).replace(b'"@odd@"', draw(ODD_JSON))
        else:
            name = json.dumps(str(place[-1]) if place else "id").encode()
            raw = raw[:-1] + b"," + name + b":" + draw(ODD_JSON) + b"}"  # the same name twice, or an unknown one
    return raw if draw(st.integers(0, 3)) else draw(damaged_bytes(raw))


@st.composite
def damaged_bytes(draw: st.DrawFn, raw: bytes) -> bytes:
    at = draw(st.integers(0, len(raw)))
    length = draw(st.sampled_from([0, 1, 1, 2, 7, len(raw)]))
    return raw[:at] + draw(st.binary(max_size=3)) + raw[at + length :]


def exchange(port: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """All that the server sends back until it closes the connection; of a stream the first event."""
    names = {name.lower() for name, _ in headers}
    usual = [(b"Host", b"localhost"), (b"Content-Type", b"application/json")]
    sent = [(name, value) for name, value in usual if name.lower() not in names] + headers
    head = b"".join(b"%b: %b\r\n" % header for header in sent)
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(
            b"POST / HTTP/1.1\r\n%bConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        )
        received = b""
        while piece := connection.recv(65_536):
            received = (received + piece).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
            if b"content-type: text/event-stream" in received and b"\ndata: " in received:
                break  # what follows is up to the task, which may wait for an answer
            assert received.count(HEARTBEAT) < 2, "a stream that says nothing"
        return received


@fuzzed
@given(body=damaged_calls(), headers=HEADERS)
def test_no_call_is_answered_with_a_failure_of_the_server(
    served: Served, body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    reply = exchange(served.http, body, headers)
    status = re.match(rb"HTTP/1\.1 (\d{3}) ", reply)
    assert status is not None, reply
    assert int(status[1]) < 500, reply
    assert b'"code":-32603' not in reply, reply


# --- gRPC -------------------------------------------------------------------------------------------------------------

RPCS = [
    (f"/{dialect.service}/{operation.rpcs[dialect.version]}", operation.streams, message.SerializeToString())
    for dialect in (protobuf_v1_0.DIALECT, protobuf_v0_3.DIALECT)
    for operation in OPERATIONS
    if dialect.speaks(operation)
    for request in samples.REQUESTS[operation.name]
    for message in [dialect.encode_request(operation, request)]
]
OUR_FAULT = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


def nested(depth: int, field: int = 1) -> bytes:
    """A protobuf message in a message in a message."""
    message = b""
    for _ in range(depth):
        length, size = len(message), b""
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        message = bytes([field << 3 | 2]) + size + bytes([length]) + message
    return message


ODD_BYTES = st.one_of(
    st.binary(max_size=64),
    st.sampled_from(
        [b"\x0a\x02\xff\xfe", b"\xff" * 11, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b\x0c", b"\x00", b"\x08" * 99]
    ),
    st.builds(nested, st.sampled_from([40, 99, 101, 1_000]), st.integers(1, 8)),
    st.sampled_from([request for _, _, request in RPCS]),
)
SOME_METADATA = st.lists(
    st.one_of(
        st.tuples(st.just("a2a-version"), st.sampled_from(["1.0", "0.3", "9", "", "1.0.0.0"])),
        st.tuples(st.just("last-event-id"), st.sampled_from(["7", "x", "-1", "9" * 30])),
        st.sampled_from([("a2a-extensions", ",,"), ("authorization", "Bearer"), ("x-bin", b"\xff\x00")]),
    ),
    max_size=3,
)
METADATA = st.one_of(st.just([]), SOME_METADATA)


@st.composite
def damaged_rpcs(draw: st.DrawFn) -> tuple[str, bool, bytes]:
    method, streams, request = draw(st.sampled_from(RPCS))
    match draw(st.integers(0, 3)):
        case 0:
            request = draw(ODD_BYTES)
        case 1:
            request += draw(ODD_BYTES)
        case _:
            request = draw(damaged_bytes(request))
    return method, streams, request


@pytest.fixture(scope="module")
def channel(served: Served) -> Generator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        yield channel


def call_rpc(channel: grpc.Channel, method: str, streams: bool, request: bytes, metadata: Any) -> grpc.StatusCode:
    try:
        if streams:
            call = channel.unary_stream(method)(request, timeout=ANSWER_SECONDS, metadata=metadata)
            next(call)  # what follows is up to the task, which may wait for an answer
            call.cancel()
        else:
            channel.unary_unary(method)(request, timeout=ANSWER_SECONDS, metadata=metadata)
    except grpc.RpcError as error:
        return error.code()  # type: ignore[attr-defined]  # the error of a call is the call
    return grpc.StatusCode.OK


@fuzzed
@given(rpc=damaged_rpcs(), metadata=METADATA)
@example(rpc=("/lf.a2a.v1.A2AService/NoSuch", False, b""), metadata=[])
def test_no_rpc_is_answered_with_a_failure_of_the_server(
    channel: grpc.Channel, rpc: tuple[str, bool, bytes], metadata: list[tuple[str, str | bytes]]
) -> None:
    assert call_rpc(channel, *rpc, metadata) not in OUR_FAULT


# --- afterwards -------------------------------------------------------------------------------------------------------


def test_after_all_that_the_server_still_answers(served: Served, channel: grpc.Channel) -> None:
    """Runs last in this file, against the same server."""
    body = {"message": {"messageId": "last", "role": "ROLE_USER", "parts": [{"text": "still there?"}]}}
    call = msgspec.json.encode({"jsonrpc": "2.0", "id": "z", "method": "SendMessage", "params": body})
    reply = exchange(served.http, call, [])
    result = msgspec.json.decode(reply.partition(b"\r\n\r\n")[2])["result"]
    assert result["task"]["artifacts"][0]["parts"][0] == {"text": "still there?"}
    asked = DIALECTS[Version.V1_0].decode_request(OPERATIONS[0], msgspec.json.encode(body))
    request = protobuf_v1_0.DIALECT.encode_request(OPERATIONS[0], asked).SerializeToString()
    assert call_rpc(channel, "/lf.a2a.v1.A2AService/SendMessage", False, request, []) is grpc.StatusCode.OK
