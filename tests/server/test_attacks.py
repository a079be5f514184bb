"""What strangers try: real requests over real sockets against a server in a process of its own.

After all of it the server must have logged no failure of its own, hold nothing for those who have gone, and end well.
Slow heads and bodies, floods of headers and connections are tried in `test_listener`, odd values in `test_fuzzing`, all
spellings of forbidden webhooks in `test_webhooks`.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import grpc
import grpc.aio
import pytest

from parley.dialects import protobuf_v0_3, protobuf_v1_0
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.limits import ServerLimits
from tests.deadlines import PATIENCE, fail_after
from tests.server.attacked_process import TOKENS, security
from tests.server.serving import echo_agent, running

ROOT = Path(__file__).parents[2]
SECONDS = 15 * PATIENCE
MILLION = 1_000_000
V1_0, V0_3 = protobuf_v1_0.DIALECT, protobuf_v0_3.DIALECT
CARD = "/.well-known/agent-card.json"


# --- the server, and ways to talk to it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Attacked:
    process: subprocess.Popen[str]
    http: int
    grpc: int
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def held(self) -> dict[str, int]:
        """What the server holds now."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._asking:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def until(self, condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """What it holds as soon as it holds what it should."""
        for _ in range(500):
            held = self.held()
            if condition(held):
                return held
            time.sleep(0.02)
        raise AssertionError(held)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.http), SECONDS, source_address=(source, 0))

    def say(self, data: bytes | str) -> bytes:
        """Everything that is answered to these bytes until the server closes."""
        with self.connect() as connection:
            connection.sendall(data.encode("latin-1") if isinstance(data, str) else data)
            return read_all(connection)

    def ask(
        self,
        verb: str,
        path: str,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
        *,
        source: str = "127.0.0.1",
        who: str | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, SECONDS, source_address=(source, 0))
        try:
            connection.putrequest(verb, path, skip_host="Host" in (headers or {}))
            stated = {"Connection": "close", **(headers or {}), **bearer(who)}
            if body is not None:
                body = body.encode() if isinstance(body, str) else body
                stated = {"Content-Type": "application/json", "Content-Length": str(len(body)), **stated}
            for name, value in stated.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def rpc(self, method: str, params: Any, *, headers: dict[str, str] | None = None, **options: Any) -> Answer:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.ask("POST", "/", body, headers, **options)


def bearer(who: str | None) -> dict[str, str]:
    return {} if who is None else {"Authorization": f"Bearer {TOKENS[who]}"}


def read_all(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    try:
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


@contextmanager
def attacked(*options: str) -> Generator[tuple[Attacked, Callable[[], str]]]:
    """A server, and the log it has written so far; in the end that must tell of no failure."""
    with TemporaryFile("w+") as log:

        def logged() -> str:
            log.seek(0)
            return log.read()

        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("attacked_process.py"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, logged()
            yield Attacked(process, **json.loads(line)), logged
        finally:
            process.stdin.close()
            code = process.wait(SECONDS)
            process.stdout.close()
        said = logged()
        failures = [line for line in said.splitlines() if re.match(r"\S+ (ERROR|CRITICAL) |Traceback", line)]
        assert (code, failures) == (0, []), said


@pytest.fixture(scope="module")
def server() -> Iterator[Attacked]:
    """A server that lets everybody in."""
    with attacked() as (running, _):
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Attacked]:
    """A server that knows Alice, Mallory and Bob."""
    with attacked("--guarded") as (running, _):
        yield running


@contextmanager
def channel_to(port: int) -> Generator[grpc.Channel]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 1 << 24), ("grpc.enable_retries", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield channel


def call(channel: grpc.Channel, path: str, data: bytes, metadata: Iterable[tuple[str, str | bytes]] = ()) -> Any:
    """The code and the text of the error that a call gets, or its reply."""
    try:
        return channel.unary_unary(path)(data, metadata=tuple(metadata), timeout=SECONDS)
    except grpc.RpcError as error:
        return error.code().name, error.details()  # type: ignore[attr-defined]


def encoded(dialect: ProtobufDialect, operation: Operation, request: Any) -> bytes:
    return dialect.encode_request(operation, request).SerializeToString()


def message(text: str, id: str, **members: Any) -> dict[str, Any]:
    return {"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}], **members}}


def post(body: str, *headers: str, path: str = "/") -> str:
    """A request of raw lines, whose length is for the headers to tell."""
    lines = [f"POST {path} HTTP/1.1", "Host: here", "Content-Type: application/json", *headers, "", body]
    return "\r\n".join(lines)


# --- too much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/message:send", "/v1/message:send"])
@pytest.mark.parametrize("form", ["stated", "chunked"])
def test_a_body_of_60_megabytes_is_refused_and_not_kept(server: Attacked, path: str, form: str) -> None:
    before = server.held()["kilobytes"]
    length = "Content-Length: 60000000" if form == "stated" else "Transfer-Encoding: chunked"
    piece = b"x" * MILLION if form == "stated" else b"f4240\r\n" + b"x" * MILLION + b"\r\n"
    with server.connect() as connection:
        connection.sendall(post("", length, "Connection: close", path=path).encode())
        for _ in range(60):
            connection.sendall(piece)
        connection.sendall(b"" if form == "stated" else b"0\r\n\r\n")
        reply = read_all(connection)
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"The body may have up to 25165824 bytes" in reply
    assert server.held()["kilobytes"] - before < 40_000


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 100000000000"])
def test_a_body_without_an_end_is_cut_off(server: Attacked, length: str) -> None:
    piece = b"f4240\r\n" + b"x" * MILLION + b"\r\n"
    with server.connect() as connection:
        connection.sendall(post("", length, "Connection: close").encode())
        with pytest.raises(ConnectionError):
            connection.sendall(piece * 300)  # 24 MB could be good, and 64 MB more are read and dropped


def test_bodies_that_are_withheld_share_a_bounded_room_and_short_ones_need_none() -> None:
    with attacked("--bodies", str(16 * MILLION)) as (server, _), ExitStack() as stack:
        before = server.held()["kilobytes"]
        for n in range(20):
            connection = stack.enter_context(server.connect(f"127.0.0.{20 + n % 10}"))
            connection.sendall(post("x" * 3 * MILLION, "Content-Length: 3000001").encode())
        connection = stack.enter_context(server.connect("127.0.0.40"))
        connection.sendall(post("x" * 3 * MILLION, "Content-Length: 3000001", path="/message:send").encode())
        assert connection.recv(13) == b"HTTP/1.1 429 "
        assert server.held()["kilobytes"] - before < 60_000
        assert "result" in server.rpc("SendMessage", message("short", "short"), source="127.0.0.20").json


@pytest.mark.parametrize("binding", ["JSON-RPC", "REST"])
def test_long_replies_that_nobody_takes_share_a_bounded_room(binding: str) -> None:
    with attacked("--bodies", str(40 * MILLION)) as (server, _), ExitStack() as stack:
        long = "x" * 8 * MILLION
        task = server.rpc("SendMessage", message(long, "long")).json["result"]["task"]["id"]
        before = server.held()["kilobytes"]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task}})
        ask = post(body, f"Content-Length: {len(body)}")
        if binding == "REST":
            ask = f"GET /tasks/{task} HTTP/1.1\r\nHost: here\r\n\r\n"
        statuses: list[bytes] = []
        for n in range(12):
            connection = stack.enter_context(server.connect(f"127.0.0.{20 + n % 6}"))
            connection.sendall(ask.encode())
            statuses.append(connection.recv(13))
        assert statuses == [b"HTTP/1.1 200 "] * 2 + [b"HTTP/1.1 429 "] * 10  # each reply has 16 MB
        assert server.held()["kilobytes"] - before < 80_000
        assert "result" in server.rpc("SendMessage", message("short", "short")).json
    with attacked("--bodies", "1000") as (server, _):  # a reply that nobody has to wait for is always let out
        answer = server.rpc("SendMessage", message("x" * 50_000, "alone"))
        assert len(answer.json["result"]["task"]["history"][0]["parts"][0]["text"]) == 50_000


def test_a_body_is_not_read_for_somebody_who_may_not_call(guarded: Attacked) -> None:
    for path in ("/", "/message:send", "/v1/message:send"):
        with guarded.connect() as connection:
            connection.sendall(post("", "Content-Length: 60000000", path=path).encode())  # and not one byte of it
            assert connection.recv(13) == b"HTTP/1.1 401 "


def test_a_grpc_message_of_60_megabytes_is_refused(server: Attacked) -> None:
    with channel_to(server.grpc) as channel:
        code, text = call(channel, V1_0.rpc(ops.SEND_MESSAGE).path, b"x" * 60 * MILLION)
    assert (code, "larger than max" in text) == ("RESOURCE_EXHAUSTED", True)


BRACKETS = [
    ("/", '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + "[" * MILLION),
    ("/", '{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"a":' + "[" * MILLION + "]" * MILLION + "}}"),
    ("/", "[" * MILLION),
    ("/", '{"a":' * MILLION),
    ("/message:send", "[" * MILLION),
    ("/message:stream", '{"message":' * MILLION),
    ("/v1/message:send", '{"a":' * MILLION),
]


@pytest.mark.parametrize(("path", "body"), BRACKETS, ids=[f"{path} {body[:8]}" for path, body in BRACKETS])
def test_a_million_open_brackets_are_refused_before_they_are_read(server: Attacked, path: str, body: str) -> None:
    answer = server.ask("POST", path, body)
    assert (answer.status, b"The body may have up to 250000 objects and arrays" in answer.body) == (413, True)


@pytest.mark.parametrize("path", ["/", "/message:send", "/v1/message:send"])
def test_brackets_that_are_few_enough_may_not_be_deep(server: Attacked, path: str) -> None:
    data = json.dumps(message("x", "deep")).replace('{"text": "x"}', f'{{"data": {"[" * 200 + "]" * 200}}}')
    body = data if path != "/" else f'{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{data}}}'
    answer = server.ask("POST", path, body)
    assert (answer.status, b"Nested deeper than" in answer.body) == (
        {"/": 200, "/message:send": 400}.get(path, 422),
        True,
    )
    answer = server.ask("POST", path, "[" * 200_000)
    assert answer.status in ({200} if path == "/" else {400, 422})
    assert b"eep" in answer.body


def field_of(number: int, data: bytes) -> bytes:
    """A field of a protobuf message, as it is written."""
    written, length = bytes([number << 3 | 2]), len(data)
    while length > 127:
        written, length = written + bytes([length & 127 | 128]), length >> 7
    return written + bytes([length]) + data


def spelled(*parts: bytes) -> bytes:
    """A SendMessageRequest of 1.0 with these parts."""
    return field_of(2, field_of(1, b"m") + b"\x20\x01" + b"".join(field_of(5, part) for part in parts))


def test_a_protobuf_that_is_deep_or_has_too_many_parts_is_refused(server: Attacked) -> None:
    deep = b""
    for _ in range(5_000):
        deep = field_of(6, field_of(1, deep))
    path = V1_0.rpc(ops.SEND_MESSAGE).path
    with channel_to(server.grpc) as channel:
        assert call(channel, path, spelled(field_of(4, deep))) == (
            "INVALID_ARGUMENT",
            "Invalid lf.a2a.v1.SendMessageRequest",
        )
        many = spelled(*[field_of(1, b"x")] * 200_000)
        assert call(channel, path, many) == ("INVALID_ARGUMENT", "A message may have up to 10000 parts")
        assert call(channel, path, b"\x7b" * MILLION)[0] == "INVALID_ARGUMENT"  # groups within groups


def test_a_message_of_too_many_parts_is_refused(server: Attacked) -> None:
    many = {"message": {"messageId": "many", "role": "ROLE_USER", "parts": [{"text": "x"}] * 10_001}}
    assert "A message may have up to 10000 parts" in server.rpc("SendMessage", many).json["error"]["message"]
    assert server.ask("POST", "/message:send", json.dumps(many)).status == 400


LONG = "x" * 1_025


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("SendMessage", message("x", LONG), "message id"),
        ("SendMessage", message("x", "long", contextId=LONG), "context id"),
        ("SendStreamingMessage", message("x", "long", contextId=LONG), "context id"),
        ("SendMessage", message("x", "long", taskId=LONG), "task id"),
        ("SendMessage", {**message("x", "long"), "tenant": LONG}, "tenant"),
        ("GetTask", {"id": LONG}, "task id"),
        ("CreateTaskPushNotificationConfig", {"taskId": "x", "id": LONG, "url": "https://a.example"}, "webhook id"),
        (
            "tasks/send",
            {"id": LONG, "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}},
            "task id",
        ),
        (
            "tasks/send",
            {"id": "x", "sessionId": LONG, "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}},
            "context id",
        ),
    ],
)
def test_an_id_that_every_event_would_repeat_is_bounded(server: Attacked, method: str, params: Any, name: str) -> None:
    error = server.rpc(method, params).json["error"]
    said, _, place = error["message"].partition(" (at $.")
    assert (error["code"], said, bool(place)) == (-32602, f"The {name} may have up to 1024 characters", True)


def test_ids_are_bounded_in_paths_and_in_grpc_too(server: Attacked) -> None:
    for verb, path in (("GET", f"/{LONG}/tasks"), ("GET", f"/tasks/{LONG}"), ("POST", f"/tasks/{LONG}:subscribe")):
        assert server.ask(verb, path, headers={"Content-Length": "0"}).status == 400
    request = r.SendMessageRequest(Message("m", Role.USER, (TextPart("x"),), context_id=LONG))
    with channel_to(server.grpc) as channel:
        for dialect in (V1_0, V0_3):
            code, text = call(channel, dialect.rpc(ops.SEND_MESSAGE).path, encoded(dialect, ops.SEND_MESSAGE, request))
            assert (code, "The context id may have up to 1024 characters" in text) == ("INVALID_ARGUMENT", True)


@pytest.mark.parametrize("query", ["&".join(f"a{n}=1" for n in range(3_000)), "&" * 20_000, "pageSize=" + "9" * 9_000])
@pytest.mark.parametrize("path", ["/tasks", "/v1/tasks/x"])
def test_a_flood_of_query_parameters_is_refused(server: Attacked, path: str, query: str) -> None:
    answer = server.ask("GET", f"{path}?{query}")
    assert answer.status in ((400,) if path == "/tasks" else (404, 422))
    if path == "/tasks":
        assert b"100 fields" in answer.body or b"whole number" in answer.body


def test_a_flood_of_entity_tags_finds_no_card(server: Attacked) -> None:
    tags = ", ".join(f'"{n:x}"' for n in range(3_000))
    assert server.ask("GET", CARD, headers={"If-None-Match": tags}).status == 200
    assert server.ask("GET", CARD, headers={"If-None-Match": f"{tags}, *"}).status == 200
    known = server.ask("GET", CARD).headers["etag"]
    assert server.ask("GET", CARD, headers={"If-None-Match": f"{tags}, W/{known}"}).status == 304


# --- odd JSON ---------------------------------------------------------------------------------------------------------


def in_send(part: str, id: str = '"odd"') -> str:
    return f'{{"message":{{"messageId":{id},"role":"ROLE_USER","parts":[{part}]}}}}'


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (in_send('{"data":NaN}'), -32700),
        (in_send('{"data":-Infinity}'), -32700),
        (in_send('{"data":1e400}'), -32602),
        (in_send('{"data":%s}' % ("9" * 5_000)), -32602),
        (in_send(r'{"text":"\ud800"}'), -32700),
        (in_send('{"text":"x"}', r'"\udc00"'), -32700),
        (in_send('{"raw":"!!! no base64"}'), -32602),
        (in_send('{"raw":"QQ"}').replace("QQ", "Q" * 999_997), -32602),
        (in_send('{"text":"b"}', '"a","messageId":"twice"'), -32602),
        (in_send(r'{"data":{"deep":[{"a":1,"\u0061":2}]}}'), -32602),
        (in_send('{"text":"b"}').replace('"parts"', '"metadata":{"a":1e5,"a":100000.0},"parts"'), -32602),
        ('{"id":"x","historyLength":%s}' % ("9" * 5_000), -32602),
    ],
)
def test_json_that_others_read_otherwise_is_refused(server: Attacked, params: str, code: int) -> None:
    method = "GetTask" if "historyLength" in params else "SendMessage"
    answer = server.ask("POST", "/", f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}')
    assert (answer.status, answer.json["error"]["code"]) == (200, code)
    if method == "SendMessage":
        assert server.ask("POST", "/message:send", params).status == 400


@pytest.mark.parametrize(
    "method",
    ["sendmessage", "SendMess\u0430ge", "\uff33endMessage", "SendMessage\x00", " SendMessage", "__class__", ""],
)
def test_what_only_looks_like_a_method_is_none(server: Attacked, method: str) -> None:
    assert server.rpc(method, message("x", "alike")).json["error"]["code"] == -32601


@pytest.mark.parametrize("members", ['"id":2', '"method":"SendMessage"', '"params":{}', '"x":1,"x":2'])
def test_an_envelope_with_a_name_that_comes_twice_is_refused(server: Attacked, members: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{"id":"x"}},{members}}}'
    assert server.ask("POST", "/", body).json["error"]["code"] == -32600


def test_a_long_id_is_not_repeated(server: Attacked) -> None:
    for id in ('"' + "x" * MILLION + '"', "1" * MILLION):
        answer = server.ask("POST", "/", f'{{"jsonrpc":"2.0","id":{id},"method":"GetTask","params":{{"id":"x"}}}}')
        assert (answer.json["id"], answer.json["error"]["code"]) == (None, -32600)
        assert len(answer.body) < 500


# --- HTTP that two servers read differently ---------------------------------------------------------------------------

ASKED = '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}'
N = len(ASKED)
HIDDEN = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKS = f"{N:x}\r\n{ASKED}\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "request_text",
    [
        post("0\r\n\r\n" + HIDDEN, f"Content-Length: {N}", "Transfer-Encoding: chunked"),
        post(CHUNKS + HIDDEN, "Transfer-Encoding: chunked", "Content-Length: 4"),
        post(ASKED + HIDDEN, f"Content-Length: {N}", "Content-Length: 0"),
        post(ASKED, f"Content-Length: {N}", f"Content-Length: {N}"),
        post(ASKED, f"Content-Length: {N}, {N}"),
        post(ASKED, f"Content-Length: +{N}"),
        post(ASKED, "Content-Length: -1"),
        post(ASKED, f"Content-Length: 0x{N:x}"),
        post(ASKED, f"Content-Length : {N}"),
        post(ASKED, "Content-Length: 99999999999999999999999"),
        post("0\r\n\r\n" + HIDDEN, "Transfer-Encoding: xchunked"),
        post(CHUNKS, "Transfer-Encoding: gzip, chunked"),
        f"POST /\r\n{HIDDEN}",
        post("0\r\n\r\n" + HIDDEN, "Transfer-Encoding: chunked, identity"),
        post("0\r\n\r\n" + HIDDEN, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        post("0\r\n\r\n" + HIDDEN, "Transfer-Encoding: \x0bchunked"),
        post("zz\r\n" + CHUNKS, "Transfer-Encoding: chunked"),
        post("0x" + CHUNKS, "Transfer-Encoding: chunked"),
        post("fffffffffffffffff\r\n" + CHUNKS, "Transfer-Encoding: chunked"),
        post("-1\r\n" + CHUNKS, "Transfer-Encoding: chunked"),
        post(CHUNKS.replace("\r", ""), "Transfer-Encoding: chunked"),
        post("1" + CHUNKS[2:], "Transfer-Encoding: chunked"),
        post(ASKED, "X-Folded: a", f" Content-Length: {N}"),
        post(CHUNKS, "Transfer-Encoding:", " chunked"),
        post(ASKED, f"Content-Length: {N}").replace("\r", ""),
        post(ASKED, f"X-Bare: a\rContent-Length: {N}"),
        post(ASKED, "X-Nul: a\0b", f"Content-Length: {N}"),
        post(ASKED, "Authorization : x", f"Content-Length: {N}"),
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: h\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: h\r\n\r\n",
        "GET /tasks/\xff HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_a_request_whose_end_is_in_doubt_is_the_last_of_its_connection(server: Attacked, request_text: str) -> None:
    reply = server.say(request_text)
    assert reply.count(b"HTTP/1.1 ") == 1
    assert reply[9:12] in (b"400", b"501", b"505")


def test_a_body_where_none_is_expected_is_not_the_next_request(server: Attacked) -> None:
    for path in (CARD, "/tasks", "/nowhere", "/docs"):
        ask = f"GET {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(HIDDEN)}\r\n\r\n{HIDDEN}"
        reply = server.say(ask + "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert b'{"status":"ok"}' not in reply


# --- paths, hosts and forwarded words ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/tasks/%00", 404),
        ("/tasks/%2e%2e", 404),
        ("/tasks/a%0d%0aX-Evil:1", 404),
        ("/v1/tasks/..%2f..%2fetc%2fpasswd", 404),
        ("/tasks/%ff", 400),
        ("/%ed%a0%80/tasks", 400),
        ("//tasks", 404),
        ("/tasks//", 404),
        ("/.well-known/../tasks", 404),
        ("/healthz/../metrics", 404),
        ("/tasks?pageToken=%00", 400),
        ("/tasks?contextId=%ff", 400),
        ("/tasks?statusTimestampAfter=9999-12-31T23:59:59.999999999-23:59", 400),
        (CARD + "?A2A-Version=%00", 400),
        ("/tasks/tasks", 404),
    ],
)
def test_an_odd_path_leads_nowhere(server: Attacked, path: str, status: int) -> None:
    answer = server.ask("GET", path)
    assert (answer.status, answer.headers.get("x-evil")) == (status, None)


def test_tenants_of_odd_names_are_kept_apart(server: Attacked) -> None:
    tenants = ["%2E%2E", "a", "a%2Fb", "a%00", "a%20", "A", "%F0%9F%90%8D", "a%2Fb%2Ftasks"]
    made: dict[str, str] = {}
    for tenant in tenants:
        answer = server.ask("POST", f"/{tenant}/message:send", json.dumps(message("x", "odd tenant")))
        made[tenant] = answer.json["task"]["id"]
    assert len(set(made.values())) == len(tenants)
    for tenant in tenants:
        seen = [task["id"] for task in server.ask("GET", f"/{tenant}/tasks").json["tasks"]]
        assert seen == [made[tenant]]


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a b",
        '"><script>',
        "a/../b",
        "user:pw@h",
        "a#b",
        "a,b",
        "%0d%0a",
        "\xe9.example",
        "[zz]",
        "h:80:80",
        "h" * 262,
    ],
)
def test_a_host_that_is_none_gets_into_no_card(server: Attacked, host: str) -> None:
    answer = server.ask("GET", CARD, headers={"Host": host})
    urls = {face["url"] for face in answer.json["supportedInterfaces"]}
    own = f"http://127.0.0.1:{server.http}"
    assert urls == {own, f"{own}/", f"127.0.0.1:{server.grpc}"}


def test_a_card_for_one_host_is_never_given_to_another(server: Attacked) -> None:
    poisoned = server.ask(
        "GET",
        CARD,
        headers={
            "Host": "evil.example",
            "X-Forwarded-Host": "worse.example",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Prefix": "/worse",
            "Forwarded": "host=worse.example;proto=https",
            "X-Original-URL": "/docs",
            "X-HTTP-Method-Override": "DELETE",
        },
    )
    assert b"http://evil.example/" in poisoned.body
    assert b"worse" not in poisoned.body
    assert {word.strip() for word in poisoned.headers["vary"].split(",")} >= {"Host"}
    for path in (CARD, "/.well-known/agent.json", "/openapi.json", "/docs"):
        assert b"evil.example" not in server.ask("GET", path).body


def test_pages_and_cards_for_endless_hosts_are_not_all_kept(server: Attacked) -> None:
    server.ask("GET", "/docs")
    before = server.held()["kilobytes"]
    for n in range(300):
        server.ask("GET", CARD, headers={"Host": f"{'h' * 240}{n}.example"})
    for path in ("/docs", "/openapi.json"):
        for n in range(40):
            assert server.ask("GET", path, headers={"Host": f"h{n}.example"}).status == 200
    assert server.held()["kilobytes"] - before < 30_000


# --- guessing ---------------------------------------------------------------------------------------------------------


@contextmanager
def relay(port: int, source: str) -> Generator[int]:
    """A port whose connections reach another one from this address."""
    door = socket.create_server(("127.0.0.1", 0))

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        await asyncio.gather(carry(reader, back), carry(there, writer))
        await asyncio.gather(back.wait_closed(), writer.wait_closed(), return_exceptions=True)
        left.release()

    async def run() -> None:
        async with await asyncio.start_server(meet, sock=door):
            async with asyncio.timeout(SECONDS):
                await left.acquire()  # the only connection of a channel

    left = asyncio.Semaphore(0)
    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield door.getsockname()[1]
    finally:
        thread.join()


def test_an_address_that_guesses_is_stopped_in_every_binding_and_others_are_not(guarded: Attacked) -> None:
    statuses: list[int] = []
    for n in range(32):
        path = ("/", "/tasks/x", "/v1/tasks/x")[n % 3]
        verb = "POST" if path == "/" else "GET"
        headers = {"Authorization": f"Bearer guess-{n}"}
        statuses.append(guarded.ask(verb, path, ASKED if n % 3 == 0 else None, headers, source="127.0.0.7").status)
    assert statuses[:30] == [401] * 30
    assert statuses[30:] == [429] * 2
    right = guarded.rpc("ListTasks", {}, source="127.0.0.7", who="alice")
    assert (right.status, int(right.headers["retry-after"]) >= 1) == (429, True)
    assert guarded.ask("GET", CARD, source="127.0.0.7").status == 200
    assert guarded.rpc("ListTasks", {}, source="127.0.0.8", who="alice").status == 200

    path, data = V1_0.rpc(ops.LIST_TASKS).path, encoded(V1_0, ops.LIST_TASKS, r.ListTasksRequest())
    alice = [("authorization", f"Bearer {TOKENS['alice']}")]
    with relay(guarded.grpc, "127.0.0.7") as port, channel_to(port) as channel:
        assert call(channel, path, data, alice)[0] == "RESOURCE_EXHAUSTED"
    with relay(guarded.grpc, "127.0.0.9") as port, channel_to(port) as channel:
        codes = [call(channel, path, data, [("authorization", f"Bearer guess-{n}")])[0] for n in range(31)]
        assert codes == ["UNAUTHENTICATED"] * 30 + ["RESOURCE_EXHAUSTED"]
        assert call(channel, path, data, alice)[0] == "RESOURCE_EXHAUSTED"
    assert guarded.rpc("ListTasks", {}, source="127.0.0.9", who="alice").status == 429
    with channel_to(guarded.grpc) as channel:
        assert isinstance(call(channel, path, data, alice), bytes)


def test_who_brings_nothing_is_not_taken_for_guessing(guarded: Attacked) -> None:
    statuses = {guarded.rpc("ListTasks", {}, source="127.0.0.10").status for _ in range(40)}
    assert statuses == {401}


def test_a_wrong_name_and_a_wrong_password_look_the_same(guarded: Attacked) -> None:
    answers = []
    for pair in ("bob:wrong", "nobody:wrong", "bob's password:bob", "alice:wrong"):
        headers = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        answer = guarded.rpc("ListTasks", {}, headers=headers, source="127.0.0.11")
        answers.append((answer.status, answer.body, {**answer.headers, "date": ""}))
    assert answers == [answers[0]] * 4
    assert answers[0][0] == 401


# --- what belongs to others -------------------------------------------------------------------------------------------

HOOK = "https://hooks.example.com/a"
SAY_0_3 = {"kind": "message", "messageId": "intruder", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}

RPCS: list[tuple[str, Callable[[str], Any]]] = [
    ("GetTask", lambda id: {"id": id}),
    ("CancelTask", lambda id: {"id": id}),
    ("SubscribeToTask", lambda id: {"id": id}),
    ("SendMessage", lambda id: message("hi", "intruder", taskId=id)),
    ("SendStreamingMessage", lambda id: message("hi", "intruder", taskId=id)),
    ("CreateTaskPushNotificationConfig", lambda id: {"taskId": id, "url": HOOK}),
    ("GetTaskPushNotificationConfig", lambda id: {"taskId": id, "id": "hook"}),
    ("ListTaskPushNotificationConfigs", lambda id: {"taskId": id}),
    ("DeleteTaskPushNotificationConfig", lambda id: {"taskId": id, "id": "hook"}),
    ("tasks/get", lambda id: {"id": id}),
    ("tasks/cancel", lambda id: {"id": id}),
    ("tasks/resubscribe", lambda id: {"id": id}),
    ("message/send", lambda id: {"message": {**SAY_0_3, "taskId": id}}),
    ("message/stream", lambda id: {"message": {**SAY_0_3, "taskId": id}}),
    ("tasks/pushNotificationConfig/set", lambda id: {"taskId": id, "pushNotificationConfig": {"url": HOOK}}),
    ("tasks/pushNotificationConfig/get", lambda id: {"id": id, "pushNotificationConfigId": "hook"}),
    ("tasks/pushNotificationConfig/list", lambda id: {"id": id}),
    ("tasks/pushNotificationConfig/delete", lambda id: {"id": id, "pushNotificationConfigId": "hook"}),
    ("tasks/pushNotification/set", lambda id: {"id": id, "pushNotificationConfig": {"url": HOOK}}),
    ("tasks/pushNotification/get", lambda id: {"id": id}),
]

ROUTES: list[tuple[str, str, Callable[[str], Any]]] = [
    ("GET", "/tasks/{id}", lambda _: None),
    ("POST", "/tasks/{id}:cancel", lambda _: {}),
    ("POST", "/tasks/{id}:subscribe", lambda _: {}),
    ("POST", "/message:send", lambda id: message("hi", "intruder", taskId=id)),
    ("POST", "/message:stream", lambda id: message("hi", "intruder", taskId=id)),
    ("POST", "/tasks/{id}/pushNotificationConfigs", lambda _: {"url": HOOK}),
    ("GET", "/tasks/{id}/pushNotificationConfigs/hook", lambda _: None),
    ("GET", "/tasks/{id}/pushNotificationConfigs", lambda _: None),
    ("DELETE", "/tasks/{id}/pushNotificationConfigs/hook", lambda _: None),
    ("GET", "/v1/tasks/{id}", lambda _: None),
    ("POST", "/v1/tasks/{id}:cancel", lambda _: {}),
    ("POST", "/v1/tasks/{id}:subscribe", lambda _: {}),
    ("POST", "/v1/message:send", lambda id: {"message": {**SAY_0_3, "taskId": id}}),
    ("GET", "/v1/tasks/{id}/pushNotificationConfigs/hook", lambda _: None),
]

ABSENT = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def secret_task(guarded: Attacked) -> str:
    """A task of Alice's, at work, in the tenant `acme`, with a webhook."""
    ask = {**message("wait", "secret"), "tenant": "acme", "configuration": {"returnImmediately": True}}
    task = guarded.rpc("SendMessage", ask, who="alice").json["result"]["task"]["id"]
    made = {"taskId": task, "id": "hook", "url": HOOK, "tenant": "acme"}
    assert "result" in guarded.rpc("CreateTaskPushNotificationConfig", made, who="alice").json
    return task


def without(answer: Answer, id: str) -> tuple[int, dict[str, str], bytes]:
    """An answer that does not tell which task was asked for."""
    headers = {**answer.headers, "date": ""}
    return answer.status, headers, re.sub(rb'"timestamp":"[^"]*"', b"", answer.body.replace(id.encode(), b"ID"))


INTRUDERS = [("mallory", "acme"), ("mallory", None), ("alice", "other"), ("alice", None)]


@pytest.mark.parametrize(("who", "tenant"), INTRUDERS)
def test_others_tasks_are_as_good_as_absent_over_json_rpc(
    guarded: Attacked, secret_task: str, who: str, tenant: str | None
) -> None:
    for method, params in RPCS:
        if tenant is not None and not method[0].isupper():
            continue  # there are no tenants before 1.0
        extra = {} if tenant is None else {"tenant": tenant}
        foreign, absent = (
            without(guarded.rpc(method, {**params(id), **extra}, who=who), id) for id in (secret_task, ABSENT)
        )
        assert foreign == absent, method
        assert b"-32001" in foreign[2], (method, foreign)


@pytest.mark.parametrize(("who", "tenant"), INTRUDERS)
def test_others_tasks_are_as_good_as_absent_over_rest(
    guarded: Attacked, secret_task: str, who: str, tenant: str | None
) -> None:
    for verb, path, body in ROUTES:
        if tenant is not None and path.startswith("/v1/"):
            continue
        prefix = "" if tenant is None else f"/{tenant}"

        def ask(id: str, verb: str = verb, path: str = prefix + path, body: Any = body) -> Any:
            sent = None if body(id) is None else json.dumps(body(id))
            return without(guarded.ask(verb, path.format(id=id), sent, who=who), id)

        foreign = ask(secret_task)
        assert foreign == ask(ABSENT), path
        assert foreign[0] == 404, (path, foreign)


@pytest.mark.parametrize(("who", "tenant"), INTRUDERS)
def test_others_tasks_are_as_good_as_absent_over_grpc(
    guarded: Attacked, secret_task: str, who: str, tenant: str | None
) -> None:
    def requests(id: str) -> list[tuple[Operation, Any]]:
        said = Message("intruder", Role.USER, (TextPart("hi"),), task_id=id)
        return [
            (ops.GET_TASK, r.GetTaskRequest(id, tenant=tenant)),
            (ops.CANCEL_TASK, r.CancelTaskRequest(id, tenant=tenant)),
            (ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(id, tenant=tenant)),
            (ops.SEND_MESSAGE, r.SendMessageRequest(said, tenant=tenant)),
            (ops.SEND_STREAMING_MESSAGE, r.SendMessageRequest(said, tenant=tenant)),
            (ops.CREATE_PUSH_CONFIG, r.CreatePushConfigRequest(id, PushConfig(HOOK, task_id=id), tenant=tenant)),
            (ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(id, "hook", tenant=tenant)),
            (ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(id, tenant=tenant)),
            (ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(id, "hook", tenant=tenant)),
        ]

    metadata = (("authorization", f"Bearer {TOKENS[who]}"),)
    with channel_to(guarded.grpc) as channel:
        for foreign, absent in zip(requests(secret_task), requests(ABSENT), strict=True):
            answers = []
            for operation, request in (foreign, absent):
                path, data = V1_0.rpc(operation).path, encoded(V1_0, operation, request)
                ask = channel.unary_stream(path) if operation.streams else channel.unary_unary(path)
                with pytest.raises(grpc.RpcError) as caught:
                    list(ask(data, metadata=metadata, timeout=SECONDS))
                error: Any = caught.value
                details = dict(error.trailing_metadata())["grpc-status-details-bin"]
                answers.append((error.code(), error.details(), details.replace(request_id(request).encode(), b"ID")))
            assert answers[0] == answers[1], foreign[0]
            assert answers[0][0] is grpc.StatusCode.NOT_FOUND


def request_id(request: Any) -> str:
    return request.message.task_id if isinstance(request, r.SendMessageRequest) else request.task_id


def test_others_tasks_are_in_no_list_and_nothing_was_changed(guarded: Attacked, secret_task: str) -> None:
    for who, tenant in INTRUDERS:
        extra = {} if tenant is None else {"tenant": tenant}
        page = guarded.rpc("ListTasks", extra, who=who).json["result"]
        assert secret_task not in json.dumps(page)
    task = guarded.rpc("GetTask", {"id": secret_task, "tenant": "acme"}, who="alice").json["result"]
    hooks = guarded.rpc("ListTaskPushNotificationConfigs", {"taskId": secret_task, "tenant": "acme"}, who="alice")
    assert (task["status"]["state"], len(task["history"])) == ("TASK_STATE_WORKING", 1)
    assert [config["id"] for config in hooks.json["result"]["configs"]] == ["hook"]


@pytest.mark.anyio
async def test_a_task_id_of_0_1_that_somebody_else_has_chosen_leads_to_nothing_of_theirs() -> None:
    def send(text: str) -> dict[str, Any]:
        params = {"id": "chosen", "message": {"role": "user", "parts": [{"type": "text", "text": text}]}}
        return {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params}

    async with running(App(echo_agent(), security=security())) as client:
        mine = (await client.post("/", json=send("mine"), headers=bearer("alice"))).json()["result"]
        refused = (await client.post("/", json=send("theirs"), headers=bearer("mallory"))).json()["error"]
        assert (refused["code"], refused["message"]) == (
            -32602,
            "This task id cannot be used; choose another (at $.id)",
        )
        get = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "chosen"}}
        assert (await client.post("/", json=get, headers=bearer("alice"))).json()["result"] == mine
        assert (await client.post("/", json=get, headers=bearer("mallory"))).json()["error"]["code"] == -32001


# --- messages that come again -----------------------------------------------------------------------------------------


def test_a_replayed_message_is_the_same_task_for_its_sender_and_another_for_others(guarded: Attacked) -> None:
    def send(who: str, text: str, **members: Any) -> str:
        return guarded.rpc("SendMessage", message(text, "replayed", **members), who=who).json["result"]["task"]["id"]

    first = send("alice", "once")
    assert send("alice", "once") == first
    over_rest = guarded.ask("POST", "/message:send", json.dumps(message("once", "replayed")), who="alice")
    assert over_rest.json["task"]["id"] == first
    others = [send("mallory", "once"), send("alice", "twice"), send("alice", "once", metadata={"a": 1})]
    assert len({first, *others}) == 4
    task = guarded.rpc("GetTask", {"id": first}, who="alice").json["result"]
    assert [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]] == ["once"]


def test_fifty_replays_at_once_are_one_run(guarded: Attacked) -> None:
    params = message("count 20", "at once", contextId="replays")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
    length = f"Content-Length: {len(body)}"
    token = f"Authorization: Bearer {TOKENS['alice']}"
    with ExitStack() as stack:
        connections = [stack.enter_context(guarded.connect()) for _ in range(50)]
        for connection in connections:
            connection.sendall(post("", length, token, "Connection: close").encode())
        for connection in connections:
            connection.sendall(body.encode())
        replies = [read_all(connection).partition(b"\r\n\r\n")[2] for connection in connections]
    ids = {json.loads(reply)["result"]["task"]["id"] for reply in replies}
    page = guarded.rpc("ListTasks", {"contextId": "replays", "includeArtifacts": True}, who="alice").json["result"]
    assert (page["totalSize"], {task["id"] for task in page["tasks"]}) == (1, ids)
    (artifact,) = page["tasks"][0]["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]) == "".join(f"{n} " for n in range(20))


# --- webhooks into the server's own network ---------------------------------------------------------------------------

INNER_URLS = [
    "http://169.254.169.254/latest/meta-data",
    "https://169.254.169.254/",
    "https://2852039166/",
    "https://0xa9fea9fe/",
    "https://0251.0376.0251.0376/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://169.254.169.254.:443/",
    "https://hooks.example.com@169.254.169.254/",
    "https://localhost/",
    "https://127.1/",
    "https://[::1]/",
    "https://metadata.google.internal/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "https://hooks.example.com\\@169.254.169.254/",
    "https://\uff11\uff16\uff19.254.169.254/",
]


@pytest.fixture(scope="module")
def own_task(server: Attacked) -> str:
    return server.rpc("SendMessage", message("x", "with hooks")).json["result"]["task"]["id"]


@pytest.mark.parametrize("url", INNER_URLS)
def test_no_binding_takes_a_webhook_into_the_servers_own_network(server: Attacked, own_task: str, url: str) -> None:
    say_0_1 = {"id": "hooked", "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}}
    say_0_3 = {"message": {**SAY_0_3, "messageId": "hooked"}}
    config = {"url": url}
    rpcs: list[tuple[str, Any]] = [
        ("CreateTaskPushNotificationConfig", {"taskId": own_task, **config}),
        ("tasks/pushNotificationConfig/set", {"taskId": own_task, "pushNotificationConfig": config}),
        ("tasks/pushNotification/set", {"id": own_task, "pushNotificationConfig": config}),
        ("SendMessage", {**message("x", "hooked"), "configuration": {"taskPushNotificationConfig": config}}),
        ("SendStreamingMessage", {**message("x", "hooked"), "configuration": {"taskPushNotificationConfig": config}}),
        ("message/send", {**say_0_3, "configuration": {"pushNotificationConfig": config}}),
        ("message/stream", {**say_0_3, "configuration": {"pushNotificationConfig": config}}),
        ("tasks/send", {**say_0_1, "pushNotification": config}),
        ("tasks/sendSubscribe", {**say_0_1, "pushNotification": config}),
    ]
    for method, params in rpcs:
        assert b"-32602" in server.rpc(method, params).body, method
    routes: list[tuple[str, Any]] = [
        (f"/tasks/{own_task}/pushNotificationConfigs", config),
        ("/message:send", {**message("x", "hooked"), "configuration": {"taskPushNotificationConfig": config}}),
        ("/v1/message:send", {**say_0_3, "configuration": {"pushNotificationConfig": config}}),
    ]
    for path, body in routes:
        assert server.ask("POST", path, json.dumps(body)).status in (400, 422), path
    hook = PushConfig(url, task_id=own_task)
    say = r.SendMessageRequest(Message("hooked", Role.USER, (TextPart("x"),)), r.SendConfiguration(push_config=hook))
    with channel_to(server.grpc) as channel:
        for dialect in (V1_0, V0_3):
            for operation, request in (
                (ops.CREATE_PUSH_CONFIG, r.CreatePushConfigRequest(own_task, hook)),
                (ops.SEND_MESSAGE, say),
            ):
                reply = call(channel, dialect.rpc(operation).path, encoded(dialect, operation, request))
                assert reply[0] == "INVALID_ARGUMENT", (dialect.version, operation)
    assert server.rpc("ListTaskPushNotificationConfigs", {"taskId": own_task}).json["result"].get("configs", []) == []
    assert server.rpc("tasks/get", {"id": "hooked"}).json["error"]["code"] == -32001


# --- gRPC -------------------------------------------------------------------------------------------------------------


def test_calls_that_are_none_are_refused_and_the_port_goes_on(server: Attacked) -> None:
    say = encoded(V1_0, ops.SEND_MESSAGE, r.SendMessageRequest(Message("grpc", Role.USER, (TextPart("x"),))))
    path = V1_0.rpc(ops.SEND_MESSAGE).path
    with channel_to(server.grpc) as channel:
        assert call(channel, "/lf.a2a.v1.A2AService/Nope", b"")[0] == "UNIMPLEMENTED"
        assert call(channel, "/no/service", b"")[0] == "UNIMPLEMENTED"
        assert call(channel, "/" + "a" * 5_000, b"")[0] == "UNIMPLEMENTED"
        assert call(channel, path, bytes(range(256)) * 100)[0] == "INVALID_ARGUMENT"
        assert call(channel, path, say, [("x-long", "a" * 100_000)])[0] == "RESOURCE_EXHAUSTED"
        assert call(channel, path, say, [(f"x-{n}", "a") for n in range(5_000)])[0] == "RESOURCE_EXHAUSTED"
        assert call(channel, path, say, [("a2a-version", "9" * 5_000)])[0] == "FAILED_PRECONDITION"
        assert isinstance(call(channel, path, say, [("authorization-bin", b"\xff\x00")]), bytes)
    for garbage in (b"GET / HTTP/1.1\r\n\r\n" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100_000):
        with socket.create_connection(("127.0.0.1", server.grpc), SECONDS) as connection:
            connection.sendall(garbage)
            read_all(connection)
    with channel_to(server.grpc) as channel:
        assert isinstance(call(channel, path, say), bytes)


def test_a_grpc_message_is_not_taken_in_for_somebody_who_may_not_call(guarded: Attacked) -> None:
    is_over = threading.Event()

    def withheld() -> Iterator[bytes]:
        is_over.wait(SECONDS)
        yield b""

    with channel_to(guarded.grpc) as channel:
        for dialect in (V1_0, V0_3):
            for operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
                ask = channel.stream_stream(dialect.rpc(operation).path)
                with pytest.raises(grpc.RpcError) as caught:
                    list(ask(withheld(), metadata=[("authorization", "nothing")], timeout=SECONDS))
                error: Any = caught.value
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        is_over.set()
        path = V1_0.rpc(ops.LIST_TASKS).path
        metadata = [("authorization", f"Bearer {TOKENS['alice']}")]
        with pytest.raises(grpc.RpcError, match="The request has no message"):
            channel.stream_unary(path)(iter(()), metadata=metadata, timeout=SECONDS)


@pytest.mark.anyio
async def test_a_grpc_message_that_does_not_come_is_not_waited_for_for_ever() -> None:
    async def withheld() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    app = App(echo_agent(), limits=ServerLimits(stalled_seconds=0.05))
    with fail_after(SECONDS):
        async with app.running():
            grpc_server = GrpcServer(app)
            port = await grpc_server.start("127.0.0.1", 0)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                ask = channel.stream_unary(V1_0.rpc(ops.LIST_TASKS).path)(withheld())
                with pytest.raises(grpc.aio.AioRpcError, match="The request message did not arrive in time"):
                    await ask
            await grpc_server.stop()


def waiting_task(server: Attacked, id: str) -> str:
    ask = {**message("wait", id), "configuration": {"returnImmediately": True}}
    return server.rpc("SendMessage", ask).json["result"]["task"]["id"]


def test_a_thousand_grpc_streams_that_are_canceled_at_once_leave_nothing_behind(server: Attacked) -> None:
    task = waiting_task(server, "for many")
    before = server.until(lambda held: held["streams"] == 0 and held["connections"] == 0)
    subscribe = encoded(V1_0, ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(task))
    with channel_to(server.grpc) as channel:
        for n in range(1_000):
            if n % 10:
                stream = channel.unary_stream(V1_0.rpc(ops.SUBSCRIBE_TO_TASK).path)(subscribe)
            else:
                say = r.SendMessageRequest(Message(f"gone {n}", Role.USER, (TextPart("x"),)))
                data = encoded(V1_0, ops.SEND_STREAMING_MESSAGE, say)
                stream = channel.unary_stream(V1_0.rpc(ops.SEND_STREAMING_MESSAGE).path)(data)
            if n % 3 == 0:
                next(stream)
            stream.cancel()
    names = ("asyncio_tasks", "feeds", "runs", "streams")
    server.until(lambda held: [held[name] for name in names] == [before[name] for name in names])
    assert "result" in server.rpc("CancelTask", {"id": task}).json


# --- streams that nobody reads ----------------------------------------------------------------------------------------


def open_stream(server: Attacked, task: str) -> socket.socket:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}})
    connection = server.connect()
    try:
        connection.sendall(post(body, f"Content-Length: {len(body)}").encode())
    except OSError:
        connection.close()
        raise
    return connection


def vanish(connection: socket.socket) -> None:
    """Be gone without a goodbye: the other side gets an RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_thousand_idle_streams_cost_little_and_nothing_once_their_readers_vanish(
    record_property: Callable[[str, object], None],
) -> None:
    with attacked() as (server, _):
        task = waiting_task(server, "idle")
        for warm_up in (True, False):
            before = server.until(lambda held: held["streams"] == 0 and held["connections"] == 0)
            connections = [open_stream(server, task) for _ in range(100 if warm_up else 1_000)]
            held = server.until(lambda held, all=connections: held["streams"] == len(all))
            for connection in connections:
                vanish(connection)
        each = (held["kilobytes"] - before["kilobytes"]) / 1_000
        record_property("kilobytes_per_idle_stream", round(each, 1))
        print(f"An idle stream costs {each:.1f} KB")
        assert each < 100
        after = server.until(lambda held: held["streams"] == 0 and held["connections"] == 0)
        names = ("asyncio_tasks", "feeds", "runs")
        assert [after[name] for name in names] == [before[name] for name in names]
        assert "result" in server.rpc("CancelTask", {"id": task}).json


def test_pipelined_streams_and_half_closed_connections_are_let_go(server: Attacked) -> None:
    task = waiting_task(server, "half open")
    before = server.until(lambda held: held["streams"] == 0 and held["connections"] == 0)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}})
    ask = post(body, f"Content-Length: {len(body)}").encode()
    with ExitStack() as stack:
        for how in ("half closed", "pipelined", "half a request"):
            connection = stack.enter_context(server.connect())
            connection.sendall({"pipelined": ask * 5, "half a request": ask[:-10]}.get(how, ask))
            if how == "half closed":
                connection.shutdown(socket.SHUT_WR)
        server.until(lambda held: held["connections"] >= 2)
    names = ("asyncio_tasks", "feeds", "runs", "streams", "connections")
    server.until(lambda held: [held[name] for name in names] == [before[name] for name in names])
    assert "result" in server.rpc("CancelTask", {"id": task}).json


# --- the log ----------------------------------------------------------------------------------------------------------


def test_nothing_that_a_peer_sends_forges_a_log_line_or_puts_a_secret_there() -> None:
    secrets = [TOKENS["alice"], "hunter2-and-more", "s3cret-in-the-query"]
    with attacked("--guarded", "--access-log") as (server, logged):
        server.rpc("ListTasks", {}, who="alice")
        server.ask("GET", "/tasks/%0a2026-01-01T00:00:00.000Z%20ERROR%20forged", who="alice")
        server.ask("GET", "/tasks", headers={"Authorization": "Bearer hunter2-and-more"})
        server.ask("GET", "/tasks?api_key=s3cret-in-the-query&token=s3cret-in-the-query", who="alice")
        server.ask(
            "GET", CARD, headers={"Host": "\x1b[31mred", "User-Agent": "\x1b]0;title\x07", "A2A-Version": "\x1b[0m"}
        )
        server.rpc("\x1b[2J\nforged", {}, who="alice")
        server.rpc("SendMessage", message("\nforged\r\n\x1b[2J", "\nforged", contextId="\nforged"), who="alice")
        server.say("GET / HTTP/1.1\r\nHost: h\r\nBad Header\x1b: forged\r\n\r\n")
        with channel_to(server.grpc) as channel:
            call(channel, "/no/forged", b"", [("authorization", "Bearer hunter2-and-more")])
        lines = logged().splitlines()
    assert lines
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ [\w.]+: ", line)] == []
    assert [line for line in lines if "\x1b" in line or any(secret in line for secret in secrets)] == []


# --- the end ----------------------------------------------------------------------------------------------------------


def test_sigterm_is_obeyed_while_the_attack_goes_on() -> None:
    is_over = threading.Event()

    def keep_on(attack: Callable[[], object]) -> None:
        while not is_over.is_set():
            try:
                attack()
            except (OSError, http.client.HTTPException, ValueError):
                is_over.wait(0.01)

    with attacked() as (server, logged), ExitStack() as stack:
        task = waiting_task(server, "until the end")
        streams = [open_stream(server, task) for _ in range(50)]
        for connection in streams:
            stack.callback(connection.close)
        slow = [stack.enter_context(server.connect()) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n")
        server.until(lambda held: held["streams"] == 50)
        attacks: list[Callable[[], object]] = [
            lambda: server.rpc("SendMessage", message("x", os.urandom(8).hex())),
            lambda: server.ask("POST", "/message:send", "[" * 300_000),
            lambda: vanish(open_stream(server, task)),
            lambda: server.say(post("x" * MILLION, "Content-Length: 60000000")[: 2 * MILLION] + "\0"),
        ]
        threads = [threading.Thread(target=keep_on, args=(attack,)) for attack in attacks]
        for thread in threads:
            thread.start()
        try:
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(SECONDS) == 0
        finally:
            is_over.set()
            for thread in threads:
                thread.join(SECONDS)
        assert "Stopped" in logged()
        ends = [read_all(connection) for connection in streams]
        assert all(b"lastEventId" in end for end in ends)
