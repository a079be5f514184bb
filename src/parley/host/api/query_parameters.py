"""The query parameters of the native API: one value of each serves both the handlers and the OpenAPI document.

A limit that is out of range falls back to its default, and a bad `since_seq` to 0, as documented. A bad cursor or date
is an error instead: a reader that pages with it would get the first page again and again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol, TypeVar

from parley.host.errors import BadRequest
from parley.protocol.jsonvalue import JsonObject

T_co = TypeVar("T_co", covariant=True)

_NUMBER = re.compile(r"[0-9]{1,16}", re.ASCII)
"""What every reader of JSON can hold has at most 16 digits."""

_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(9998, 12, 31)
"""Days with a day after them, which can be counted from 1970 on."""


class QueryParameter(Protocol[T_co]):
    """One parameter: how it is called, described and read."""

    @property
    def name(self) -> str:
        """The name in the query."""
        ...

    @property
    def description(self) -> str:
        """What it means, for the OpenAPI document."""
        ...

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of one value."""
        ...

    def read(self, values: Sequence[str]) -> T_co:
        """What the values in a query mean; there may be none. Raises BadRequest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitParameter:
    """How long a page may be, or another number that has a default."""

    default: int
    most: int
    name: str = "limit"
    about: str = "The length of the page."

    @property
    def description(self) -> str:
        """See `QueryParameter`."""
        return f"{self.about} A value that is not from 1 to {self.most} means {self.default}."

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "integer", "minimum": 1, "maximum": self.most, "default": self.default}

    def read(self, values: Sequence[str]) -> int:
        """The limit, or its default."""
        number = _number(values)
        return number if number is not None and 1 <= number <= self.most else self.default


@dataclass(frozen=True, slots=True)
class NumberParameter:
    """A whole number, such as the id after which a page begins."""

    name: str
    description: str
    most: int = 10**16 - 1

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "integer", "minimum": 0, "maximum": self.most}

    def read(self, values: Sequence[str]) -> int | None:
        """The number; None if it is not given. Raises BadRequest if it is none, or too large."""
        if not values:
            return None
        number = _number(values)
        if number is None or number > self.most:
            raise BadRequest(f"{self.name}: must be one whole number from 0 to {self.most}")
        return number


@dataclass(frozen=True, slots=True)
class TextParameter:
    """Some text."""

    name: str
    description: str

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "string"}

    def read(self, values: Sequence[str]) -> str:
        """The text, or several joined with commas; empty if it is not given."""
        return ",".join(values)


@dataclass(frozen=True, slots=True)
class DateParameter:
    """A day in UTC."""

    name: str
    description: str

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "string", "format": "date"}

    def read(self, values: Sequence[str]) -> date | None:
        """The day; None if it is not given. Raises BadRequest if it is none."""
        if not values:
            return None
        try:
            day = date.fromisoformat(values[0])
            if len(values) == 1 and _FIRST_DAY <= day <= _LAST_DAY:
                return day
        except ValueError:
            pass
        raise BadRequest(f"{self.name}: must be one date such as 2026-01-31")


class SinceSeqParameter:
    """The number of the last event that a reader has. None: it was not given."""

    name = "since_seq"
    description = (
        "Events after this number. It wins over the header `Last-Event-ID`. A value that is not a number means 0."
    )

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "integer", "minimum": 0, "default": 0}

    def read(self, values: Sequence[str]) -> int | None:
        """The number; 0 if there is a value that is none."""
        return (_number(values) or 0) if values else None


def read_number(text: str) -> int | None:
    """A text of up to 16 digits as a number; None if it is not one."""
    return int(text) if _NUMBER.fullmatch(text) else None


def _number(values: Sequence[str]) -> int | None:
    return read_number(values[0]) if len(values) == 1 else None
