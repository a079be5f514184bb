"""What a check finds: verdicts, the evidence for them, and the report that holds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from parley.protocol.errors import (
    ParleyError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)

DENIALS = (UnauthenticatedError, PermissionDeniedError)
BUSY = (RateLimitedError, UnavailableError)

MAX_SHOWN = 4000
"""Characters of a body that a report keeps: enough to see what is wrong, in a report with up to 300 bodies."""

SHOWN_HEADERS = (
    *("content-type", "cache-control", "etag", "www-authenticate", "retry-after"),
    *("a2a-version", "a2a-extensions", "x-a2a-extensions"),
)
"""The headers of a reply that rules are about. Others are not shown, because they may hold secrets, such as cookies."""


class Verdict(StrEnum):
    """How a case ended. WARNED means a broken SHOULD; UNDECIDED says nothing about the server."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    UNDECIDED = "undecided"


class Undecided(ParleyError):
    """The case cannot be decided at this endpoint; the message says why."""


class Unanswered(Undecided):
    """A plain message was not answered; the error that came instead is the cause."""


class Broken(ParleyError):
    """The rule is broken: a MUST, or a SHOULD if `must` is false.

    `clause` is the broken one, if it is another than the case is about.
    """

    def __init__(self, message: str, *, must: bool = True, clause: str = "") -> None:
        super().__init__(message)
        self.must = must
        self.clause = clause


@dataclass(slots=True)
class RecordedExchange:
    """A request and its reply, as text; `received` is empty until something arrives."""

    sent: str
    received: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def shown(self) -> str:
        """The reply, truncated for a report."""
        if self.received or not self.status:
            return self.received or "(nothing)"
        lines = [f"{name}: {cut(self.headers[name])}" for name in SHOWN_HEADERS if name in self.headers]
        head = "\n".join([f"HTTP {self.status}", *lines])
        return f"{head}\n\n{cut(self.body.decode(errors='replace'))}"


def cut(text: str) -> str:
    """The text, at most MAX_SHOWN characters of it."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one case found out about one rule at one endpoint."""

    rule: str
    case: str
    endpoint: str
    verdict: Verdict
    detail: str
    exchanges: tuple[tuple[str, str], ...] = ()
    """Requests and replies."""
    seconds: float = 0.0
    says: str = ""
    """The sentence of the rule that was tested; empty for the whole rule."""
    hint: str = ""
    """What the caller can do so that an undecided case can be decided, if anything."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a check found."""

    url: str
    agent: str
    endpoints: tuple[str, ...]
    findings: tuple[Finding, ...]
    requests: int
    seconds: float = 0.0
    incomplete: tuple[str, ...] = ()
    """Endpoints whose check ended early, because the server stopped answering or the time was up; all of them, if none
    could be checked."""
    at: str = ""
    """When the check began, in UTC."""
    made_by: str = "Parley"
    """The program that made it, and its version."""
    options: dict[str, str] = field(default_factory=dict[str, str])
    """The options of the check, without secrets."""

    def count(self, verdict: Verdict) -> int:
        """How many cases ended with this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Endpoints where more cases could be decided with the help of the caller than were decided."""
        names = dict.fromkeys(finding.endpoint for finding in self.findings)
        return tuple(name for name in names if self._is_blocked(name))

    def _is_blocked(self, endpoint: str) -> bool:
        found = [finding for finding in self.findings if finding.endpoint == endpoint]
        with_hint = sum(bool(finding.hint) for finding in found)
        return with_hint > sum(finding.verdict is not Verdict.UNDECIDED for finding in found)

    @property
    def hints(self) -> dict[str, int]:
        """What the caller can do, with the number of cases that it would help to decide, most first."""
        return dict(Counter(finding.hint for finding in self.findings if finding.hint).most_common())
