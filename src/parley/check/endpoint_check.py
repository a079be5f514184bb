"""A visit to one place: its cases, one after the other, and what was found; it ends when nobody answers any more."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from parley.check.cases import negotiation
from parley.check.cases.case import Case
from parley.check.endpoints.hints import cure_of
from parley.check.endpoints.probe import Probe
from parley.check.expectations import SAYS_NOTHING, named
from parley.check.findings import Broken, Exchange, Finding, Undecided, Verdict
from parley.check.rules import CLAUSES, RULES
from parley.client.errors import UnreachableError
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import A2AError, ParleyError, PeerProtocolError
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

log = logging.getLogger(__name__)

CONSISTENT = {Version.V1_0: "G1.44", Version.V0_3: "G2.19"}
TRUTHFUL = {Version.V1_0: "G1.53b", Version.V0_3: "G2.2a", Version.V0_2: "G3.4", Version.V0_1: "A1.1a"}

UNANSWERED = 3
"""Questions in a row without an answer after which we ask whether anybody is there."""
THROTTLED = 429
LONGEST_BREAK = 10.0
"""Seconds to wait before a case is tried again, when the server asks for a slower pace."""

Tell = Callable[[str, str], None]
"""Hears of a place and of a case that is about to be tried there."""


def unvisited(version: Version, place: str, reason: str, *, cure: str = "") -> Finding:
    """What is reported of a place where nobody goes."""
    rule, says = CLAUSES[TRUTHFUL[version]]
    name = "The interface answers as the card says"
    return Finding(rule, name, place, Verdict.UNDECIDED, reason, says=says, cure=cure)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended; the clause is given if it is another than the case's."""

    verdict: Verdict
    detail: str
    clause: str = ""
    cure: str = ""


@dataclass
class Visit:
    """What is tried at one place, and what was found there."""

    probe: Probe
    only: Collection[str]
    tell: Tell
    findings: list[Finding] = field(default_factory=list[Finding])
    left_because: str = ""
    """Why nothing more is asked, if so."""
    is_dead: bool = False
    """Whether that is because nobody answers any more."""
    has_broken: bool = False
    """Whether the last try ended because the connection broke."""
    finished: Task | None = None
    """A finished task, for other places to read."""

    @property
    def name(self) -> str:
        """The place's name in reports."""
        return self.probe.place.name

    @property
    def was_left(self) -> bool:
        """Whether the check of what a card declares ended early."""
        return bool(self.left_because) and self.probe.place.is_declared

    async def begin(self) -> None:
        """Say who we are. A version that no card declares is left at once if it is not spoken."""
        await self.probe.identify()
        if not self.probe.place.is_declared and not await negotiation.is_spoken(self.probe):
            self.left_because = f"no card declares {self.probe.version} here, and it is not spoken"
            self.findings.append(unvisited(self.probe.version, self.name, self.left_because))

    async def try_case(self, case: Case) -> None:
        """Try a case, if it is wanted and makes sense here."""
        clause = case.clause_at(self.probe)
        if clause is not None:
            await self._try(clause, case.name, case.trial)

    async def compare(self, other: Visit) -> None:
        """Read a task that another binding of the same version made, if the same caller may see it here."""
        rule = CONSISTENT.get(self.probe.version)
        task = other.finished
        if rule is None or task is None or self._who != other._who:
            return

        async def trial(probe: Probe) -> str:
            read = await probe.call(ops.GET_TASK, r.GetTaskRequest(task.id, tenant=probe.tenant))
            if (read.id, read.context_id, read.status.state) != (task.id, task.context_id, task.status.state):
                raise Broken(f"task {task.id} reads differently here")
            return "The task reads the same here"

        await self._try(rule, f"A task of another binding can be read ({other.probe.binding})", trial)

    @property
    def _who(self) -> tuple[object, ...]:
        """Who sees the same tasks at another place, and for which skill they are."""
        return self.probe.tenant, self.probe.is_stranger, self.probe.place.skill

    async def leave_task(self) -> None:
        """Get a finished task, for other places to read."""
        rule = CONSISTENT.get(self.probe.version)
        if rule is None or self.left_because or (self.only and rule not in self.only):
            return
        try:
            self.finished = await self.probe.samples.finished()
        except ParleyError:
            return  # the cases have said why there is none

    def add_unseen(self) -> None:
        """Report the rules that nobody can see from outside."""
        if self.left_because and not self.was_left:
            return
        for rule in RULES.values():
            if self.probe.version in rule.versions and rule.unseen:
                name, reason = "Not visible from outside", rule.unseen
                self.findings.append(Finding(rule.id, name, self.name, Verdict.UNDECIDED, reason))

    async def end(self) -> None:
        """Cancel what has not ended, and close the connections."""
        self.probe.samples.kept = None
        self.probe.patience.forgive(self.probe.options.timeout)
        if not self.is_dead:
            await self.probe.tidy_up()
        await self.probe.close()

    # --- one case -----------------------------------------------------------------------------------------------------

    async def _try(self, clause: str, name: str, trial: Callable[[Probe], Awaitable[str | None]]) -> None:
        rule, says = CLAUSES[clause]
        if self.only and rule not in self.only:
            return
        if self.left_because:
            if self.was_left:  # else one finding says it all
                self.findings.append(Finding(rule, name, self.name, Verdict.UNDECIDED, self.left_because, says=says))
            return
        self.tell(self.name, name)
        await self.probe.identify()  # before each case: tokens end
        begun = time.monotonic()
        outcome = await self._outcome(trial)
        if outcome.verdict is not Verdict.PASSED and (pause := self._pause_before_another_try()) is not None:
            await asyncio.sleep(pause)
            outcome = await self._outcome(trial)
        seen = tuple((exchange.sent, exchange.shown) for exchange in _distinct(self.probe.recorder.exchanges))
        seconds = round(time.monotonic() - begun, 3)
        if outcome.clause:
            _, says = CLAUSES[outcome.clause]
        found = Finding(rule, name, self.name, outcome.verdict, outcome.detail, seen, seconds, says, outcome.cure)
        self.findings.append(found)
        await self._look_after()

    async def _outcome(self, trial: Callable[[Probe], Awaitable[str | None]]) -> Outcome:
        self.probe.recorder.exchanges.clear()
        self.has_broken = False
        try:
            return Outcome(Verdict.PASSED, await trial(self.probe) or "")
        except ParleyError as error:
            self.has_broken = isinstance(error, UnreachableError)
            outcome = judged(error, self.probe.version)
            is_open = outcome.verdict is Verdict.UNDECIDED
            return replace(outcome, cure=cure_of(error, self.probe)) if is_open else outcome
        except Exception as error:  # a server can send what no case has thought of: the report must not be lost for it
            log.exception("A case of the check failed at %s", self.name)
            return Outcome(Verdict.UNDECIDED, f"this check stumbled: {type(error).__name__}: {error}")

    def _pause_before_another_try(self) -> float | None:
        """Seconds after which a case may go better: the connection broke, or the server asked for a slower pace."""
        if self.has_broken:
            return 0
        throttled = [exchange for exchange in self.probe.recorder.exchanges if exchange.status == THROTTLED]
        if not throttled:
            return None
        seconds = throttled[-1].headers.get("retry-after", "")
        return min(float(seconds), LONGEST_BREAK) if seconds.isascii() and seconds.isdigit() else 1.0

    async def _look_after(self) -> None:
        """Clean up behind a case, and notice if nobody is there any more, or the time is over."""
        patience = self.probe.patience
        has_answered = any(finding.verdict is not Verdict.UNDECIDED for finding in self.findings)
        if patience.is_over:
            self.left_because = f"the {self.probe.options.seconds_per_place:g} seconds for this place are over"
        elif patience.unanswered >= (UNANSWERED if has_answered else 1) and not await self.probe.is_alive():
            self.left_because = "nobody answers here any more" if has_answered else "nobody answers here"
            self.is_dead = True
        else:
            await self.probe.tidy_up()


def judged(error: ParleyError, version: Version) -> Outcome:
    """What the end of a case means."""
    match error:
        case Broken():
            return Outcome(Verdict.FAILED if error.must else Verdict.WARNED, error.message, error.clause)
        case Undecided():
            return Outcome(Verdict.UNDECIDED, error.message)
        case PeerProtocolError():
            return Outcome(Verdict.FAILED, f"what came back is no A2A {version}: {error}")
        case A2AError() if not isinstance(error, SAYS_NOTHING):
            return Outcome(Verdict.FAILED, f"answered with {named(error)}")
        case _:
            return Outcome(Verdict.UNDECIDED, f"{type(error).__name__}: {error}")


def _distinct(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return list({id(exchange): exchange for exchange in exchanges}.values())
