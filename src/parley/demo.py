"""`make run`: one conversation, begun by a caller from 2025 and told in all four dialects.

Everything it prints went through the real codecs: bytes are parsed, their dialect detected, decoded to the canonical
model and encoded again for readers of every age.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from msgspec import structs

from parley.dialects.detect import detect_jsonrpc
from parley.dialects.json_errors import encode_error
from parley.dialects.registry import DIALECTS
from parley.protocol import operations as ops
from parley.protocol.errors import A2AError
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, TaskCreated
from parley.protocol.lifecycle import fold
from parley.protocol.messages import DataPart, Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.wire import jsonrpc, sse

CALLER = b"""{"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"id": "task-7", "sessionId": "trip",
  "message": {"role": "user", "parts": [{"type": "text", "text": "How much is 100 USD?"}]}}}"""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def main() -> None:
    """Print the conversation."""
    _title("A caller of A2A 0.1 asks. These bytes come in:")
    print(CALLER.decode())
    request = _read(CALLER)
    assert request is not None

    _title("What it would have said in the other dialects:")
    for version, dialect in DIALECTS.items():
        method = ops.SEND_MESSAGE.methods[version]
        _say(version, jsonrpc.encode_request(b"1", method, dialect.encode_request(ops.SEND_MESSAGE, request)))

    events = _conversation(request)
    _title("The agent asks back, so the task waits (a reply to tasks/get, message/send, …):")
    for version, dialect in DIALECTS.items():
        _say(version, jsonrpc.encode_result(b"1", dialect.encode_result(ops.GET_TASK, fold(None, events[:4]))))

    _title("The caller answers, and the agent streams its result as an artifact (one SSE frame each):")
    for version, dialect in DIALECTS.items():
        for frame in dialect.encode_event(_stream_event(events[6])):
            print(f"  {version}  {sse.encode_frame(jsonrpc.encode_result(b'1', frame), id='7').decode().strip()}")

    _title("The end: everything said, folded into the task, read back through each dialect:")
    task = fold(None, events)
    for version, dialect in DIALECTS.items():
        raw = dialect.encode_result(ops.GET_TASK, task)
        again = dialect.decode_result(ops.GET_TASK, raw)
        assert isinstance(again, Task)
        text = "".join(part.text for part in again.artifacts[0].parts if isinstance(part, TextPart))
        print(f"  {version}  {len(raw):4} bytes, {len(again.history)} messages, {again.status.state}: {text!r}")

    _title("And nonsense gets a precise error in the caller's dialect:")
    for body in (
        b'{"jsonrpc": "2.0", "id": 2, "method": "SendMessage", "params": {"message": {"messageId": "m", "parts": []}}}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "message/send", "params": {"message": {"role": "boss", "parts": []}}}',
    ):
        _read(body)
    print("\nNext: docs/ explains each layer, ARCHITECTURE.md shows where everything is.")


def _read(body: bytes) -> SendMessageRequest | None:
    """Take a send in as a server would, and say what was understood, or what was wrong."""
    envelope = jsonrpc.decode_request(body)
    found = detect_jsonrpc(envelope.method)
    try:
        request = DIALECTS[found.version].decode_request(found.operation, envelope.params)
    except A2AError as error:
        _say(found.version, jsonrpc.encode_error(envelope.id, encode_error(found.version, error)))
        return None
    assert isinstance(request, SendMessageRequest)
    print(f"\n  understood as {found.operation.name} of A2A {found.version}, because {found.reason}")
    print(f"  message: {request.message.text!r}, task {request.message.task_id!r}")
    return structs.replace(request, message=structs.replace(request.message, message_id="m-1"))


def _conversation(request: SendMessageRequest) -> list[TaskCreated | MessageAdded | StatusUpdate | ArtifactUpdate]:
    """What happens over time: the events that the task's log would hold."""
    task, context = request.message.task_id or "", request.message.context_id
    question = Message("m-2", Role.AGENT, (TextPart("To which currency?"),), context, task)
    answer = Message("m-3", Role.USER, (TextPart("EUR"), DataPart({"rounding": 2})), context, task)
    first = Artifact("conversion", (TextPart("100 USD is "),), name="Conversion", index=0)
    second = Artifact("conversion", (TextPart("92.00 EUR."),), index=0)
    return [
        TaskCreated(task, context, TaskStatus(TaskState.SUBMITTED, timestamp=NOON)),
        MessageAdded(task, context, request.message),
        StatusUpdate(task, context, TaskStatus(TaskState.WORKING, timestamp=NOON)),
        StatusUpdate(task, context, TaskStatus(TaskState.INPUT_REQUIRED, question, NOON)),
        MessageAdded(task, context, answer),
        StatusUpdate(task, context, TaskStatus(TaskState.WORKING, timestamp=NOON)),
        ArtifactUpdate(task, context, first),
        ArtifactUpdate(task, context, second, append=True, last_chunk=True),
        StatusUpdate(task, context, TaskStatus(TaskState.COMPLETED, timestamp=NOON)),
    ]


def _stream_event(event: TaskCreated | MessageAdded | StatusUpdate | ArtifactUpdate) -> StatusUpdate | ArtifactUpdate:
    assert isinstance(event, StatusUpdate | ArtifactUpdate)
    return event


def _title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def _say(version: Version, raw: bytes) -> None:
    print(f"  {version}  {json.dumps(json.loads(raw), ensure_ascii=False)}")


if __name__ == "__main__":
    main()
