"""What a caller sees of a task: as much history as it asked for, and pages of lists with opaque tokens."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import structs

from parley.protocol.errors import InvalidParamsError
from parley.protocol.tasks import Task

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_decoder = msgspec.json.Decoder(tuple[int, str])


def cut_history(task: Task, length: int | None) -> Task:
    """The task with the last messages only; None asks for all of them."""
    if length is None or length >= len(task.history):
        return task
    return structs.replace(task, history=task.history[len(task.history) - length :])


def encode_page_token(status_at: datetime, task_id: str) -> str:
    """Where the next page begins."""
    micros = (status_at - EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(msgspec.json.encode((micros, task_id))).decode()


def decode_page_token(token: str) -> tuple[datetime, str]:
    """Where a page begins.

    Raises:
        InvalidParamsError: it is not a token of ours.
    """
    try:
        micros, task_id = _decoder.decode(base64.b64decode(token, altchars=b"-_", validate=True))
        return EPOCH + timedelta(microseconds=micros), task_id
    except (binascii.Error, msgspec.DecodeError, ValueError, OverflowError):
        raise InvalidParamsError("Not a page token of this agent", path="$.pageToken") from None
