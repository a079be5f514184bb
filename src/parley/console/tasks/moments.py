"""Moments as the API of the console writes them."""

from __future__ import annotations

from datetime import datetime
from typing import overload


@overload
def show_moment(moment: datetime) -> str: ...
@overload
def show_moment(moment: datetime | None) -> str | None: ...
def show_moment(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC with microseconds; None stays None."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
