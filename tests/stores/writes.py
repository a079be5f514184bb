"""Writes, keys and moments that tests of stores share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from parley.protocol.events import (
    ArtifactRewound,
    ArtifactUpdate,
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
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, UrlPart
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import ContextKey, NewTask, Owner, SendKey, SendRecord, Write
from parley.stores.interface import TaskKey as Key

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_001, tzinfo=UTC)
ADA = Owner("acme", "ada")
BOB = Owner("acme", "bob")
ADA_ELSEWHERE = Owner("umbrella", "ada")
STRANGERS = (BOB, ADA_ELSEWHERE)
KEY = Key(ADA, "t-1")
NEW = NewTask("cook", "c-1", Version.V0_3, NOON)
SEND = SendKey("m-1", b"\x00digest")
CONTEXT = ContextKey(ADA, "cook", "c-1")


def minute(number: int) -> datetime:
    """A moment some minutes after noon."""
    return NOON + timedelta(minutes=number)


def created(task_id: str) -> TaskCreated:
    """The first event of a task."""
    return TaskCreated(task_id, "c-1", TaskStatus(TaskState.SUBMITTED, None, NOON), {"desk": "north"})


def chunk(number: int, task_id: str = KEY.task_id) -> ArtifactUpdate:
    """A piece of an artifact, told from others by its number."""
    return ArtifactUpdate(task_id, "c-1", Artifact("a-1", (TextPart(f"chunk {number}"),)), append=True)


def creation(
    key: Key = KEY,
    *,
    new: NewTask = NEW,
    state: TaskState = TaskState.SUBMITTED,
    at: datetime = NOON,
    sends: tuple[tuple[SendKey, SendRecord], ...] = (),
) -> Write:
    """The write that creates a task."""
    return Write(key, 0, (created(key.task_id),), state, at, new, sends=sends)


def addition(number: int, key: Key = KEY) -> Write:
    """The write of the event after `number`, in a task that works."""
    return Write(key, number, (chunk(number + 1, key.task_id),), TaskState.WORKING, NOON)


EVERYTHING: tuple[TaskEvent, ...] = (
    created(KEY.task_id),
    MessageAdded(
        KEY.task_id,
        "c-1",
        Message(
            "m-1",
            Role.USER,
            (
                TextPart("Pläne – 🥚\x00", "text/plain", "a.txt", {"n": 2**60}),
                RawPart(bytes(range(256)), "image/png"),
                UrlPart("https://files.example/menu.pdf"),
                DataPart({"ratio": 0.5, "none": None, "list": [1, "two", True]}),
            ),
            "c-1",
            KEY.task_id,
            {"trace": {"id": 7}},
            ("https://extensions.example/v1",),
            ("t-0",),
        ),
    ),
    StatusUpdate(KEY.task_id, "c-1", TaskStatus(TaskState.WORKING, None, minute(1)), {"step": 1}),
    ArtifactUpdate(KEY.task_id, None, Artifact("a-1", (TextPart("x"),), "menu", index=3), last_chunk=True),
    StepRecorded(KEY.task_id, "c-1", "rate", {"USD": 1.5}, 2, "delegate"),
    StepProgressed(KEY.task_id, "c-1", "rate", {"page": [1]}, 3, "stream"),
    ArtifactRewound(KEY.task_id, "c-1", "a-1", 2),
    QuestionAsked(KEY.task_id, "c-1", "size"),
    SleepStarted(KEY.task_id, "c-1", minute(3)),
    TaskClaimed(KEY.task_id, "c-1", "w-1"),
    NoteAdded(KEY.task_id, "c-1", "token_usage", {"input_tokens": 3}),
)
"""One event of each kind, with everything an event can hold."""
