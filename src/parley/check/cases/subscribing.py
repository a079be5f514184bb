"""Cases about subscriptions, and about readers that join and leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from parley.check.cases.case import Cases
from parley.check.cases.expectations import INCONCLUSIVE, describe, expect
from parley.check.cases.reading import need_agent, read_task
from parley.check.cases.streaming import compare_with_task, is_end, replayed, require_streaming
from parley.check.endpoints.probe import Probe, unknown_id
from parley.check.findings import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import A2AError, TaskNotFoundError, UnsupportedOperationError
from parley.protocol.events import StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version

CASES = Cases()


def _subscribe(probe: Probe, task_id: str) -> AsyncGenerator[StreamEvent]:
    return probe.events(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(task_id))


@CASES.case("An agent without streaming refuses subscriptions", v1_0="G1.24", v0_3="G2.5a")
async def refused_subscription(probe: Probe) -> str:
    if probe.card.capabilities.streaming:
        raise Undecided("the card declares streaming")
    task = await probe.samples.task()
    error = await probe.refusal(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(task.id))
    is_new = probe.version is Version.V1_0
    return expect(probe, error, UnsupportedOperationError, what="A subscription", any_error=not is_new)


@CASES.case("A subscription to an unknown task is refused", v1_0="G1.29c", v0_3="G2.11b", v0_1="A1.7a")
async def unknown_task(probe: Probe) -> str:
    require_streaming(probe)
    await need_agent(probe)
    error = await probe.refusal(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(unknown_id()))
    what = "A subscription to an unknown task"
    return expect(probe, error, TaskNotFoundError, what=what, any_error=probe.version in (Version.V0_2, Version.V0_3))


@CASES.case("A subscription to a finished task is refused", v1_0="G1.29b")
async def finished_task(probe: Probe) -> str:
    require_streaming(probe)
    task = await probe.samples.finished()
    error = await probe.refusal(ops.SUBSCRIBE_TO_TASK, r.SubscribeToTaskRequest(task.id))
    return expect(probe, error, UnsupportedOperationError, what=f"A subscription to a {task.status.state} task")


@CASES.case("A subscription to a finished task ends", v0_3="G2.11a")
async def finished_task_0_3(probe: Probe) -> str:
    require_streaming(probe)
    task = await probe.samples.finished()
    received: list[StreamEvent] = []
    error = await _read_all(probe, task.id, received)
    if isinstance(error, INCONCLUSIVE):
        raise Undecided(f"the subscription is answered with {error}") from error
    if error is not None:
        return f"The subscription is refused: {type(error).__name__}"
    return f"The subscription gives {len(received)} event(s) and ends"


@CASES.case("A subscription begins with the task", v1_0="G1.29a")
async def first_event(probe: Probe) -> str:
    require_streaming(probe)
    task = await probe.samples.running()
    first = await _first(probe, task.id)
    if not isinstance(first, Task) or first.id != task.id:
        raise Broken(f"the subscription begins with {type(first).__name__}")
    return f"The subscription begins with the task, which is {first.status.state}"


async def _first(probe: Probe, task_id: str) -> StreamEvent:
    try:
        async with aclosing(_subscribe(probe, task_id)) as events:
            async for event in events:
                return event
    except UnsupportedOperationError as error:
        raise Undecided("the task had ended before the subscription") from error
    raise Broken("the subscription to a running task has no events")


@CASES.case("Two readers of a task get the same events", v1_0="G1.28a")
async def two_readers(probe: Probe) -> str:
    """One reads from the beginning, the other joins later; in the end both have the artifacts of the task."""
    require_streaming(probe)
    await probe.samples.quick()
    first: list[StreamEvent] = []
    second: list[StreamEvent] = []
    async with aclosing(probe.events(ops.SEND_STREAMING_MESSAGE, probe.request())) as events:
        begun = await anext(events, None)
        if not isinstance(begun, Task) or ends_stream(begun.status.state):
            raise Undecided("the agent is so quick that its task was not seen running")
        probe.track(begun)
        first.append(begun)
        later = asyncio.create_task(_read_all(probe, begun.id, second))
        try:
            async for event in events:
                probe.track(event)
                first.append(event)
            if not any(map(is_end, first)):
                raise Undecided("the task has not ended with its stream")
            refusal = await later
        finally:
            later.cancel()
            await asyncio.wait([later])
    if refusal is not None or not second:
        raise Undecided(f"the second reader came too late: {describe(refusal)}")
    stored = await read_task(probe, begun.id)
    if not stored.artifacts:
        raise Undecided("the task has no artifacts")
    for reader, events_read in (("first", first), ("second", second)):
        try:
            compare_with_task(replayed(events_read), stored)
        except Broken as error:
            raise Broken(f"what the {reader} of two readers got is not what the task holds") from error
    return f"{len(first)} and {len(second)} events add up to the same"


async def _read_all(probe: Probe, task_id: str, into: list[StreamEvent]) -> A2AError | None:
    try:
        async with aclosing(_subscribe(probe, task_id)) as events:
            async for event in events:
                into.append(event)
    except A2AError as error:
        return error
    return None


@CASES.case("Closing a stream affects neither the others nor the task", v1_0="G1.28b")
async def closing(probe: Probe) -> str:
    require_streaming(probe)
    task = await probe.samples.running()
    async with aclosing(_subscribe(probe, task.id)) as other:
        if await _first_of(other) is None:
            raise Undecided("the task had ended before the subscription")
        await _first(probe, task.id)  # closed after its first event
        return await _untouched(probe, task.id, "a stream was closed")


async def _first_of(events: AsyncGenerator[StreamEvent]) -> StreamEvent | None:
    try:
        return await anext(events, None)
    except UnsupportedOperationError:
        return None


async def _untouched(probe: Probe, task_id: str, when: str) -> str:
    """Make sure that a task goes on. It should end as the sample did; a task that takes too long proves nothing."""
    sample = await probe.samples.task()
    if sample.status.state is TaskState.CANCELED:
        raise Undecided("the agent's tasks are canceled anyway")
    task = await read_task(probe, task_id)
    if ends_stream(sample.status.state):
        task = await probe.samples.settled(task)
    if task.status.state is TaskState.CANCELED:
        raise Broken(f"the task was cancelled when {when}")
    if not ends_stream(task.status.state):
        raise Undecided(f"the task is still {task.status.state} after {when}; whether it goes on is unknown")
    return f"The task went on and is {task.status.state} after {when}"


@CASES.case("A caller that disconnects does not cancel its task", v1_0="G1.31")
async def going_away(probe: Probe) -> str:
    require_streaming(probe)
    await probe.samples.task()
    async with aclosing(probe.events(ops.SEND_STREAMING_MESSAGE, probe.request())) as events:
        first = await anext(events, None)
    if not isinstance(first, Task) or ends_stream(first.status.state):
        raise Undecided("the agent is so quick that its task was not seen running")
    probe.track(first)
    return await _untouched(probe, first.id, "its caller disconnected")
