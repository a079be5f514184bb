"""The checker: it accepts the evidence of a right run, and finds what is wrong in forged ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.chaos.agents import RUN_NOTE
from tests.chaos.checker import check
from tests.chaos.conversation import ENDED
from tests.chaos.evidence import Evidence, LoggedTask
from tests.chaos.history import (
    Acknowledged,
    Answered,
    Canceled,
    Delivered,
    Entry,
    Frame,
    GaveUp,
    Refused,
    Sent,
    Streamed,
    WebhookRegistered,
)
from tests.chaos.plans import Plan
from tests.chaos.side_file import EffectDone, RunBegan, SideEvent

PLAN = Plan(id="p", words=2, steps=(1,), ask=1)
ENDLESS = Plan(id="e", words=0, is_endless=True)
TASK, CLIENT = "t-1", "c-1"


def note(run: str, worker: str) -> dict[str, Any]:
    return {"type": "note", "name": RUN_NOTE, "value": {"run": run, "worker": worker}}


def status(state: str) -> dict[str, Any]:
    return {"type": "status", "status": {"state": state}}


def chunk(text: str, *, append: bool = True) -> dict[str, Any]:
    return {"type": "artifact", "append": append, "artifact": {"artifact_id": "response", "parts": [{"text": text}]}}


def step(name: str, run: str) -> dict[str, Any]:
    return {"type": "step", "name": name, "value": {"run": run, "step": name}}


def message(message_id: str, text: str) -> dict[str, Any]:
    return {"type": "message-added", "message": {"message_id": message_id, "parts": [{"text": text}]}}


CREATED = {"type": "created", "status": {"state": "submitted"}}
EVENTS = [
    CREATED,  # 1
    message("m-p", PLAN.text),
    status("working"),  # 3
    note("run-1", "A"),
    chunk("p.0 ", append=False),  # 5
    {"type": "claimed", "worker": "B"},
    note("run-2", "B"),
    status("input-required"),  # 8
    message("a-p", PLAN.answer),
    status("working"),  # 10
    note("run-3", "A"),
    chunk("(answer-p) "),  # 12
    step("step-1", "run-3"),
    chunk("p.1! "),  # 14
    status("completed"),  # 15
]
FRAMES = (
    Frame(3, "status", "working"),
    Frame(5, "artifact", "", "p.0 ", False),
    Frame(8, "status", "input-required"),
    Frame(10, "status", "working"),
    Frame(12, "artifact", "", "(answer-p) ", True),
    Frame(14, "artifact", "", "p.1! ", True),
    Frame(15, "status", "completed"),
)
ENTRIES: list[Entry] = [
    Sent(1.0, CLIENT, "m-p", PLAN.text),
    Acknowledged(2.0, CLIENT, "m-p", TASK),
    WebhookRegistered(2.0, CLIENT, TASK, "w", needs_after=0),
    Streamed(3.0, CLIENT, TASK, None, (Frame(2, "task", "submitted", ""), *FRAMES[:2]), "ReadError"),
    Streamed(4.0, CLIENT, TASK, 5, FRAMES[2:3], "complete"),
    Sent(5.0, CLIENT, "a-p", "", TASK),
    Acknowledged(5.0, CLIENT, "a-p", TASK),
    Streamed(6.0, CLIENT, TASK, None, (Frame(10, "task", "working", "p.0 "), *FRAMES[4:]), "complete"),
    Answered(7.0, CLIENT, TASK, "completed", PLAN.expected),
    Streamed(8.0, CLIENT, TASK, 0, FRAMES, "complete"),
    *[Delivered(8.0 + frame.seq, "w", TASK, frame) for frame in (*FRAMES[:2], FRAMES[0], *FRAMES[1:])],
]
SIDE: list[SideEvent] = [
    RunBegan(1.0, TASK, "run-1", "A", 1),
    RunBegan(2.0, TASK, "run-2", "B", 2),
    RunBegan(3.0, TASK, "run-3", "A", 1),
    EffectDone(3.1, TASK, "step-1", "run-3"),
]


def task_of(events: list[dict[str, Any]], state: str = "completed", task: str = TASK) -> LoggedTask:
    return LoggedTask(task, state, len(events), tuple(enumerate(events, 1)))


def rules_broken(
    events: list[dict[str, Any]] = EVENTS,
    entries: list[Entry] = ENTRIES,
    side: list[SideEvent] = SIDE,
    *,
    state: str = "completed",
    others: tuple[LoggedTask, ...] = (),
    undelivered: tuple[str, ...] = (),
) -> set[str]:
    """The rules that the checker finds broken."""
    tasks = {task.id: task for task in (task_of(events, state), *others)}
    return {violation.rule for violation in check(Evidence(tasks, entries, side, undelivered))}


def changed(number: int, event: dict[str, Any]) -> list[dict[str, Any]]:
    """The events with another one in place of one of them."""
    return [event if seq == number else old for seq, old in enumerate(EVENTS, 1)]


def without(*kinds: type[Entry]) -> list[Entry]:
    return [entry for entry in ENTRIES if not isinstance(entry, kinds)]


LOG_ONLY = without(Streamed, Delivered, WebhookRegistered, Answered)
"""What clients sent, for forged logs that streams would not have shown."""


def test_a_right_run_breaks_nothing() -> None:
    assert rules_broken() == set()


def test_a_missing_number_is_found() -> None:
    log = LoggedTask(TASK, "completed", 15, tuple([(seq, event) for seq, event in enumerate(EVENTS, 1) if seq != 7]))
    assert {v.rule for v in check(Evidence({TASK: log}, LOG_ONLY, SIDE))} == {"gapless numbers"}


def test_a_number_that_two_writers_used_is_found() -> None:
    events = [*enumerate(EVENTS, 1)]
    log = LoggedTask(TASK, "completed", 15, (*events[:7], events[6], *events[7:]))
    assert "gapless numbers" in {v.rule for v in check(Evidence({TASK: log}, LOG_ONLY, SIDE))}


@pytest.mark.parametrize(("last_seq", "last_number"), [(16, 15), (15, 16)])
def test_a_last_number_that_differs_from_the_log_is_found(last_seq: int, last_number: int) -> None:
    log = LoggedTask(TASK, "completed", last_seq, (*enumerate(EVENTS[:-1], 1), (last_number, EVENTS[-1])))
    assert "gapless numbers" in {v.rule for v in check(Evidence({TASK: log}, LOG_ONLY, SIDE))}


def test_an_event_of_the_former_holder_after_a_claim_is_found() -> None:
    assert rules_broken(changed(7, note("run-1", "A")), LOG_ONLY) == {"one owner at a time"}


def test_a_message_to_a_sleeping_task_gives_it_to_the_worker_that_got_it() -> None:
    events = [*EVENTS[:5], {"type": "sleep"}, message("r-p", "wake up"), note("run-9", "C"), *EVENTS[5:]]
    assert rules_broken(events, [*LOG_ONLY, Sent(2.5, CLIENT, "r-p", "", TASK)]) == set()


def test_two_runs_of_one_worker_at_the_same_time_are_found() -> None:
    assert rules_broken([*EVENTS[:4], note("run-9", "A"), *EVENTS[4:]], LOG_ONLY) == {"one owner at a time"}


def test_a_run_that_writes_again_after_another_is_found() -> None:
    assert "one owner at a time" in rules_broken(changed(11, note("run-1", "A")), LOG_ONLY)


def test_a_step_that_another_run_recorded_is_found() -> None:
    assert "one owner at a time" in rules_broken(changed(13, step("step-1", "run-1")), LOG_ONLY)


def test_a_step_that_was_recorded_twice_is_found() -> None:
    events = [*EVENTS[:13], step("step-1", "run-3"), *EVENTS[13:]]
    assert rules_broken(events, LOG_ONLY) == {"steps recorded once"}


def test_a_recorded_step_that_a_later_run_took_again_is_found() -> None:
    side = [*SIDE, RunBegan(4.0, TASK, "run-4", "B", 2), EffectDone(4.1, TASK, "step-1", "run-4")]
    assert rules_broken(side=side) == {"steps taken once"}


def test_a_step_that_an_earlier_run_took_without_recording_it_is_allowed() -> None:
    side = [*SIDE[:2], EffectDone(2.1, TASK, "step-1", "run-2"), *SIDE[2:]]
    assert rules_broken(side=side) == set()


def test_a_step_whose_effect_is_missing_is_found() -> None:
    assert rules_broken(side=SIDE[:3]) == {"steps are taken"}


def test_a_second_end_and_words_after_the_end_are_found() -> None:
    assert rules_broken([*EVENTS, status("completed")], LOG_ONLY) == {"one end"}
    assert "one end" in rules_broken([*EVENTS, chunk("more")], LOG_ONLY)


def test_a_row_that_differs_from_its_log_is_found() -> None:
    assert "one end" in rules_broken(state="canceled", entries=LOG_ONLY)


@pytest.mark.parametrize("text", ["", "p.1! p.1! ", "p.2 "])
def test_a_wrong_final_text_is_found(text: str) -> None:
    assert rules_broken(changed(14, chunk(text)), LOG_ONLY) == {"the right text"}


def test_words_that_an_unfinished_task_should_not_say_are_found() -> None:
    events = [*EVENTS[:4], chunk("p.1 ", append=False), status("input-required")]
    entries = [entry for entry in LOG_ONLY if getattr(entry, "message", "") == "m-p"]
    assert rules_broken(events, entries, SIDE[:1], state="input-required") == {"the right text"}


@pytest.mark.parametrize("state", ["failed", "rejected"])
def test_a_task_that_fails_or_is_rejected_is_found(state: str) -> None:
    assert rules_broken(changed(15, status(state)), LOG_ONLY, state=state) == {"no task fails"}


def test_a_task_that_works_until_it_is_canceled_and_is_completed_is_found() -> None:
    events = [CREATED, message("m-e", ENDLESS.text), status("completed")]
    entries: list[Entry] = [*ENTRIES, Sent(9.0, CLIENT, "m-e", ENDLESS.text)]
    assert rules_broken(entries=entries, others=(task_of(events, "completed", "t-2"),)) == {"the right text"}


def test_a_task_without_the_message_that_began_it_is_found() -> None:
    other = task_of([CREATED, status("canceled")], "canceled", "t-2")
    assert rules_broken(others=(other,)) == {"the right text"}


def test_a_cancel_that_no_client_wanted_is_found() -> None:
    assert rules_broken(changed(15, status("canceled")), LOG_ONLY, state="canceled") == {"the right text"}


@pytest.mark.parametrize("state", ["submitted", "working"])
def test_a_task_that_nobody_works_on_is_found(state: str) -> None:
    assert "no task is stuck" in rules_broken(EVENTS[:10], LOG_ONLY, SIDE[:3], state=state)


def test_a_task_that_waits_for_its_caller_is_not_stuck() -> None:
    entries = [entry for entry in LOG_ONLY if getattr(entry, "message", "") == "m-p"]
    assert rules_broken(EVENTS[:8], entries, SIDE[:2], state="input-required") == set()


def test_a_client_that_gave_up_is_found() -> None:
    assert rules_broken(entries=[*ENTRIES, GaveUp(9.0, CLIENT, TASK, "GetTask")]) == {"no client is stuck"}


def test_an_acknowledged_message_that_is_not_in_the_log_is_found() -> None:
    entries = [*ENTRIES, Sent(9.0, CLIENT, "m-lost", PLAN.text), Acknowledged(9.0, CLIENT, "m-lost", "t-lost")]
    assert rules_broken(entries=entries) == {"a send is there"}


def test_a_message_that_began_two_tasks_is_found() -> None:
    twin = task_of(EVENTS[:1] + EVENTS[1:2] + [status("canceled")], "canceled", "t-2")
    assert "a send is there once" in rules_broken(others=(twin,))


def test_a_message_that_was_taken_twice_is_found() -> None:
    events = [*EVENTS[:10], message("a-p", PLAN.answer), *EVENTS[10:]]
    assert rules_broken(events, LOG_ONLY) == {"a send is there once"}


def test_a_message_that_was_never_sent_is_found() -> None:
    entries = [entry for entry in ENTRIES if getattr(entry, "message", "") != "a-p"]
    assert rules_broken(entries=entries) == {"a send is there once"}


def streamed(after: int | None, *frames: Frame, ended: str = "complete") -> list[Entry]:
    return [*without(Streamed), Streamed(9.0, CLIENT, TASK, after, frames, ended)]


@pytest.mark.parametrize(
    ("after", "frames"),
    [
        (0, FRAMES[1:]),  # a gap at the beginning
        (0, FRAMES[:3] + FRAMES[4:]),  # a gap
        (0, FRAMES[:2] + FRAMES[1:]),  # twice
        (0, (FRAMES[1], FRAMES[0], *FRAMES[2:])),  # out of order
        (5, FRAMES),  # what was seen before
        (None, (Frame(5, "task", "working", ""), *FRAMES[2:])),  # a snapshot that lacks a word
        (None, (Frame(5, "task", "submitted", "p.0 "), *FRAMES[2:])),
        (12, (Frame(14, "artifact", "", "p.2 ", True), FRAMES[6])),  # another content
        (14, (Frame(16, "status", "completed"),)),  # an event that the log does not hold
        (0, FRAMES[:5]),  # an end that is none
    ],
)
def test_a_stream_that_differs_from_the_log_is_found(after: int | None, frames: tuple[Frame, ...]) -> None:
    assert rules_broken(entries=streamed(after, *frames)) == {"streams show the log"}


def test_a_stream_that_broke_may_end_anywhere() -> None:
    assert rules_broken(entries=streamed(0, *FRAMES[:5], ended="ReadError")) == set()


@pytest.mark.parametrize("after", [None, 0, 8, 14])
def test_a_stream_that_ends_as_if_complete_and_shows_nothing_is_found(after: int | None) -> None:
    assert rules_broken(entries=streamed(after)) == {"streams show the log"}


def test_a_stream_that_goes_on_after_the_end_shows_nothing() -> None:
    assert rules_broken(entries=streamed(15)) == set()


def test_a_task_that_has_ended_may_be_followed_by_its_last_status() -> None:
    """As in a stream that repeats a message: its number is that of the task."""
    end = FRAMES[-1]
    whole = Frame(end.seq, "task", end.state, PLAN.expected)
    assert rules_broken(entries=streamed(None, whole, end)) == set()
    assert rules_broken(entries=streamed(None, whole, end, end)) == {"streams show the log"}
    assert rules_broken(entries=streamed(None, whole, msgspec.structs.replace(end, state="failed"))) != set()


def test_a_stream_of_a_task_that_is_not_there_is_found() -> None:
    stream = Streamed(9.0, CLIENT, "t-lost", 0, FRAMES, "complete")
    assert rules_broken(entries=[*ENTRIES, stream]) == {"streams show the log"}


@pytest.mark.parametrize(
    "entry",
    [
        Answered(9.0, CLIENT, TASK, "completed", "p.0 "),
        Answered(9.0, CLIENT, TASK, "canceled", PLAN.expected),
        Canceled(9.0, CLIENT, TASK),
    ],
)
def test_an_answer_that_differs_from_the_log_is_found(entry: Entry) -> None:
    assert rules_broken(entries=[*ENTRIES, entry]) == {"answers agree"}


def test_a_canceled_task_is_canceled() -> None:
    events = [CREATED, message("m-e", ENDLESS.text), status("working"), note("run-5", "A"), status("canceled")]
    entries: list[Entry] = [*ENTRIES, Sent(9.0, CLIENT, "m-e", ENDLESS.text), Canceled(9.5, CLIENT, "t-2")]
    assert rules_broken(entries=entries, others=(task_of(events, "canceled", "t-2"),)) == set()


@pytest.mark.parametrize(
    "frames", [FRAMES[1:], FRAMES[:-1], FRAMES[:3] + FRAMES[4:], (FRAMES[1], FRAMES[0], *FRAMES[2:])]
)
def test_webhooks_that_miss_an_event_or_get_them_out_of_order_are_found(frames: tuple[Frame, ...]) -> None:
    entries = [*without(Delivered), *[Delivered(9.0, "w", TASK, frame) for frame in frames]]
    assert rules_broken(entries=entries) == {"webhooks"}


def test_a_webhook_that_was_registered_later_gets_all_from_then_on() -> None:
    registered = WebhookRegistered(9.0, CLIENT, TASK, "v", needs_after=9)
    late: list[Entry] = [Delivered(9.5, "v", TASK, frame) for frame in FRAMES[3:]]
    assert rules_broken(entries=[*ENTRIES, registered, *late]) == set()
    for lost in (late[:-1], late[1:], []):
        assert rules_broken(entries=[*ENTRIES, registered, *lost]) == {"webhooks"}
    ended = msgspec.structs.replace(registered, needs_after=ENDED)
    assert rules_broken(entries=[*ENTRIES, ended]) == set()


def test_a_webhook_that_gets_events_of_another_task_is_found() -> None:
    stray = msgspec.structs.replace(ENTRIES[-1], task="t-2")
    assert rules_broken(entries=[*ENTRIES[:-1], stray]) == {"webhooks"}


def test_a_task_that_is_left_in_the_outbox_is_found() -> None:
    assert rules_broken(undelivered=(TASK,)) == {"webhooks"}


def test_a_refused_call_is_found() -> None:
    assert rules_broken(entries=[*ENTRIES, Refused(9.0, CLIENT, "GetTask", TASK, -32001, "no such task")]) == {
        "no refusals"
    }


def test_histories_are_read_as_they_were_written() -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(ENTRIES), type=list[Entry])
    assert decoded == ENTRIES
