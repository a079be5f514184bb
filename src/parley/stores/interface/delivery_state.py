"""What went wrong with the deliveries to a webhook: the failure that is retried, and what was given up (dead letters).

A webhook that accepts its events has neither. Both are part of its row in the store, so they survive a restart, and the
worker that takes a task's outbox over continues with the count and the pause.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, structs

MAX_DEAD_LETTERS = 50
"""Of one webhook. Beyond that the two oldest become one, so that the row stays small."""

MAX_ERROR_TEXT = 500


class DeliveryFailure(Struct, frozen=True, omit_defaults=True):
    """An event that a webhook has not accepted yet. The next accepted event ends it."""

    seq: int
    attempts: int
    """How often the event was sent."""
    text: str
    """Why the last attempt failed."""
    first_at: datetime
    """When the first attempt failed."""
    at: datetime
    """When the last attempt failed."""
    next_at: datetime | None = None
    """When it is sent again; for a paused webhook, when it is resumed without a request, if ever."""
    paused_since: datetime | None = None
    """Since when the webhook is paused: it is not called, and its undelivered events wait."""


class DeadLetter(Struct, frozen=True, omit_defaults=True):
    """Events that were given up, from a number to a number, both included."""

    first_seq: int
    last_seq: int
    reason: str
    at: datetime
    attempts: int = 1


def add_dead_letter(letters: tuple[DeadLetter, ...], letter: DeadLetter) -> tuple[DeadLetter, ...]:
    """The dead letters with one more. Adjacent ones with the same reason become one."""
    if letters and letters[-1].reason == letter.reason and letters[-1].last_seq + 1 == letter.first_seq:
        return (*letters[:-1], structs.replace(letter, first_seq=letters[-1].first_seq))
    joined = (*letters, letter)
    if len(joined) > MAX_DEAD_LETTERS:
        first, second, *rest = joined
        joined = (structs.replace(second, first_seq=min(first.first_seq, second.first_seq)), *rest)
    return joined


def dead_letters_up_to(letters: tuple[DeadLetter, ...], seq: int) -> tuple[DeadLetter, ...]:
    """The dead letters without the events after a number."""
    return tuple(
        structs.replace(letter, last_seq=min(letter.last_seq, seq)) for letter in letters if letter.first_seq <= seq
    )
