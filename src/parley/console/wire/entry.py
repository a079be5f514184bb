"""One line of the wire, before and after it is written as JSON.

An entry holds what was sent, not its JSON: that is made for the first page that shows it, outside the request. What is
longer than `MOST_BODY` is not held at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec import Struct

from parley.protocol.jsonvalue import JsonValue
from parley.stores.interface import Owner

MOST_BODY = 64 * 1024
"""Bytes of a body that is shown; longer ones are named with their size only."""

MOST_HEADER = 500
"""Characters of one header, and of the line that names the request."""

MOST_HEADERS = 40


@dataclass(frozen=True, slots=True)
class Shown:
    """What a line shows of a request, reply, event or error. Secrets are masked."""

    what: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: JsonValue = None


Show: TypeAlias = Callable[[], Shown]


class WireLine(Struct, frozen=True):
    """A line as pages get it; see `docs/console-api.md`."""

    number: int
    exchange: int
    at: str
    direction: str
    kind: str
    operation: str
    agent: str
    version: str
    binding: str
    caller: str
    what: str
    headers: dict[str, str]
    body: JsonValue
    size: int
    failed: bool
    milliseconds: float | None
    is_cut: bool
    """Whether the body is left out because it is too long."""


@dataclass(slots=True, kw_only=True)
class WireEntry:
    """A line that may be shown. `owner` and `session` say to whom; with neither, to operators only."""

    number: int
    exchange: int
    at: datetime
    direction: str
    kind: str
    operation: str
    agent: str
    """The engine's id of an agent of this server, or the console's id of a remote one."""
    version: str
    binding: str
    caller: str
    owner: Owner | None
    session: str | None
    weight: int
    milliseconds: float | None
    show: Show | None
    """None if the body is too long to be held."""
    what: str = ""
    """What is shown where `show` is None."""
    _line: WireLine | None = None
    _text: str | None = None

    def line(self, agent: str) -> WireLine:
        """The line, whose agent has this id for the page. It is made once."""
        if self._line is None:
            self._line = self._made()
        return self._line if self._line.agent == agent else msgspec.structs.replace(self._line, agent=agent)

    def contains(self, text: str) -> bool:
        """Whether the line has a text, which is in lower case, anywhere in what it shows."""
        if self._text is None:
            line = self.line(self.agent)
            shown = [line.what, line.operation, line.caller, line.headers, line.body]
            self._text = msgspec.json.encode(shown).decode().lower()
        return text in self._text

    def _made(self) -> WireLine:
        shown = Shown(self.what) if self.show is None else self.show()
        self.show = None
        encoded = b"" if shown.body is None else msgspec.json.encode(shown.body)
        is_cut = self.weight > MOST_BODY or len(encoded) > MOST_BODY
        headers = dict(list(shown.headers.items())[:MOST_HEADERS])
        return WireLine(
            number=self.number,
            exchange=self.exchange,
            at=self.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            direction=self.direction,
            kind=self.kind,
            operation=self.operation,
            agent=self.agent,
            version=self.version,
            binding=self.binding,
            caller=self.caller,
            what=shown.what[:MOST_HEADER],
            headers={name[:MOST_HEADER]: value[:MOST_HEADER] for name, value in headers.items()},
            body=None if is_cut else shown.body,
            size=max(len(encoded), self.weight if is_cut else 0),
            failed=self.kind == "error",
            milliseconds=self.milliseconds,
            is_cut=is_cut,
        )
