"""A task as it was after one of its events, in the JSON of A2A 1.0.

Long logs are read in pages and folded beside the event loop. What is too large for a page of a browser is replaced: a
file by a link from which it can be downloaded, a text by its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode

from msgspec import Raw, structs

from parley.console.api.errors import ConsoleError
from parley.console.tasks.access import TaskAccess
from parley.dialects.registry import DIALECTS
from parley.engine.reading.large import run_beside_loop
from parley.protocol.lifecycle import fold
from parley.protocol.messages import DataPart, Message, Part, RawPart, TextPart, UrlPart
from parley.protocol.operations import GET_TASK
from parley.protocol.tasks import Artifact, Task
from parley.protocol.versions import Version
from parley.stores.interface import TaskHead

PAGE_EVENTS = 2_000
PAGE_CHARACTERS = 4_000_000

MAX_RAW = 64 * 1024
"""Bytes of a file that is shown in place."""
MAX_PART_TEXT = 1_000_000
"""Characters of a text that is shown whole."""

OMITTED = "urn:parley:console:omitted"
"""The member of a part's metadata that says how many bytes or characters are not shown."""

FindPart = Callable[[str, int], str]
"""The URL of a part of an artifact."""


async def task_at(access: TaskAccess, head: TaskHead, seq: int | None) -> Task:
    """A task as it was after an event, or as it is. Raises ConsoleError if it has no such event."""
    if seq is None or seq == head.last_seq:
        return await access.engine.views.task(head.key, head.agent)
    if not 1 <= seq <= head.last_seq:
        raise ConsoleError("not_found", f"The task has {head.last_seq} events; there is none with number {seq}")
    task, after = None, 0
    while after < seq:
        limit = min(PAGE_EVENTS, seq - after)
        page = await access.store.tasks.events(head.key, after=after, limit=limit, size=PAGE_CHARACTERS)
        if not page:
            raise ConsoleError("not_found", "The task was deleted")
        task = await run_beside_loop(fold, task, [event for _, event in page])
        after = page[-1][0]
        del page
    assert task is not None
    return task


async def encode_snapshot(access: TaskAccess, head: TaskHead, task: Task, at: int | None) -> Raw:
    """A task in the JSON of A2A 1.0, without large files and texts."""
    query = {"agent": access.agent_id(head), "tenant": head.key.owner.tenant, **({} if at is None else {"at": str(at)})}
    base = f"/console/api/tasks/{quote(head.key.task_id, safe='')}/files"

    def url(artifact_id: str, part: int) -> str:
        return f"{base}/{quote(artifact_id, safe='')}/{part}?{urlencode(query)}"

    return Raw(await run_beside_loop(_encoded, task, url))


def _encoded(task: Task, url: FindPart) -> bytes:
    return DIALECTS[Version.V1_0].encode_result(GET_TASK, without_large_parts(task, url))


def without_large_parts(task: Task, url: FindPart) -> Task:
    """The task with links for large files of artifacts, and with the beginnings of long texts."""
    status = task.status
    if status.message is not None:
        status = structs.replace(status, message=_message(status.message))
    artifacts = tuple([_artifact(artifact, url) for artifact in task.artifacts])
    return structs.replace(task, status=status, artifacts=artifacts, history=tuple(map(_message, task.history)))


def _artifact(artifact: Artifact, url: FindPart) -> Artifact:
    parts = [
        _link(part, url(artifact.artifact_id, number)) if _is_large(part) else part
        for number, part in enumerate(artifact.parts)
    ]
    return structs.replace(artifact, parts=tuple(parts))


def _message(message: Message) -> Message:
    """Files of messages have no URL: a large one is empty."""
    return structs.replace(
        message, parts=tuple([_link(part, None) if _is_large(part) else part for part in message.parts])
    )


def _is_large(part: Part) -> bool:
    match part:
        case RawPart(raw=raw):
            return len(raw) > MAX_RAW
        case TextPart(text=text):
            return len(text) > MAX_PART_TEXT
        case UrlPart() | DataPart():
            return False


def _link(part: Part, url: str | None) -> Part:
    match part:
        case RawPart(raw=raw) if url is not None:
            metadata = {**part.metadata, OMITTED: len(raw)}
            return UrlPart(url, part.media_type, part.filename, metadata)
        case RawPart(raw=raw):
            return structs.replace(part, raw=b"", metadata={**part.metadata, OMITTED: len(raw)})
        case TextPart(text=text):
            left = len(text) - MAX_PART_TEXT
            return structs.replace(part, text=text[:MAX_PART_TEXT], metadata={**part.metadata, OMITTED: left})
        case _:
            return part
