"""What the codecs cost: bytes of a SendMessage request in, bytes of a Task reply out, per dialect.

Both sides do all the work a server does with a JSON-RPC body: envelope, detection of the dialect, validation, typed
values. The peers run in their own environments, in turns with us, on the same payloads; a line is the best of several
rounds, because the machine's other work only ever makes things slower. Ratios are what to read.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from timeit import Timer

from parley.dialects import protobuf_v0_3, protobuf_v1_0
from parley.dialects.detect import detect_jsonrpc
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import parse_request
from parley.dialects.registry import DIALECTS
from parley.protocol import operations as ops
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, UrlPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.wire import jsonrpc

ROOT = Path(__file__).parent.parent
PEERS = {Version.V1_0: "a2a-sdk-1.3.0", Version.V0_3: "a2a-sdk-0.3.26", Version.V0_2: "a2a-sdk-0.2.16"}
ROUNDS = 7
CALLS = 2_000

MESSAGE = Message(
    "m-1",
    Role.USER,
    (
        TextPart("Plan a week of dinners for four, and keep it under 100 EUR."),
        DataPart({"guests": 4, "budget": 99.5, "vegan": True, "dislikes": ["olives", "liver"]}),
        RawPart(bytes(range(256)), "image/png", "fridge.png"),
        UrlPart("https://files.example/pantry.pdf", "application/pdf", "pantry.pdf"),
    ),
    "context-1",
    "task-1",
    {"trace": "abc"},
)
REQUEST = SendMessageRequest(MESSAGE, SendConfiguration(("text/plain", "application/json"), history_length=10))
REPLY = Message("m-2", Role.AGENT, (TextPart("Here is the plan."),), "context-1", "task-1")
TASK = Task(
    "task-1",
    "context-1",
    TaskStatus(TaskState.COMPLETED, REPLY, datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)),
    (
        Artifact("plan", tuple(TextPart(f"Day {day}: soup and bread. ") for day in range(7)), "The plan"),
        Artifact("shopping", (DataPart({"items": ["leeks", "bread"], "total": 42.5}),), "Shopping list"),
    ),
    (MESSAGE, REPLY),
    {"cost": 3},
)


def microseconds(statement: Timer) -> float:
    """The best time of one call."""
    return min(statement.repeat(ROUNDS, CALLS)) / CALLS * 1e6


def request_body(version: Version) -> bytes:
    params = DIALECTS[version].encode_request(ops.SEND_MESSAGE, REQUEST)
    return jsonrpc.encode_request(b"1", ops.SEND_MESSAGE.methods[version], params)


def take_in(body: bytes) -> object:
    envelope = jsonrpc.decode_request(body)
    found = detect_jsonrpc(envelope.method)
    return DIALECTS[found.version].decode_request(found.operation, envelope.params)


def answer(version: Version) -> bytes:
    return jsonrpc.encode_result(b"1", DIALECTS[version].encode_result(ops.SEND_MESSAGE, TASK))


def measure_ours(version: Version) -> tuple[float, float]:
    body = request_body(version)
    return microseconds(Timer(lambda: take_in(body))), microseconds(Timer(lambda: answer(version)))


def measure_peer(version: Version) -> tuple[float, float]:
    """The same in a peer's environment, with its own types."""
    with tempfile.TemporaryDirectory() as folder:
        request, reply = Path(folder, "request.json"), Path(folder, "reply.json")
        request.write_bytes(request_body(version))
        reply.write_bytes(answer(version))
        python = ROOT / ".peers" / PEERS[version] / "bin" / "python"
        script = ROOT / "tests" / "peers" / "bench_codec.py"
        done = subprocess.run([python, script, request, reply], capture_output=True, check=True, text=True)
    figures = json.loads(done.stdout)
    return figures["decode_us"], figures["encode_us"]


def measure_protobuf(dialect: ProtobufDialect) -> tuple[float, float]:
    rpc = dialect.rpc(ops.SEND_MESSAGE)
    body = dialect.encode_request(ops.SEND_MESSAGE, REQUEST).SerializeToString()

    def take_in() -> object:
        return dialect.decode_request(ops.SEND_MESSAGE, parse_request(rpc.request, body))

    def answer() -> bytes:
        return dialect.encode_result(ops.SEND_MESSAGE, TASK).SerializeToString()

    return microseconds(Timer(take_in)), microseconds(Timer(answer))


def main() -> None:
    ours = {version: measure_ours(version) for version in Version}
    peers = {version: measure_peer(version) for version in PEERS}
    newest = ours[Version.V1_0]
    print(f"{'JSON-RPC':<12}{'decode µs':>10}{'encode µs':>10}{'speed of 1.0':>14}   against the peer (decode, encode)")
    for version, (decode, encode) in ours.items():
        relative = sum(newest) / (decode + encode)
        line = f"{'A2A ' + version:<12}{decode:>10.1f}{encode:>10.1f}{relative:>13.2f}x"
        if version in peers:
            theirs = peers[version]
            ratios = f"{theirs[0] / decode:.1f}x, {theirs[1] / encode:.1f}x"
            line += f"   {ratios} of {PEERS[version]} ({theirs[0]:.1f}, {theirs[1]:.1f} µs)"
        print(line)
    print(f"\n{'protobuf':<12}{'decode µs':>10}{'encode µs':>10}")
    for dialect in (protobuf_v0_3.DIALECT, protobuf_v1_0.DIALECT):
        decode, encode = measure_protobuf(dialect)
        print(f"{'A2A ' + dialect.version:<12}{decode:>10.1f}{encode:>10.1f}")


if __name__ == "__main__":
    main()
