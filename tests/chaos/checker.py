"""The checker: what a cluster promises, as functions over the evidence of a run. Each yields what was broken.

It is pure and knows nothing of how Parley keeps its promises. What it cannot know (whether a call that got no answer
was taken) it does not judge.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from msgspec import Struct

from tests.chaos.evidence import TERMINAL, WAITING, Evidence, LoggedTask
from tests.chaos.history import (
    Acknowledged,
    Answered,
    Canceled,
    Delivered,
    Frame,
    GaveUp,
    Refused,
    Sent,
    Streamed,
    WebhookRegistered,
)
from tests.chaos.plans import read_plan
from tests.chaos.side_file import EffectDone, RunBegan


class Violation(Struct, frozen=True):
    """A promise that was broken: the rule, the task, and what was seen."""

    rule: str
    task: str
    text: str


def check(evidence: Evidence) -> list[Violation]:
    """All that was broken."""
    return [violation for rule in RULES for violation in rule(evidence)]


def numbers_are_gapless(evidence: Evidence) -> Iterator[Violation]:
    """Each task's events are numbered from 1 without gaps, and its row has the last number."""
    for task in evidence.tasks.values():
        numbers = [seq for seq, _ in task.events]
        if numbers != list(range(1, len(numbers) + 1)) or task.last_seq != len(numbers):
            yield Violation("gapless numbers", task.id, f"last_seq {task.last_seq}, numbers {numbers}")


def one_run_writes_at_a_time(evidence: Evidence) -> Iterator[Violation]:
    """Between two changes of hands one run writes, that of the worker which claimed; it never writes again later."""
    for task in evidence.tasks.values():
        former: set[str] = set()
        for tenure in task.tenures:
            runs = {run for run, _ in tenure.writers}
            workers = {worker for _, worker in tenure.writers} | ({tenure.worker} if tenure.worker else set())
            if len(runs) > 1 or len(workers) > 1 or runs & former:
                text = f"since event {tenure.seq} ({tenure.began} by {tenure.worker}) wrote {tenure.writers}"
                yield Violation("one owner at a time", task.id, text)
            former |= runs


def steps_belong_to_the_run_that_writes(evidence: Evidence) -> Iterator[Violation]:
    """A step's result is recorded once, by the run that writes at that moment."""
    for task in evidence.tasks.values():
        recorded: Counter[tuple[str, int]] = Counter()
        for seq, event in task.events:
            if event["type"] != "step" or event.get("kind", "step") != "step":
                continue
            recorded[event["name"], event.get("number", 0)] += 1
            tenure = [tenure for tenure in task.tenures if tenure.seq <= seq][-1]
            if tenure.writers and event["value"]["run"] not in [run for run, _ in tenure.writers]:
                yield Violation("one owner at a time", task.id, f"step {event} at {seq} in {tenure}")
        for step, times in recorded.items():
            if times > 1:
                yield Violation("steps recorded once", task.id, f"{step} was recorded {times} times")


def recorded_steps_are_not_taken_again(evidence: Evidence) -> Iterator[Violation]:
    """A run that began after a step was recorded does not take it again."""
    began = {event.run: number for number, event in enumerate(evidence.side) if isinstance(event, RunBegan)}
    taken: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for number, event in enumerate(evidence.side):
        if isinstance(event, EffectDone):
            taken[event.task, event.step].append((number, event.run))
    for task in evidence.tasks.values():
        for _, event in task.events:
            if event["type"] != "step" or event.get("kind", "step") != "step":
                continue
            run, effects = event["value"]["run"], taken[task.id, event["name"]]
            recorded = [number for number, by in effects if by == run]
            if not recorded:
                yield Violation("steps are taken", task.id, f"{event['name']} was recorded and not taken")
            again = [by for _, by in effects if by != run and recorded and began.get(by, 0) > recorded[0]]
            if again:
                yield Violation("steps taken once", task.id, f"{event['name']} of run {run} was taken again by {again}")


def tasks_end_once(evidence: Evidence) -> Iterator[Violation]:
    """A task ends once, nothing is said after its end, and its row has the state of its log."""
    for task in evidence.tasks.values():
        ends = [frame.seq for frame in task.shown if frame.state in TERMINAL]
        if len(ends) > 1 or (ends and task.last_shown > ends[0]):
            yield Violation("one end", task.id, f"ended at {ends}; the last event shown is {task.last_shown}")
        if task.state != task.state_at(task.last_seq):
            yield Violation("one end", task.id, f"its row says {task.state}, its log {task.state_at(task.last_seq)}")


def tasks_say_what_they_should(evidence: Evidence) -> Iterator[Violation]:
    """A completed task says what one undisturbed run would have said; none fails, because the agent never does."""
    for task in evidence.tasks.values():
        if not task.first_text:
            yield Violation("the right text", task.id, "no message began it")
            continue
        plan, text = read_plan(task.first_text), task.text_at(task.last_seq)
        if task.state in ("failed", "rejected"):
            reason = [event["status"].get("message") for _, event in task.events if "status" in event][-1]
            yield Violation("no task fails", task.id, f"{reason}")
        elif task.state == "completed" and plan.is_endless:
            yield Violation("the right text", task.id, "it was completed, although it works until it is canceled")
        elif task.state == "completed" and text != plan.expected:
            yield Violation("the right text", task.id, f"{text!r} is not {plan.expected!r}")
        elif task.state == "canceled" and not plan.is_endless:
            yield Violation("the right text", task.id, "it was canceled, although no client did that")
        elif not plan.expected.startswith(text):
            yield Violation("the right text", task.id, f"{text!r} does not begin {plan.expected!r}")


def no_task_is_stuck(evidence: Evidence) -> Iterator[Violation]:
    """In the end every task has ended or waits for its caller, and every client got to the end."""
    for task in evidence.tasks.values():
        if task.state not in TERMINAL | WAITING:
            yield Violation("no task is stuck", task.id, f"it is {task.state} since event {task.last_seq}")
    for entry in evidence.entries:
        if isinstance(entry, GaveUp):
            task = evidence.tasks.get(entry.task)
            state = f"the task is {task.state}" if task else "no task is known"
            yield Violation("no client is stuck", entry.task, f"{entry.client} gave up in {entry.doing}; {state}")


def sends_are_there_once(evidence: Evidence) -> Iterator[Violation]:
    """Every message that was acknowledged is in the log of that task, and every message is in the log at most once."""
    found: dict[str, list[str]] = defaultdict(list)
    for task in evidence.tasks.values():
        for _, event in task.events:
            if event["type"] == "message-added":
                found[event["message"]["message_id"]].append(task.id)
    for message, tasks in found.items():
        if len(tasks) > 1:
            yield Violation("a send is there once", tasks[0], f"{message} is in the log {len(tasks)} times: {tasks}")
    for entry in evidence.entries:
        if isinstance(entry, Acknowledged) and entry.task not in found.get(entry.message, ()):
            text = f"{entry.message} was acknowledged to {entry.client} and is in {found.get(entry.message, [])}"
            yield Violation("a send is there", entry.task, text)
    sent = {entry.message for entry in evidence.entries if isinstance(entry, Sent)}
    for message in found.keys() - sent:
        yield Violation("a send is there once", found[message][0], f"{message} was never sent")


def streams_show_the_log(evidence: Evidence) -> Iterator[Violation]:
    """A stream shows what the log holds after its cursor, each event once, without a gap; its end is an end."""
    for entry in evidence.entries:
        if not isinstance(entry, Streamed):
            continue
        task = evidence.tasks.get(entry.task)
        text = "the log has no such task" if task is None else _difference(entry, task)
        if text:
            yield Violation("streams show the log", entry.task, f"{entry.client} after {entry.after}: {text}")


def _difference(stream: Streamed, task: LoggedTask) -> str:
    """How a stream differs from the log; empty if it does not."""
    frames, after = list(stream.frames), stream.after
    if not frames:
        is_right = after is not None and after >= task.last_shown and task.state_at(after) in TERMINAL
        return "" if is_right else "it ended as if complete and showed nothing"
    if after is None:
        first = frames.pop(0)
        after = first.seq
        if first != Frame(after, "task", task.state_at(after), task.text_at(after)):
            return f"it begins with {first}; the log says {task.state_at(after)!r}, {task.text_at(after)!r}"
        if frames == [Frame(after, "status", first.state)] and first.state in TERMINAL | WAITING:
            frames = []  # nothing more comes: the task is followed by its last status, for those who read only that
    last = frames[-1].seq if frames else after
    expected = [frame for frame in task.shown if after < frame.seq <= last]
    if frames != expected:
        return (
            f"it shows {[f for f in frames if f not in expected]} and lacks {[f for f in expected if f not in frames]}"
        )
    state = stream.frames[-1].state
    if stream.ended == "complete" and state not in TERMINAL | WAITING:
        return f"it ended as if complete with {stream.frames[-1]}"
    return ""


def answers_agree_with_the_log(evidence: Evidence) -> Iterator[Violation]:
    """What a client was told in the end is what the log says, and a cancel that was acknowledged happened."""
    for entry in evidence.entries:
        if isinstance(entry, Answered | Canceled):
            task = evidence.tasks.get(entry.task)
            told = ("canceled",) if isinstance(entry, Canceled) else (entry.state, entry.text)
            true = () if task is None else (task.state, task.text_at(task.last_seq))[: len(told)]
            if told != true:
                yield Violation("answers agree", entry.task, f"{entry.client} was told {told}; the log says {true}")


def webhooks_get_everything_in_order(evidence: Evidence) -> Iterator[Violation]:
    """Each webhook got every event at least once; the first deliveries are in order, and say what the log says."""
    delivered: dict[str, list[Frame]] = defaultdict(list)
    tasks = {entry.token: entry.task for entry in evidence.entries if isinstance(entry, WebhookRegistered)}
    for entry in evidence.entries:
        if isinstance(entry, Delivered):
            delivered[entry.token].append(entry.frame)
            if entry.task != tasks.get(entry.token, entry.task):
                yield Violation("webhooks", entry.task, f"an event of it came to {entry.token}, which is not its own")
    for entry in evidence.entries:
        if isinstance(entry, WebhookRegistered) and entry.task in evidence.tasks:
            task, frames = evidence.tasks[entry.task], delivered[entry.token]
            first = list(dict.fromkeys(frames))
            begin = min([entry.needs_after + 1, *[frame.seq for frame in frames]])
            expected = [frame for frame in task.shown if frame.seq >= begin]
            if first != expected:
                text = f"{entry.token} got {[f.seq for f in first]} of {[f.seq for f in expected]}"
                yield Violation("webhooks", entry.task, text)
    for task_id in evidence.undelivered:
        yield Violation("webhooks", task_id, "it is still in the outbox")


def nothing_is_refused(evidence: Evidence) -> Iterator[Violation]:
    """No call of a careful client is refused: what fails says that it can be tried again."""
    for entry in evidence.entries:
        if isinstance(entry, Refused):
            yield Violation("no refusals", entry.task, f"{entry.call} of {entry.client}: {entry.code} {entry.text}")


RULES: tuple[Callable[[Evidence], Iterator[Violation]], ...] = (
    numbers_are_gapless,
    one_run_writes_at_a_time,
    steps_belong_to_the_run_that_writes,
    recorded_steps_are_not_taken_again,
    tasks_end_once,
    tasks_say_what_they_should,
    no_task_is_stuck,
    sends_are_there_once,
    streams_show_the_log,
    answers_agree_with_the_log,
    webhooks_get_everything_in_order,
    nothing_is_refused,
)
