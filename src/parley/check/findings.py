"""What a case may find, and what it was found by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from parley.protocol.errors import ParleyError

MAX_SHOWN = 4000
"""Characters of a body that a report keeps: enough to see what is wrong, in reports that may have 300 of them."""


TELLING = (
    *("content-type", "cache-control", "etag", "www-authenticate", "retry-after"),
    *("a2a-version", "a2a-extensions", "x-a2a-extensions"),
)
"""The headers of a reply that rules are about; others may be anything, cookies among them."""


class Verdict(StrEnum):
    """How a case ended. A warning is a broken SHOULD; undecided says nothing about the server."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    UNDECIDED = "undecided"


class Undecided(ParleyError):
    """The case cannot be decided here; the message says why."""


class Unanswered(Undecided):
    """A plain message gets no answer to look at; what it got instead is the cause."""


class Broken(ParleyError):
    """The rule is broken; `must` tells a duty from a recommendation.

    `clause` is the one that is broken, if it is not the one that the case is about.
    """

    def __init__(self, message: str, *, must: bool = True, clause: str = "") -> None:
        super().__init__(message)
        self.must = must
        self.clause = clause


@dataclass(slots=True)
class Exchange:
    """A request and what came back, as text; `received` is empty while nothing has come."""

    sent: str
    received: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def shown(self) -> str:
        """What came back, cut to a length that a report can hold."""
        return self.received or shown(self.status, self.headers, self.body)


def shown(status: int, headers: dict[str, str], body: bytes) -> str:
    """A reply as a report shows it."""
    if not status:
        return "(nothing)"
    lines = [f"{name}: {cut(headers[name])}" for name in TELLING if name in headers]
    head = "\n".join([f"HTTP {status}", *lines])
    return f"{head}\n\n{cut(body.decode(errors='replace'))}"


def cut(text: str) -> str:
    """A text of bounded length."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one rule by one case at one place."""

    rule: str
    case: str
    place: str
    verdict: Verdict
    detail: str
    exchanges: tuple[tuple[str, str], ...] = ()
    """What was sent and what came back."""
    seconds: float = 0.0
    says: str = ""
    """The sentence of the rule that was tried; empty for the whole rule."""
    cure: str = ""
    """What stood in the way of an undecided case and what the caller can give to clear it, if there is such a thing."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found."""

    url: str
    agent: str
    places: tuple[str, ...]
    findings: tuple[Finding, ...]
    requests: int
    seconds: float = 0.0
    left: tuple[str, ...] = ()
    """Places that were left before the end, because nobody answered any more or the time was over; all, if none of them
    could be visited."""
    at: str = ""
    """When it was, in UTC."""
    made_by: str = "Parley"
    """The program that made it, and its version."""
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """How it was asked for, without secrets."""

    def count(self, verdict: Verdict) -> int:
        """How many cases ended so."""
        return sum(finding.verdict is verdict for finding in self.findings)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Places where more was kept from being decided, by what the caller could clear, than was decided."""
        names = dict.fromkeys(finding.place for finding in self.findings)
        return tuple(name for name in names if self._is_blocked(name))

    def _is_blocked(self, place: str) -> bool:
        found = [finding for finding in self.findings if finding.place == place]
        hindered = sum(bool(finding.cure) for finding in found)
        return hindered > sum(finding.verdict is not Verdict.UNDECIDED for finding in found)

    @property
    def cures(self) -> dict[str, int]:
        """What stood in the way and how to clear it, with the number of cases that it left undecided, most first."""
        return dict(Counter(finding.cure for finding in self.findings if finding.cure).most_common())
