"""A task that grows by events, and the way from what was seen to a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.client.streams.streamed_task import StreamedTask
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent, TaskCreated
from parley.protocol.lifecycle import fold
from parley.protocol.messages import DataPart, Message, Role, TextPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from tests.client.scripted_agent import SUBMITTED, TASK, chunk, parts_by_artifact, status

S = TaskState
BEGUN = Task(TASK, "c", SUBMITTED)

parts = st.one_of(
    st.builds(TextPart, st.sampled_from(["", "a", "b", "ab"])),
    st.builds(TextPart, st.just("a"), metadata=st.just({"bold": True})),
    st.builds(DataPart, st.integers(0, 2)),
)
artifacts = st.builds(
    Artifact,
    st.sampled_from("xyz"),
    st.lists(parts, max_size=3).map(tuple),
    st.sampled_from([None, "name", "other"]),
    metadata=st.sampled_from([{}, {"k": 1}, {"l": 2}]),
)
updates = st.one_of(
    st.builds(ArtifactUpdate, st.just(TASK), st.just("c"), artifacts, append=st.booleans()),
    st.builds(
        status,
        st.sampled_from([S.WORKING, S.INPUT_REQUIRED]),
        st.sampled_from([None, "one", "two"]),
        metadata=st.sampled_from([{}, {"k": 1}, {"l": 2}]),
    ),
)
snapshots = st.builds(
    Task,
    st.just(TASK),
    st.just("c"),
    st.builds(TaskStatus, st.sampled_from(S)),
    st.lists(artifacts, max_size=4, unique_by=lambda artifact: artifact.artifact_id).map(tuple),
    st.sampled_from([(), (Message("q", Role.USER, (TextPart("go"),)),)]),
    st.sampled_from([{}, {"m": 3}]),
)


def grown(*events: StreamEvent) -> StreamedTask:
    seen = StreamedTask()
    for event in events:
        seen.add(event)
    return seen


@given(st.lists(updates, max_size=12))
def test_a_growing_task_is_what_the_engine_folds(events: list[StatusUpdate | ArtifactUpdate]) -> None:
    task = fold(None, (TaskCreated(TASK, "c", SUBMITTED), *events))
    assert grown(BEGUN, *events).task() == task


@given(st.lists(updates, max_size=8), snapshots)
def test_the_difference_leads_to_the_snapshot_whatever_was_seen(
    events: list[StatusUpdate | ArtifactUpdate], snapshot: Task
) -> None:
    seen = grown(BEGUN, *events)
    steps = seen.difference(snapshot)
    seen.learn(snapshot)
    for step in steps:
        seen.add(step)
    task = seen.task()
    assert task.status.state is snapshot.status.state
    assert (task.history, task.metadata) == (snapshot.history, snapshot.metadata)
    assert parts_by_artifact(task) == parts_by_artifact(snapshot)
    described = [(artifact.name, artifact.metadata) for artifact in task.artifacts]
    assert described == [(artifact.name, artifact.metadata) for artifact in snapshot.artifacts]
    assert seen.difference(snapshot) == []


@given(st.lists(updates, max_size=10), st.integers(0, 10))
def test_the_difference_to_a_later_task_tells_only_what_is_new(
    events: list[StatusUpdate | ArtifactUpdate], cut: int
) -> None:
    """Text that was appended comes as an appended chunk, and what was seen is not told again."""
    seen = grown(BEGUN, *events[:cut])
    task = fold(None, (TaskCreated(TASK, "c", SUBMITTED), *events))
    steps = seen.difference(task)
    assert len(steps) <= len(task.artifacts) + 1
    for step in steps:
        seen.add(step)
    assert parts_by_artifact(seen.task()) == parts_by_artifact(task)


def test_appended_text_is_told_as_a_chunk_however_the_snapshot_cuts_it() -> None:
    seen = grown(BEGUN, chunk("Hel", append=False), chunk("lo"))
    snapshot = Task(TASK, "c", TaskStatus(S.WORKING), (Artifact("a", (TextPart("Hello world"),)),))
    assert seen.difference(snapshot) == [chunk(" world"), status(S.WORKING)]


def test_what_a_task_that_has_ended_is_told_of_an_artifact_is_its_last_chunk() -> None:
    """Whoever waits for it with a file in hand would wait for ever: it may have been lost in a break."""
    seen = grown(BEGUN, chunk("Hel", append=False))
    artifacts = (Artifact("a", (TextPart("Hello"),)), Artifact("b", (TextPart("Bye"),)))
    steps = seen.difference(Task(TASK, "c", TaskStatus(S.COMPLETED), artifacts))
    assert [(step.append, step.last_chunk) for step in steps if isinstance(step, ArtifactUpdate)] == [
        (True, True),
        (False, True),
    ]


def test_a_question_without_a_word_is_told_from_the_one_before_by_its_time() -> None:
    first, second = (TaskStatus(S.INPUT_REQUIRED, timestamp=datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in (1, 2))
    seen = grown(Task(TASK, "c", first))
    assert seen.difference(Task(TASK, "c", first)) == []
    assert seen.difference(Task(TASK, "c", second)) == [StatusUpdate(TASK, "c", second)]
    assert seen.difference(Task(TASK, "c", TaskStatus(S.INPUT_REQUIRED))) == []


def test_the_time_alone_is_no_news_of_a_task_at_work() -> None:
    """Some agents write the time of reading into every task."""
    first, second = (TaskStatus(S.WORKING, timestamp=datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in (1, 2))
    assert grown(Task(TASK, "c", first)).difference(Task(TASK, "c", second)) == []


def test_an_artifact_that_became_another_is_told_as_a_whole() -> None:
    seen = grown(BEGUN, chunk("Hello", append=False))
    snapshot = Task(TASK, "c", SUBMITTED, (Artifact("a", (TextPart("Bye"),)),))
    assert seen.difference(snapshot) == [chunk("Bye", append=False)]


def test_a_task_that_lost_an_artifact_is_told_as_a_whole() -> None:
    seen = grown(BEGUN, chunk("Hello", append=False))
    assert seen.difference(BEGUN) == [BEGUN]


def test_a_snapshot_with_less_than_was_seen_is_an_old_one_unless_it_is_the_last_word() -> None:
    seen = grown(BEGUN, chunk("one ", append=False), chunk("two"))
    old = Task(TASK, "c", TaskStatus(S.WORKING), (Artifact("a", (TextPart("one "),)),))
    same = Task(TASK, "c", TaskStatus(S.WORKING), (Artifact("a", (TextPart("one two"),)),))
    other = Task(TASK, "c", TaskStatus(S.WORKING), (Artifact("a", (TextPart("three"),)),))
    last = Task(TASK, "c", TaskStatus(S.COMPLETED), (Artifact("a", (TextPart("one "),)),))
    assert [seen.is_ahead_of(task) for task in (BEGUN, old, same, other, last)] == [True, True, False, False, False]


def test_a_chunk_for_an_artifact_that_nobody_began_begins_it() -> None:
    assert grown(chunk("late")).task() == Task(TASK, "c", SUBMITTED, (Artifact("a", (TextPart("late"),)),))


def test_a_chunk_whose_parts_were_seen_may_be_an_old_one() -> None:
    seen = grown(BEGUN, chunk("one two", append=False))
    assert [seen.has(event) for event in (chunk("two"), chunk("three"), chunk("two", "b"))] == [True, False, False]


REPLY = Message("r", Role.AGENT, (TextPart("hi"),))


@pytest.mark.parametrize(
    ("events", "is_over", "has_ended"),
    [
        ([], False, False),
        ([REPLY], True, False),
        ([BEGUN], False, False),
        ([BEGUN, REPLY], False, False),
        ([chunk("x"), REPLY], False, False),
        ([BEGUN, status(S.INPUT_REQUIRED)], True, False),
        ([BEGUN, status(S.COMPLETED)], True, True),
        ([BEGUN, status(S.WORKING, final=True)], True, False),
        ([BEGUN, status(S.WORKING, final=True), status(S.WORKING)], False, False),
    ],
)
def test_a_stream_is_over_after_a_lone_message_or_a_state_in_which_nobody_works(
    events: list[StreamEvent], is_over: bool, has_ended: bool
) -> None:
    seen = grown(*events)
    assert (seen.is_over, seen.has_ended) == (is_over, has_ended)


def test_what_no_event_has_said_is_left_empty() -> None:
    assert grown().task() == Task("", None, SUBMITTED)
    with pytest.raises(KeyError):
        grown().artifact("a")
