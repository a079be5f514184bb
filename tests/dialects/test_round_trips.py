"""Every object through every JSON dialect and back: what comes out is what went in, less the documented losses.

An object goes through all dialects: making one up takes ten times as long as all conversions together.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from parley.dialects import v0_1, v0_2, v0_3, v0_3_protojson, v1_0
from parley.dialects.dialect import JsonDialect
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import OPERATIONS, Operation
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from tests import losses, strategies
from tests.losses import Losses


@dataclass(frozen=True)
class Case:
    """A dialect, and what it loses."""

    name: str
    dialect: JsonDialect
    losses: Losses

    def __repr__(self) -> str:
        return self.name


V0_1 = Case("0.1", v0_1.DIALECT, Losses(losses.RULES_0_1))
PROTOJSON = Case("0.3 REST ProtoJSON", v0_3_protojson.REST_DIALECT, Losses(losses.RULES_0_3_PROTOJSON))
CASES = [
    V0_1,
    Case("0.2", v0_2.DIALECT, Losses(losses.RULES_0_2)),
    Case("0.3", v0_3.DIALECT, Losses(losses.RULES_0_3)),
    Case("0.3 REST", v0_3.REST_DIALECT, Losses(losses.RULES_0_3_REST)),
    PROTOJSON,
    Case("1.0", v1_0.DIALECT, Losses(losses.RULES_1_0)),
    Case("1.0 REST", v1_0.REST_DIALECT, Losses(losses.RULES_1_0)),
]
SINCE_0_2 = CASES[1:]
EACH_OPERATION = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def each(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases one after the other; the last one that is noted is the one that failed."""
    for case in cases:
        note(case.name)
        yield case


def there_and_back(case: Case, operation: Operation, result: Any) -> Any:
    return case.dialect.decode_result(operation, case.dialect.encode_result(operation, result))


@EACH_OPERATION
@given(data=st.data())
def test_a_request_comes_back_as_it_went(operation: Operation, data: st.DataObject) -> None:
    request = data.draw(strategies.requests[operation.name])

    for case in each(case for case in CASES if case.dialect.speaks(operation)):
        raw = case.dialect.encode_request(operation, request)
        assert case.dialect.decode_request(operation, raw) == case.losses.remaining(request)


@pytest.mark.parametrize("operation", [op for op in OPERATIONS if not op.streams], ids=lambda operation: operation.name)
@given(data=st.data())
def test_a_result_comes_back_as_it_went(operation: Operation, data: st.DataObject) -> None:
    result = data.draw(strategies.results[operation.name])

    for case in each(case for case in CASES if case.dialect.speaks(operation)):
        said = losses.direct_reply_0_1(result) if case is V0_1 and operation.name == "SendMessage" else result
        if case is PROTOJSON:
            said = losses.webhooks_by_name(said)
        assert there_and_back(case, operation, result) == case.losses.remaining(said)


@given(event=strategies.stream_events)
def test_a_stream_event_comes_back_as_it_went(event: Any) -> None:
    for case in each(SINCE_0_2):
        (frame,) = case.dialect.encode_event(event)
        assert case.dialect.decode_event(frame) == case.losses.remaining(event)


@given(event=strategies.status_updates | strategies.slotted_artifact_updates)
def test_an_update_comes_back_through_0_1(event: StatusUpdate | ArtifactUpdate) -> None:
    (frame,) = V0_1.dialect.encode_event(event)

    assert V0_1.dialect.decode_event(frame) == V0_1.losses.remaining(event)


@given(task=strategies.tasks)
def test_0_1_spells_a_snapshot_out_as_its_artifacts_and_then_its_status(task: Task) -> None:
    events = [V0_1.dialect.decode_event(frame) for frame in V0_1.dialect.encode_event(task)]

    expected = V0_1.losses.remaining(task)
    artifacts = [ArtifactUpdate(task.id, None, artifact, last_chunk=True) for artifact in expected.artifacts]
    status = V0_1.losses.remaining(StatusUpdate(task.id, None, task.status, task.metadata))
    assert events == [*artifacts, status]


@given(message=strategies.messages)
def test_0_1_tells_a_direct_reply_as_a_final_completed_status(message: Any) -> None:
    (frame,) = V0_1.dialect.encode_event(message)

    task = V0_1.losses.remaining(losses.direct_reply_0_1(message))
    status = V0_1.losses.remaining(StatusUpdate(task.id, None, task.status))
    assert V0_1.dialect.decode_event(frame) == status
    assert ends_stream(status.status.state)


@given(event=strategies.stream_events, task=strategies.tasks)
def test_a_push_body_comes_back_as_it_went(event: Any, task: Task) -> None:
    for case in each(CASES):
        said = event if case.dialect.version is Version.V1_0 else task
        assert case.dialect.decode_push(case.dialect.encode_push(event, task)) == case.losses.remaining(said)


@given(card=strategies.cards)
def test_a_card_comes_back_as_it_went(card: Any) -> None:
    for case in each(CASES):
        assert case.dialect.decode_card(case.dialect.encode_card(card)) == case.losses.remaining(card)


@settings(max_examples=25)  # for each of the forty-nine pairs
@given(task=strategies.tasks)
def test_a_task_translated_between_two_dialects_keeps_what_both_can_say(task: Task) -> None:
    operation = next(op for op in OPERATIONS if op.name == "GetTask")

    for first in each(CASES):
        once = there_and_back(first, operation, task)
        for second in each(CASES):
            translated = there_and_back(second, operation, once)
            assert translated == second.losses.remaining(first.losses.remaining(task))


# --- where a stream ends ----------------------------------------------------------------------------------------------

QUESTION = StatusUpdate("t", "c", TaskStatus(TaskState.INPUT_REQUIRED))
WORKING = StatusUpdate("t", "c", TaskStatus(TaskState.WORKING))
DONE = StatusUpdate("t", "c", TaskStatus(TaskState.COMPLETED))
SAYS_FINAL = [case for case in CASES if case.dialect.version is not Version.V1_0]


def final_of(frame: bytes) -> bool:
    value = json.loads(frame)
    return bool(value.get("statusUpdate", value).get("final"))


@pytest.mark.parametrize("case", SAYS_FINAL, ids=repr)
def test_a_replay_across_an_old_question_says_final_only_at_its_end(case: Case) -> None:
    replay = [(WORKING, False), (QUESTION, False), (WORKING, False), (DONE, True)]
    frames = [frame for event, ends in replay for frame in case.dialect.encode_event(event, ends=ends)]
    assert [final_of(frame) for frame in frames] == [False, False, False, True]


@pytest.mark.parametrize("case", SAYS_FINAL, ids=repr)
def test_without_knowledge_of_the_stream_the_state_says_whether_it_ends(case: Case) -> None:
    frames = [frame for event in (WORKING, QUESTION, DONE) for frame in case.dialect.encode_event(event)]
    assert [final_of(frame) for frame in frames] == [False, True, True]
    (frame,) = case.dialect.encode_event(WORKING, ends=True)
    assert final_of(frame)


def test_1_0_has_no_final_whatever_is_known_of_the_stream() -> None:
    frames = {frame for ends in (None, True, False) for frame in v1_0.DIALECT.encode_event(DONE, ends=ends)}
    assert frames == {b'{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"},"contextId":"c"}}'}


def test_0_1_ends_a_snapshot_as_it_is_told() -> None:
    asked = Task("t", "c", QUESTION.status, (Artifact("a", (TextPart("x"),)),))
    for ends, final in ((None, True), (False, False), (True, True)):
        artifact, status = v0_1.DIALECT.encode_event(asked, ends=ends)
        assert (final_of(artifact), final_of(status)) == (False, final)
    reply = Message("m", Role.AGENT, (TextPart("x"),))
    for ends, final in ((None, True), (False, False)):
        (frame,) = v0_1.DIALECT.encode_event(reply, ends=ends)
        assert final_of(frame) is final


# --- push bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_webhook_of_1_0_is_told_the_event_and_an_older_one_the_whole_task(case: Case) -> None:
    task = Task("t", "c", DONE.status)
    told = case.dialect.decode_push(case.dialect.encode_push(DONE, task))
    assert told == (DONE if case.dialect.version is Version.V1_0 else task)
