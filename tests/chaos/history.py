"""What clients saw: one line of JSON for each thing, in a file that the checker reads afterwards.

A history holds facts only: what was sent, what the cluster answered, which frames a stream carried. It judges nothing.
Moments are those of the machine's monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct


class Frame(Struct, frozen=True, array_like=True):
    """One event of a stream or a webhook: its number, and what it says.

    `kind` is `task`, `status` or `artifact`. `text` is all text of a task's artifacts, or that of a chunk.
    """

    seq: int
    kind: str
    state: str = ""
    text: str = ""
    append: bool = False


class Sent(Struct, frozen=True, tag="sent"):
    """A client is about to send a message; `plan` is its text if it begins a task."""

    at: float
    client: str
    message: str
    plan: str = ""
    task: str = ""


class Acknowledged(Struct, frozen=True, tag="acknowledged"):
    """The cluster has said which task a message belongs to."""

    at: float
    client: str
    message: str
    task: str


class Refused(Struct, frozen=True, tag="refused"):
    """The cluster has refused a call for a reason that a retry does not change, or that says nothing about retries."""

    at: float
    client: str
    call: str
    task: str
    code: int
    text: str


class Retried(Struct, frozen=True, tag="retried"):
    """A call failed and is made again: the connection broke, nothing came in time, or the cluster asked for it."""

    at: float
    client: str
    call: str
    why: str


class Streamed(Struct, frozen=True, tag="streamed"):
    """One connection of a stream. `after` is the cursor it began with, None for a stream that began with the task.

    `ended` is `complete`, or says how the connection broke.
    """

    at: float
    client: str
    task: str
    after: int | None
    frames: tuple[Frame, ...]
    ended: str


class Answered(Struct, frozen=True, tag="answered"):
    """The task as a client saw it in the end, by a call or by a stream of Parley's own client."""

    at: float
    client: str
    task: str
    state: str
    text: str


class Canceled(Struct, frozen=True, tag="canceled"):
    """The cluster said that a task is canceled."""

    at: float
    client: str
    task: str


class WebhookRegistered(Struct, frozen=True, tag="webhook"):
    """A client registered a webhook. It gets at least all events after the number that the log had reached by then.

    That is 0 for one that came with the message that began the task.
    """

    at: float
    client: str
    task: str
    token: str
    needs_after: int


class Delivered(Struct, frozen=True, tag="delivered"):
    """A webhook was called and accepted the call."""

    at: float
    token: str
    task: str
    frame: Frame


class GaveUp(Struct, frozen=True, tag="gave-up"):
    """A client did not get to the end of a conversation in time."""

    at: float
    client: str
    task: str
    doing: str


Entry: TypeAlias = (
    Sent | Acknowledged | Refused | Retried | Streamed | Answered | Canceled | WebhookRegistered | Delivered | GaveUp
)


def now() -> float:
    """The moment of an entry."""
    return time.monotonic()


class History:
    """The history of the clients of one process, in a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def note(self, entry: Entry) -> None:
        """Add an entry."""
        self._file.write(msgspec.json.encode(entry) + b"\n")

    def close(self) -> None:
        """Write what is left."""
        self._file.close()


def read_history(paths: Iterable[Path]) -> list[Entry]:
    """All entries of some files, by time, without one that its process was killed before it had written whole."""
    decode = msgspec.json.Decoder(Entry).decode
    entries = [decode(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]
    return sorted(entries, key=lambda entry: entry.at)
