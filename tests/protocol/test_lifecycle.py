"""A task's life as the table and the fold have it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.errors import IllegalTransitionError, LocalProtocolError, TaskFinishedError
from parley.protocol.events import (
    ArtifactRewound,
    ArtifactUpdate,
    InternalEvent,
    MessageAdded,
    NoteAdded,
    QuestionAsked,
    SleepStarted,
    StatusUpdate,
    StepProgressed,
    StepRecorded,
    TaskClaimed,
    TaskCreated,
    TaskEvent,
)
from parley.protocol.lifecycle import (
    INTERRUPTED,
    TERMINAL,
    TRANSITIONS,
    admit_message,
    apply,
    ends_stream,
    fold,
    is_interrupted,
    is_terminal,
)
from parley.protocol.messages import DataPart, Message, Part, Role, TextPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

S = TaskState


def created() -> TaskCreated:
    return TaskCreated("t1", "c1", TaskStatus(S.SUBMITTED), metadata={"kept": True})


def status(state: TaskState, text: str | None = None) -> StatusUpdate:
    message = Message(f"m-{text}", Role.AGENT, (TextPart(text),)) if text else None
    return StatusUpdate("t1", "c1", TaskStatus(state, message))


def chunk(text: str, *, artifact_id: str = "a1", append: bool = True, name: str | None = None) -> ArtifactUpdate:
    return ArtifactUpdate("t1", "c1", Artifact(artifact_id, (TextPart(text),), name=name), append=append)


def test_every_state_has_a_row_and_is_active_interrupted_or_terminal() -> None:
    assert set(TRANSITIONS) == set(TaskState)
    assert not TERMINAL & INTERRUPTED
    assert {state for state in S if not ends_stream(state)} == {S.SUBMITTED, S.WORKING, S.UNKNOWN}
    assert all(is_terminal(state) != is_interrupted(state) for state in TERMINAL | INTERRUPTED)


@pytest.mark.parametrize("before", S)
@pytest.mark.parametrize("after", S)
def test_a_task_goes_where_the_table_lets_it(before: TaskState, after: TaskState) -> None:
    task = Task("t1", "c1", TaskStatus(before))

    if after in TRANSITIONS[before]:
        assert apply(task, status(after)) == Task("t1", "c1", TaskStatus(after))
        return
    with pytest.raises(IllegalTransitionError) as caught:
        apply(task, status(after))
    assert (caught.value.task_id, caught.value.before, caught.value.after) == ("t1", before, after)


def test_nothing_follows_a_terminal_state_but_a_reopening() -> None:
    for state in TERMINAL:
        assert TRANSITIONS[state] == {S.SUBMITTED}


def test_a_whole_life_adds_up_to_the_task() -> None:
    question = Message("q", Role.USER, (TextPart("100 USD?"),))
    answer = Message("a", Role.USER, (TextPart("EUR"),))
    events: list[TaskEvent] = [
        created(),
        MessageAdded("t1", "c1", question),
        status(S.WORKING),
        status(S.INPUT_REQUIRED, "To which currency?"),
        MessageAdded("t1", "c1", answer),
        status(S.WORKING),
        chunk("92", append=False, name="amount"),
        chunk(" EUR"),
        status(S.COMPLETED, "Done."),
    ]

    asked = Message("m-To which currency?", Role.AGENT, (TextPart("To which currency?"),))
    done = Message("m-Done.", Role.AGENT, (TextPart("Done."),))
    assert fold(None, events) == Task(
        "t1",
        "c1",
        TaskStatus(S.COMPLETED, done),
        artifacts=(Artifact("a1", (TextPart("92 EUR"),), name="amount"),),
        history=(question, asked, answer),
        metadata={"kept": True},
    )


def test_an_artifact_update_without_append_replaces_the_artifact_in_its_place() -> None:
    task = fold(None, [created(), chunk("x"), chunk("other", artifact_id="a2"), chunk("y", append=False)])
    assert [(a.artifact_id, a.parts) for a in task.artifacts] == [
        ("a1", (TextPart("y"),)),
        ("a2", (TextPart("other"),)),
    ]


def test_a_later_chunk_may_say_more_about_its_artifact() -> None:
    first = Artifact("a1", (TextPart("x"),), name="draft", metadata={"a": 1, "b": 1}, extensions=("e1",), index=3)
    later = Artifact("a1", (TextPart("y"),), description="a poem", metadata={"b": 2}, extensions=("e2",))

    task = fold(None, [created(), ArtifactUpdate("t1", "c1", first), ArtifactUpdate("t1", "c1", later, append=True)])

    metadata = {"a": 1, "b": 2}
    assert task.artifacts == (Artifact("a1", (TextPart("xy"),), "draft", "a poem", metadata, ("e1", "e2"), 3),)


def test_internal_events_change_nothing_in_the_task() -> None:
    events = [
        StepRecorded("t1", "c1", "rate", 0.92),
        StepProgressed("t1", "c1", "flight", {"task": "t2"}),
        ArtifactRewound("t1", "c1", "response", 2),
        QuestionAsked("t1", "c1", "flight"),
        SleepStarted("t1", "c1", datetime(2026, 1, 2, tzinfo=UTC)),
        TaskClaimed("t1", "c1", "worker-2"),
        NoteAdded("t1", "c1", "token_usage", {"input_tokens": 3}),
    ]
    assert {type(event) for event in events} == set(get_args(InternalEvent))
    assert fold(None, [created(), *events]) == fold(None, [created()])


def test_a_status_update_adds_its_metadata_to_the_task() -> None:
    task = apply(apply(None, created()), StatusUpdate("t1", "c1", TaskStatus(S.WORKING), metadata={"new": 1}))
    assert task.metadata == {"kept": True, "new": 1}


parts = st.one_of(
    st.builds(TextPart, st.sampled_from(["", "a", "b"])),
    st.builds(TextPart, st.just("a"), st.sampled_from([None, "text/markdown"]), metadata=st.just({"bold": True})),
    st.builds(DataPart, st.integers(0, 1)),
)


def piece(parts: Sequence[Part], *, append: bool = True) -> ArtifactUpdate:
    return ArtifactUpdate("t1", "c1", Artifact("a1", tuple(parts)), append=append)


@given(
    chunks=st.lists(st.tuples(st.lists(parts, max_size=3), st.integers(0, 4).map(bool)), max_size=12),
    cut=st.integers(0, 12),
)
def test_folding_in_two_parts_is_folding_at_once(chunks: list[tuple[list[Part], bool]], cut: int) -> None:
    """So a reader that begins with a snapshot and one that has seen every event hold the same task."""
    events: list[TaskEvent] = [created(), *(piece(said, append=append) for said, append in chunks)]
    before = fold(None, events[: cut + 1])
    assert fold(before, events[cut + 1 :]) == fold(None, events)


@given(said=st.lists(parts, min_size=2, max_size=8), cuts=st.sets(st.integers(1, 7), min_size=1))
def test_where_a_stream_was_cut_into_chunks_makes_no_difference(said: list[Part], cuts: set[int]) -> None:
    filled = [TextPart("first"), *said, TextPart("last")]
    borders = sorted({0, *(1 + cut % (len(filled) - 1) for cut in cuts), len(filled)})
    chunks = [piece(filled[start:end]) for start, end in pairwise(borders)]
    one_by_one = [piece([part]) for part in filled]
    assert fold(None, [created(), *chunks]) == fold(None, [created(), *one_by_one])


def test_plain_texts_that_follow_each_other_are_one_part_of_an_artifact_that_grew() -> None:
    bold = TextPart("!", metadata={"bold": True})
    first = piece([TextPart("a"), TextPart("b")], append=False)
    end = piece([TextPart("")])
    assert fold(None, [created(), first, end]).artifacts[0].parts == (TextPart("a"), TextPart("b"))
    grown = [created(), first, chunk("c"), piece([bold, bold, TextPart("d")]), chunk("e"), piece([DataPart(1)]), end]
    assert fold(None, grown).artifacts[0].parts == (TextPart("abc"), bold, bold, TextPart("de"), DataPart(1))


@pytest.mark.parametrize(
    "events",
    [
        [],
        [status(S.WORKING)],
        [created(), created()],
        [created(), StatusUpdate("t2", "c1", TaskStatus(S.WORKING))],
        [created(), status(S.FAILED), chunk("late")],
        [created(), status(S.FAILED), MessageAdded("t1", "c1", Message("m", Role.USER, (TextPart("late"),)))],
    ],
    ids=["nothing", "no beginning", "two beginnings", "another task", "artifact after end", "message after end"],
)
def test_a_log_that_makes_no_sense_is_refused(events: list[TaskEvent]) -> None:
    with pytest.raises(LocalProtocolError):
        fold(None, events)


def test_a_finished_task_takes_messages_only_from_callers_that_may_reopen_it() -> None:
    finished = Task("t1", "c1", TaskStatus(S.COMPLETED))
    admit_message("t1", S.INPUT_REQUIRED)
    admit_message("t1", S.COMPLETED, may_reopen=True)

    with pytest.raises(TaskFinishedError) as caught:
        admit_message("t1", S.COMPLETED)

    assert caught.value.details == {"taskId": "t1", "state": "completed"}
    assert apply(finished, status(S.SUBMITTED)).status.state is S.SUBMITTED
