"""Cases about streams."""

from __future__ import annotations

from contextlib import aclosing

from parley.check.cases import Cases
from parley.check.envelope import absent
from parley.check.probe import SAYS_NOTHING, Probe, expect, parsed
from parley.check.verdict import Broken, Undecided
from parley.client.growing import GrowingTask
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, TaskNotFoundError, UnsupportedOperationError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream, is_terminal
from parley.protocol.messages import Message, TextPart
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.wire.sse import Decoder

CASES = Cases()


def _streams(probe: Probe) -> None:
    if not probe.card.capabilities.streaming:
        raise Undecided("the card declares no streaming")


async def _sample(probe: Probe) -> list[StreamEvent]:
    """The events of a stream, once."""
    _streams(probe)
    await probe.sample()
    return await probe.streamed()


@CASES.case("An agent that does not stream refuses to", v1_0="G1.24", v0_3="G2.5", v0_1="A1.2")
async def refused(probe: Probe) -> str:
    if probe.card.capabilities.streaming:
        raise Undecided("the card declares streaming")
    error = await probe.refusal(ops.SEND_STREAMING_MESSAGE, probe.request())
    is_new = probe.version is Version.V1_0
    return expect(probe, error, UnsupportedOperationError, what="A streaming send", any_error=not is_new)


@CASES.case("An agent that does not stream refuses subscriptions", v1_0="G1.24", v0_3="G2.5")
async def refused_subscription(probe: Probe) -> str:
    if probe.card.capabilities.streaming:
        raise Undecided("the card declares streaming")
    task = await probe.task()
    error = await probe.refusal(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(task.id, tenant=probe.tenant))
    is_new = probe.version is Version.V1_0
    return expect(probe, error, UnsupportedOperationError, what="A subscription", any_error=not is_new)


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
    strangers = {event.task_id for event in updates if not isinstance(event, Task | Message)} - {first.id}
    if strangers:
        raise Broken(f"there are updates of other tasks: {', '.join(map(str, strangers))}")
    return f"The stream is a task and {len(updates)} updates"


@CASES.case("A stream ends with its task", v1_0="G1.26", v0_3="G2.10", v0_1="A1.2")
async def ending(probe: Probe) -> str:
    events = await _sample(probe)
    if events and isinstance(events[-1], Message):
        return "The stream is a message"
    states = [event.status.state for event in events if isinstance(event, Task | StatusUpdate)]
    if not states or not ends_stream(states[-1]):
        raise Broken(f"the stream ended while the task was {states[-1] if states else 'unknown'}")
    if any(is_terminal(state) for state in states[:-1]):
        raise Broken("the stream went on after the task had ended")
    return f"The stream closed when the task was {states[-1]}"


@CASES.case("Frames are answers to the request, and final marks the last", v0_3="G2.10", bindings=(Binding.JSONRPC,))
async def frames(probe: Probe) -> str:
    await _sample(probe)
    exchange = probe.recorder.exchanges[-1]
    if not exchange.headers.get("content-type", "").startswith("text/event-stream"):
        raise Broken("the content type is not text/event-stream")
    sent = parsed(exchange.sent.partition("\n\n")[2].encode())
    wanted = sent.get("id") if isinstance(sent, dict) else None
    finals: list[bool] = []
    for frame in Decoder().feed(exchange.body):
        value = parsed(frame.data)
        if not isinstance(value, dict) or value.get("id") != wanted:
            raise Broken(f"a frame has the id {value.get('id') if isinstance(value, dict) else None!r}, not {wanted!r}")
        result = value.get("result")
        if isinstance(result, dict):
            finals.append(result.get("final") is True or result.get("kind") == "message")
    if not finals or not finals[-1] or any(finals[:-1]):
        raise Broken("final: true does not mark the last update, and only that")
    return f"{len(finals)} frames have the id of the request, and the last is final"


@CASES.case("A stream says what the task then holds", v1_0="G1.27")
async def order(probe: Probe) -> str:
    events = await _sample(probe)
    growing = GrowingTask()
    for event in events:
        growing.add(event)
    if not growing.task_id or growing.status is None or not is_terminal(growing.status.state):
        raise Undecided("the stream tells of no task that has ended")
    read = await probe.call(ops.GET_TASK, r.GetTaskRequest(growing.task_id, tenant=probe.tenant))
    streamed, held = _texts(growing.task()), _texts(read)
    if any(streamed[name] != held.get(name) for name in streamed):
        raise Broken("the chunks of the stream, put together in their order, are not the task's artifacts")
    if read.status.state is not growing.status.state:
        raise Broken(f"the stream ended with {growing.status.state}, and the task is {read.status.state}")
    if not streamed:
        raise Undecided("the stream tells of no artifacts")
    return "What was streamed is what the task holds"


def _texts(task: Task) -> dict[str, str]:
    return {
        artifact.artifact_id: "".join(part.text for part in artifact.parts if isinstance(part, TextPart))
        for artifact in task.artifacts
    }


@CASES.case("Nobody subscribes to an unknown task", v1_0="G1.29", v0_3="G2.11", v0_1="A1.7")
async def unknown_task(probe: Probe) -> str:
    _streams(probe)
    error = await probe.refusal(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(absent(), tenant=probe.tenant))
    return expect(probe, error, TaskNotFoundError, what="A subscription to an unknown task")


@CASES.case("Nobody subscribes to a finished task", v1_0="G1.29")
async def finished_task(probe: Probe) -> str:
    _streams(probe)
    task = await probe.finished()
    error = await probe.refusal(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(task.id, tenant=probe.tenant))
    return expect(probe, error, UnsupportedOperationError, what=f"A subscription to a {task.status.state} task")


@CASES.case("A subscription to a finished task ends", v0_3="G2.11")
async def finished_task_0_3(probe: Probe) -> str:
    _streams(probe)
    task = await probe.finished()
    request = r.SubscribeToTaskRequest(task.id, tenant=probe.tenant)
    number = 0
    try:
        async with aclosing(probe.events(ops.SUBSCRIBE_TO_TASK, request)) as events:
            async for _ in events:
                number += 1
    except SAYS_NOTHING as error:
        raise Undecided(f"the subscription is answered with {error}") from error
    except A2AError as error:
        return f"The subscription is refused: {type(error).__name__}"
    return f"The subscription gives {number} event(s) and ends"


@CASES.case("A subscription begins with the task", v1_0="G1.29")
async def first_event(probe: Probe) -> str:
    _streams(probe)
    task = await probe.running()
    first = await _first(probe, task.id)
    if not isinstance(first, Task) or first.id != task.id:
        raise Broken(f"the subscription begins with {type(first).__name__}")
    return f"The subscription begins with the task, which is {first.status.state}"


async def _first(probe: Probe, task_id: str) -> StreamEvent:
    request = r.SubscribeToTaskRequest(task_id, tenant=probe.tenant)
    try:
        async with aclosing(probe.events(ops.SUBSCRIBE_TO_TASK, request)) as events:
            async for event in events:
                return event
    except UnsupportedOperationError as error:
        raise Undecided("the task had ended before the subscription") from error
    raise Broken("the subscription to a task at work has no events")


@CASES.case("Closing a stream touches neither the others nor the task", v1_0="G1.28")
async def closing(probe: Probe) -> str:
    _streams(probe)
    task = await probe.running()
    await _first(probe, task.id)
    other = await _first(probe, task.id)
    if isinstance(other, Task) and other.status.state is TaskState.CANCELED:
        raise Broken("the task was cancelled when a stream was closed")
    return "A second stream finds the task untouched"


@CASES.case("A caller that goes away cancels nothing", v1_0="G1.31")
async def going_away(probe: Probe) -> str:
    _streams(probe)
    await probe.task()
    async with aclosing(probe.events(ops.SEND_STREAMING_MESSAGE, probe.request())) as events:
        first = await anext(events, None)
    if not isinstance(first, Task) or is_terminal(first.status.state):
        raise Undecided("the agent is so quick that its task was not seen at work")
    read = await probe.call(ops.GET_TASK, r.GetTaskRequest(first.id, tenant=probe.tenant))
    probe.remember(read)
    if read.status.state is TaskState.CANCELED:
        raise Broken("the task was cancelled when its caller went away")
    return f"The task is {read.status.state} after its caller went away"
