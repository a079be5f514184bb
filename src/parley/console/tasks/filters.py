"""Which tasks a list shows: the parameters of `GET /tasks` and of the channel `task_list`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from parley.console.api.errors import ConsoleError
from parley.engine.reading.paging import decode_page_token
from parley.protocol.errors import InvalidParamsError
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskHead

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_TEXT = 200

FIRST_YEAR, LAST_YEAR = 1970, 9_000
"""Moments near the ends of what a datetime holds could not be shifted or compared in every time zone."""

Moment = Annotated[datetime, Meta(tz=True)]


class TaskListQuery(Struct, frozen=True):
    """Which tasks, from where on, and how many."""

    agent: Annotated[str, Meta(max_length=1_000)] = ""
    state: list[TaskState] = []
    context: Annotated[str, Meta(max_length=1_000)] = ""
    since: Moment | None = None
    until: Moment | None = None
    text: Annotated[str, Meta(max_length=MAX_TEXT)] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    cursor: Annotated[str, Meta(max_length=2_000)] = ""
    tenant: Annotated[str, Meta(max_length=1_000)] | None = None

    def __post_init__(self) -> None:
        if any(
            moment is not None and not FIRST_YEAR <= moment.year <= LAST_YEAR for moment in (self.since, self.until)
        ):
            raise ValueError(f"Moments must be between the years {FIRST_YEAR} and {LAST_YEAR}")

    @property
    def needle(self) -> str:
        """The text to look for, whatever its case; empty if none is wanted."""
        return self.text.strip().casefold()

    def position(self) -> tuple[datetime, str] | None:
        """Where the page begins: after this moment and id. Raises ConsoleError if the cursor is not one of ours."""
        latest = None
        if self.until is not None:  # "before a moment", and moments are in microseconds
            latest = (self.until - timedelta(microseconds=1), "")
        if not self.cursor:
            return latest
        try:
            position = decode_page_token(self.cursor)
        except InvalidParamsError:
            raise ConsoleError("bad_request", "Not a cursor of this list", path="cursor") from None
        return position if latest is None else min(position, latest, key=lambda each: each[0])

    def matches(self, head: TaskHead) -> bool:
        """Whether the state and the times of a task are wanted."""
        return (
            (not self.state or head.state in self.state)
            and (not self.context or head.context_id == self.context)
            and (self.since is None or head.status_at >= self.since)
            and (self.until is None or head.status_at < self.until)
        )
