"""Cases about streams."""

from __future__ import annotations

import re

from parley.check.cases.case import HTTP, Cases
from parley.check.cases.envelope import misspellings
from parley.check.cases.expectations import expect
from parley.check.cases.reading import read_task
from parley.check.endpoints.probe import Probe, parsed
from parley.check.findings import Broken, Undecided
from parley.client.streams.streamed_task import StreamedTask
from parley.protocol import operations as ops
from parley.protocol.cards import Binding
from parley.protocol.errors import PeerProtocolError, UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import ends_stream, is_terminal
from parley.protocol.messages import Message, text_of
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.wire.sse import Decoder

CASES = Cases()

EVENT_MEMBERS = ("task", "message", "statusUpdate", "artifactUpdate")
"""The members of a StreamResponse of 1.0, of which each event has one."""


def require_streaming(probe: Probe) -> None:
    """Raises Undecided if the agent does not stream."""
    if not probe.card.capabilities.streaming:
        raise Undecided("the card declares no streaming")


async def _sample(probe: Probe) -> list[StreamEvent]:
    """The events of the sampled stream. Raises Broken if the stream is not valid."""
    require_streaming(probe)
    if isinstance(await probe.samples.answer(), Task):
        await probe.samples.quick()
    try:
        events = await probe.samples.events()
    except Undecided as outcome:
        if isinstance(outcome.__cause__, PeerProtocolError):
            raise Broken(f"the stream cannot be read: {outcome.__cause__}") from outcome
        raise
    if probe.version is Version.V1_0 and probe.binding is not Binding.GRPC:
        _check_members(probe)
    return events


def _check_members(probe: Probe) -> None:
    """Make sure that each event has exactly one member, which tells its kind. Our own client accepts others too.

    langgraph-api 0.16 tags all events but the first by `kind` instead.
    """
    for number, value in enumerate(_frames(probe), start=1):
        event = value.get("result") if probe.binding is Binding.JSONRPC and isinstance(value, dict) else value
        members: JsonObject = event if isinstance(event, dict) else {}
        if sum(name in members for name in EVENT_MEMBERS) != 1:
            tag = f"; it is tagged by kind {members['kind']!r} instead" if "kind" in members else ""
            raise Broken(f"event {number} of the stream does not have exactly one of {', '.join(EVENT_MEMBERS)}{tag}")


@CASES.case("An agent without streaming refuses it", v1_0="G1.24", v0_3="G2.5a", v0_1="A1.2b")
async def refused(probe: Probe) -> str:
    if probe.card.capabilities.streaming:
        raise Undecided("the card declares streaming")
    await probe.samples.answer()
    error = await probe.refusal(ops.SEND_STREAMING_MESSAGE, probe.request())
    is_new = probe.version is Version.V1_0
    return expect(probe, error, UnsupportedOperationError, what="A streaming send", any_error=not is_new)


@CASES.case("A stream is a message, or a task and its updates", v1_0="G1.25")
async def shape(probe: Probe) -> str:
    events = await _sample(probe)
    if not events:
        raise Broken("the stream has no events")
    first, *updates = events
    if isinstance(first, Message):
        if updates:
            raise Broken(f"{len(updates)} events follow a message")
        return "The stream is one message"
    if not isinstance(first, Task):
        raise Broken(f"the stream begins with {type(first).__name__}, not with the task")
    if any(isinstance(event, Message) for event in updates):
        raise Broken("there is a message among the updates of a task")
    others = {event.id if isinstance(event, Task) else event.task_id for event in updates} - {first.id}
    if others:
        raise Broken(f"there are updates of other tasks: {', '.join(map(str, others))}")
    return f"The stream is a task and {len(updates)} updates"


@CASES.case("A stream ends with its task", v1_0="G1.26", v0_3="G2.10", v0_1="A1.5")
async def ending(probe: Probe) -> str:
    events = await _sample(probe)
    if not events:
        raise Undecided("the stream has no events")
    if isinstance(events[-1], Message):
        return "The stream is a message"
    states = [event.status.state for event in events if isinstance(event, Task | StatusUpdate)]
    if not states or not ends_stream(states[-1]):
        raise Broken(f"the stream ended while the task was {states[-1] if states else 'unknown'}")
    ends = [index for index, event in enumerate(events) if is_end(event)]
    # A server may send the whole task once more before it closes.
    if ends and any(not isinstance(event, Task) for event in events[ends[0] + 1 :]):
        raise Broken("the stream went on after the task had ended")
    return f"The stream closed when the task was {states[-1]}"


def is_end(event: StreamEvent) -> bool:
    """Whether an event says that the task has ended."""
    return isinstance(event, Task | StatusUpdate) and is_terminal(event.status.state)


def _frames(probe: Probe) -> list[JsonValue]:
    """The frames of the sampled stream. Raises Broken if one is not JSON."""
    return [parsed(frame.data) for frame in Decoder().feed(probe.recorder.exchanges[-1].body)]


@CASES.case(
    "Frames are answers to the request, and final marks the last",
    v0_3="G2.10",
    v0_1="A1.5",
    bindings=(Binding.JSONRPC,),
)
async def frames(probe: Probe) -> str:
    await _sample(probe)
    exchange = probe.recorder.exchanges[-1]
    if not exchange.headers.get("content-type", "").lower().startswith("text/event-stream"):
        raise Broken("the content type is not text/event-stream")
    asked = re.search(r'"id":(\d+)', exchange.sent)
    wanted = int(asked[1]) if asked else None
    is_final: list[bool] = []
    tells_status = False
    for value in _frames(probe):
        if not isinstance(value, dict) or value.get("id") != wanted:
            raise Broken(f"a frame has the id {value.get('id') if isinstance(value, dict) else None!r}, not {wanted!r}")
        result = value.get("result")
        if isinstance(result, dict):
            is_update = "status" in result and result.get("kind") in ("status-update", None)  # 0.1 has no kinds
            tells_status = tells_status or is_update
            is_final.append(result.get("final") is True)
    if any(is_final[:-1]):
        raise Broken("final: true marks an update that is not the last")
    if tells_status and not is_final[-1]:
        raise Broken("the last update is not marked by final: true")
    if not tells_status:
        raise Undecided(f"{len(is_final)} frames have the id of the request, and none is an update that could be final")
    return f"{len(is_final)} frames have the id of the request, and the last is final"


@CASES.case("Streams are spelled as the specification says", v1_0="G1.46", bindings=HTTP)
async def spelling(probe: Probe) -> str:
    await _sample(probe)
    values = _frames(probe)
    wrong = [fault for value in values for fault in misspellings(value)]
    if wrong:
        raise Broken("; ".join(wrong[:5]))
    return f"Names, enums and times are spelled right in {len(values)} frames"


@CASES.case("The streamed artifacts are those of the task", v1_0="G1.27", v0_1="G3.3")
async def artifacts_match(probe: Probe) -> str:
    events = await _sample(probe)
    replay = replayed(events)
    if not replay.task_id or replay.status is None or not is_terminal(replay.status.state):
        raise Undecided("the stream has no task that has ended")
    stored = await read_task(probe, replay.task_id)
    if stored.status.state is not replay.status.state:
        raise Broken(f"the stream ended with {replay.status.state}, and the task is {stored.status.state}")
    if not _texts(replay.task()):
        raise Undecided("the stream has no artifacts")
    compare_with_task(replay, stored)
    if probe.version is Version.V0_1 and sum(isinstance(event, ArtifactUpdate) for event in events) < 2:
        raise Undecided("the agent sends no chunks")
    return "The streamed artifacts are those of the task"


def replayed(events: list[StreamEvent]) -> StreamedTask:
    """The task as the events of a stream describe it."""
    replay = StreamedTask()
    for event in events:
        replay.add(event)
    return replay


def compare_with_task(replay: StreamedTask, stored: Task) -> None:
    """Make sure that a stream had the artifacts of its task. Raises Broken.

    Only texts are compared, because a server may divide them into parts as it likes.
    """
    streamed, kept = _texts(replay.task()), _texts(stored)
    if any(streamed[name] != kept.get(name) for name in streamed):
        raise Broken("the chunks of the stream, put together in their order, are not the task's artifacts")


def _texts(task: Task) -> dict[str, str]:
    return {artifact.artifact_id: text_of(artifact.parts) for artifact in task.artifacts}
