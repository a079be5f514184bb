"""Looks for text in tasks: in their ids, messages, status and artifacts, whatever its case.

Tasks are folded, so that text is found wherever an agent has cut it into chunks. Of one that is too large for that, the
events are read page by page. All searches share one thread, in turns: nothing else waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from parley.engine.reading.views import fold_stored
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate
from parley.protocol.messages import Part, TextPart, text_of
from parley.protocol.tasks import Task
from parley.stores.interface import Store, StoredTask, TaskHead

P = ParamSpec("P")
T = TypeVar("T")

LARGE_TASK = 4_000_000
"""Characters from which on a task is not read as a whole."""

READ_CHARACTERS = 8_000_000
PAGE_EVENTS = 1_000
PAGE_CHARACTERS = 1_000_000


async def tasks_with_text(store: Store, heads: Sequence[TaskHead], needle: str) -> list[TaskHead]:
    """Those of some tasks that contain a text, which is casefolded."""
    found = {head.key for head in heads if _is_in_ids(head, needle)}
    small = [head for head in heads if head.key not in found and head.size <= LARGE_TASK]
    while small:
        stored = await store.tasks.read_many([head.key for head in small], size=READ_CHARACTERS)
        hits = await _in_turn(_contain, stored, needle)
        found.update([head.key for head, is_hit in zip(small, hits, strict=False) if is_hit])
        small = small[len(hits) :] if hits else []
    for head in heads:
        if head.key not in found and head.size > LARGE_TASK and await _is_in_events(store, head, needle):
            found.add(head.key)
    return [head for head in heads if head.key in found]


async def _in_turn(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_thread(), lambda: function(*args, **kwargs))


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="parley-search")


def _is_in_ids(head: TaskHead, needle: str) -> bool:
    return needle in head.key.task_id.casefold() or needle in head.context_id.casefold()


def _contain(stored: Sequence[StoredTask | None], needle: str) -> list[bool]:
    return [
        each is not None and any(needle in text.casefold() for text in _texts(fold_stored(each))) for each in stored
    ]


def _texts(task: Task) -> Iterator[str]:
    messages = [*task.history, *([task.status.message] if task.status.message is not None else [])]
    for message in messages:
        yield from _texts_of(message.parts)
    for artifact in task.artifacts:
        yield artifact.name or ""
        yield from _texts_of(artifact.parts)


def _texts_of(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if part.filename:
            yield part.filename
        if isinstance(part, TextPart):
            yield part.text


async def _is_in_events(store: Store, head: TaskHead, needle: str) -> bool:
    after, tails = 0, dict[str, str]()
    while page := await store.tasks.events(head.key, after=after, limit=PAGE_EVENTS, size=PAGE_CHARACTERS):
        after = page[-1][0]
        if await _in_turn(_is_in_page, [event for _, event in page], needle, tails):
            return True
        del page
    return False


def _is_in_page(events: Sequence[object], needle: str, tails: dict[str, str]) -> bool:
    """Whether events contain a text; `tails` holds the ends of artifacts, which the next chunks go on from."""
    for event in events:
        match event:
            case ArtifactUpdate(artifact=artifact):
                before = tails.get(artifact.artifact_id, "") if event.append else ""
                text = before + text_of(artifact.parts).casefold()
                tails[artifact.artifact_id] = text[-len(needle) :]
            case MessageAdded(message=message) | StatusUpdate(status=message):
                parts = getattr(message, "parts", None) or getattr(getattr(message, "message", None), "parts", ())
                text = text_of(parts).casefold()
            case _:
                continue
        if needle in text:
            return True
    return False
