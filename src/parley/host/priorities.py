"""How urgent a request is among those of its tenant: a level from 0 to 9, of which three have names.

A level counts as minutes of waiting: requests of a tenant begin in the order of their arrival, where each level lets a
request count as if it had come a minute earlier. So a request of high priority overtakes normal ones that have waited
for less than three minutes, and one of low priority is overtaken for some minutes at most, however many others come.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeAlias, cast

from msgspec import Meta

from parley.engine.runs.run import Run
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import PRIORITY
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import Message

LEVELS: Mapping[str, int] = {"low": 2, "normal": 5, "high": 8}
NORMAL = LEVELS["normal"]
MOST = 9

SECONDS_PER_LEVEL = 60.0
"""How much longer a request waits that has one level less."""

PRIORITY_CHANGED = "priority_changed"
"""The note in the log of a task whose priority was changed while it waited."""

PriorityInput: TypeAlias = Literal["low", "normal", "high"] | Annotated[int, Meta(ge=0, le=MOST)]
"""A priority as callers give it."""


def level_of(value: JsonValue, *, path: str) -> int:
    """The level that a name or a number means.

    Raises:
        InvalidParamsError: it means none.
    """
    if isinstance(value, str) and value in LEVELS:
        return LEVELS[value]
    if type(value) is int and 0 <= value <= MOST:  # not a bool, which is an int as well
        return value
    names = ", ".join(f"'{name}'" for name in LEVELS)
    raise InvalidParamsError(f"Must be {names}, or a number from 0 to {MOST}", path=path)


def name_of(level: int) -> str:
    """The name of a level: that of the nearest one that has a name and is not higher."""
    return "high" if level >= LEVELS["high"] else "normal" if level >= NORMAL else "low"


def priority_of(message: Message, default: int = NORMAL) -> int:
    """The level of a message, or else that of its agent.

    Raises:
        InvalidParamsError: the message has something else as its priority.
    """
    value = message.metadata.get(PRIORITY)
    return default if value is None else level_of(value, path=f"$.message.metadata['{PRIORITY}']")


def priority_metadata(level: int | None) -> JsonObject:
    """The metadata of a message of this level; empty if it leaves it to its agent."""
    return {} if level is None else {PRIORITY: level}


def inherited_priority(message: Message) -> JsonObject:
    """The metadata of what an agent delegates while it works on a message."""
    return {PRIORITY: message.metadata[PRIORITY]} if PRIORITY in message.metadata else {}


def current_priority(run: Run, default: int) -> int:
    """The level of a run's task: as it was changed last, or as its message says."""
    changed = run.journal.noted(PRIORITY_CHANGED)
    return priority_of(run.message, default) if changed is None else cast("int", changed["priority"])


def turn_time(arrival: datetime, level: int) -> float:
    """When a request counts as having come. The least one of a tenant is the next to begin."""
    return arrival.timestamp() - level * SECONDS_PER_LEVEL
