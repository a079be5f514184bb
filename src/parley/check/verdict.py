"""What a case may find, and what it was found by."""

from __future__ import annotations

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


class Broken(ParleyError):
    """The rule is broken; `must` tells a duty from a recommendation."""

    def __init__(self, message: str, *, must: bool = True) -> None:
        super().__init__(message)
        self.must = must


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

    def count(self, verdict: Verdict) -> int:
        """How many cases ended so."""
        return sum(finding.verdict is verdict for finding in self.findings)
