"""What a list says of a task beside its head: the beginning of its first message, its status, and its parent.

Reading a task costs far more than reading its head. So what was read is remembered while its status stays the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from parley.engine.reading.large import run_beside_loop
from parley.protocol.events import MessageAdded, StatusUpdate, TaskCreated
from parley.protocol.extensions import DELEGATION
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import DataPart, Message, RawPart, TextPart, UrlPart
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import Store, StoredTask, TaskHead, TaskKey

MAX_TITLE = 200
MAX_STATUS_TEXT = 500
MAX_ID = 200

SUMMARIES_REMEMBERED = 20_000
"""Some 20 MB if all texts are long."""

READ_CHARACTERS = 4_000_000
"""About how much is read of tasks at once."""

HOST_ERROR = "x-arbiter.error"
"""The member of a task's metadata in which a host says why it failed."""


class TaskSummary(Struct, frozen=True, gc=False):
    """What is shown of a task's content."""

    title: str = ""
    status_text: str = ""
    parent: str | None = None
    """The task that delegated it, if its message says so."""


_Version: TypeAlias = tuple[TaskState, datetime, bool]


class Summaries:
    """The summaries of tasks, of which the newest are remembered. All pages share them."""

    def __init__(self, _: object = None) -> None:
        self._known: OrderedDict[TaskKey, tuple[_Version, TaskSummary]] = OrderedDict()

    async def of(self, store: Store, heads: Sequence[TaskHead]) -> list[TaskSummary]:
        """The summaries of tasks. One that was deleted meanwhile is empty."""
        found = {head.key: self._find(head) for head in heads}
        missing = [head for head in heads if found[head.key] is None]
        while missing:
            keys = [head.key for head in missing]
            stored = await store.tasks.read_many(keys, artifacts=False, size=READ_CHARACTERS)
            some = await run_beside_loop(_summarized, stored)
            for head, summary in zip(missing, some, strict=False):
                found[head.key] = summary
                self._remember(head, summary)
            missing = missing[len(some) :] if some else []
        return [found[head.key] or TaskSummary() for head in heads]

    def _find(self, head: TaskHead) -> TaskSummary | None:
        known = self._known.get(head.key)
        return known[1] if known is not None and known[0] == _version(head) else None

    def _remember(self, head: TaskHead, summary: TaskSummary) -> None:
        self._known[head.key] = (_version(head), summary)
        self._known.move_to_end(head.key)
        if len(self._known) > SUMMARIES_REMEMBERED:
            self._known.popitem(last=False)


def _version(head: TaskHead) -> _Version:
    # The first message is in the same write as the task, or in the one after it.
    return head.state, head.status_at, head.last_seq > 1


def _summarized(stored: Sequence[StoredTask | None]) -> list[TaskSummary]:
    return [TaskSummary() if each is None else summary_of(each) for each in stored]


def summary_of(stored: StoredTask) -> TaskSummary:
    """The summary of a task, without folding its events."""
    snapshot = stored.snapshot
    first = snapshot.history[0] if snapshot is not None and snapshot.history else None
    status = snapshot.status if snapshot is not None else None
    metadata = snapshot.metadata if snapshot is not None else {}
    for event in stored.events:
        if isinstance(event, MessageAdded):
            first = first or event.message
        elif isinstance(event, StatusUpdate | TaskCreated):
            status = event.status
            metadata = {**metadata, **event.metadata} if event.metadata else metadata
    return TaskSummary(
        title="" if first is None else shown_text(first, MAX_TITLE),
        status_text="" if status is None else _status_text(status, metadata),
        parent=None if first is None else _parent_of(first),
    )


def shown_text(message: Message, most: int) -> str:
    """The beginning of a message on one line: its text, or else what its parts are."""
    for part in message.parts:
        match part:
            case TextPart(text=text) if text and not text.isspace():
                return one_line(text, most)
            case _:
                pass
    names = [_name_of(part) for part in message.parts[:3] if not isinstance(part, TextPart)]
    return one_line(", ".join(names), most)


def one_line(text: str, most: int) -> str:
    """The beginning of a text, with spaces for line ends."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def _name_of(part: RawPart | UrlPart | DataPart) -> str:
    return part.filename or ("data" if isinstance(part, DataPart) else part.media_type or "a file")


def _status_text(status: TaskStatus, metadata: JsonObject) -> str:
    if status.message is not None:
        return shown_text(status.message, MAX_STATUS_TEXT)
    error = metadata.get(HOST_ERROR)
    return one_line(error, MAX_STATUS_TEXT) if isinstance(error, str) else ""


def _parent_of(message: Message) -> str | None:
    match message.metadata.get(DELEGATION):
        case {"taskId": str(task_id)} if 0 < len(task_id) <= MAX_ID:
            return task_id
        case _:
            return None
