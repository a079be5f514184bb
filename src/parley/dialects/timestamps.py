"""Timestamps of wire structs, which are always UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(timestamp: datetime | None) -> datetime | None:
    """The same instant in UTC; one without a zone, which only 0.x allows, counts as UTC.

    Raises:
        ValueError: the instant is before year 1 or after year 9999 in UTC.
    """
    if timestamp is None or timestamp.tzinfo is UTC:
        return timestamp
    if timestamp.tzinfo is None:
        return timestamp.replace(tzinfo=UTC)
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise ValueError("Timestamp out of range") from None
