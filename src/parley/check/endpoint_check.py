"""Checks one endpoint: runs the cases one after the other, until the server stops answering or the time is up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from parley.check.cases import negotiation
from parley.check.cases.case import Case
from parley.check.cases.expectations import INCONCLUSIVE, describe
from parley.check.endpoints.hints import hint_for
from parley.check.endpoints.probe import Probe
from parley.check.findings import Broken, Finding, RecordedExchange, Undecided, Verdict
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
"""Requests in a row without an answer, after which the check finds out whether the server still answers."""
THROTTLED = 429
MAX_RETRY_PAUSE = 10.0
"""Seconds to wait before a case is run again, when the server asks for a pause."""

OnProgress = Callable[[str, str], None]
"""Called with an endpoint and a case before the case runs."""


def not_checked(version: Version, endpoint: str, reason: str, *, hint: str = "") -> Finding:
    """The finding about an endpoint that is not checked."""
    finding = undecided(TRUTHFUL[version], "The interface answers as the card says", endpoint, reason)
    return replace(finding, hint=hint)


def undecided(clause: str, case: str, endpoint: str, reason: str = "") -> Finding:
    """The finding about a case that has not run."""
    rule, says = CLAUSES[clause]
    return Finding(rule, case, endpoint, Verdict.UNDECIDED, reason, says=says)


@dataclass
class EndpointCheck:
    """The check of one endpoint, and what it found."""

    probe: Probe
    only: Collection[str]
    on_progress: OnProgress
    findings: list[Finding] = field(default_factory=list[Finding])
    stop_reason: str = ""
    """Why no further case runs, or empty."""
    is_unresponsive: bool = False
    """Whether the server has stopped answering."""
    connection_broke: bool = False
    """Whether the last case ended because the connection broke."""
    finished: Task | None = None
    """A finished task, to be read at other endpoints."""

    @property
    def name(self) -> str:
        """The name of the endpoint in reports."""
        return self.probe.endpoint.name

    @property
    def is_incomplete(self) -> bool:
        """Whether the check of a declared endpoint ended early."""
        return bool(self.stop_reason) and self.probe.endpoint.is_declared

    async def begin(self) -> None:
        """Authenticate. The check ends at once if the version is neither declared nor spoken."""
        await self.probe.authenticate()
        if not self.probe.endpoint.is_declared and not await negotiation.is_spoken(self.probe):
            self.stop_reason = f"no card declares {self.probe.version} here, and it is not spoken"
            self.findings.append(not_checked(self.probe.version, self.name, self.stop_reason))

    async def run_case(self, case: Case) -> None:
        """Run a case, if it is selected and applies to this endpoint."""
        clause = case.clause_at(self.probe)
        if clause is not None:
            await self._run(clause, case.name, case.trial)

    async def compare(self, other: EndpointCheck) -> None:
        """Read a task that was created over another binding, if the same caller may see it here."""
        rule = CONSISTENT.get(self.probe.version)
        task = other.finished
        if rule is None or task is None or self._visible_to != other._visible_to:
            return

        async def trial(probe: Probe) -> str:
            read = await probe.call(ops.GET_TASK, r.GetTaskRequest(task.id))
            if (read.id, read.context_id, read.status.state) != (task.id, task.context_id, task.status.state):
                raise Broken(f"task {task.id} reads differently here")
            return "The task reads the same here"

        await self._run(rule, f"A task of another binding can be read ({other.probe.binding})", trial)

    @property
    def _visible_to(self) -> tuple[object, ...]:
        """What must be equal at two endpoints for both to see the same tasks."""
        return self.probe.tenant, self.probe.is_anonymous, self.probe.endpoint.skill

    async def keep_finished_task(self) -> None:
        """Keep a finished task, to be read at other endpoints."""
        rule = CONSISTENT.get(self.probe.version)
        if rule is None or self.stop_reason or (self.only and rule not in self.only):
            return
        try:
            self.finished = await self.probe.samples.finished()
        except ParleyError:
            return  # the findings of the cases say why there is none

    def add_unobservable(self) -> None:
        """Report the rules that no caller can observe."""
        if self.stop_reason and not self.is_incomplete:
            return
        for rule in RULES.values():
            if self.probe.version in rule.versions and rule.unobservable:
                name, reason = "Not visible from outside", rule.unobservable
                self.findings.append(Finding(rule.id, name, self.name, Verdict.UNDECIDED, reason))

    async def end(self) -> None:
        """Cancel the tasks that have not ended, and close the connections."""
        self.probe.samples.kept = None
        self.probe.budget.extend(self.probe.options.timeout)
        if not self.is_unresponsive:
            await self.probe.cancel_started()
        await self.probe.close()

    # --- one case -----------------------------------------------------------------------------------------------------

    async def _run(self, clause: str, name: str, trial: Callable[[Probe], Awaitable[str | None]]) -> None:
        finding = undecided(clause, name, self.name, self.stop_reason)
        if self.only and finding.rule not in self.only:
            return
        if self.stop_reason:
            if self.is_incomplete:  # otherwise `begin` has reported it
                self.findings.append(finding)
            return
        self.on_progress(self.name, name)
        await self.probe.authenticate()  # before each case: tokens expire
        begun = time.monotonic()
        result = await self._result(finding, trial)
        if result.verdict is not Verdict.PASSED and (pause := self._retry_pause()) is not None:
            await asyncio.sleep(pause)
            result = await self._result(finding, trial)
        seen = tuple((exchange.sent, exchange.shown) for exchange in _distinct(self.probe.recorder.exchanges))
        self.findings.append(replace(result, exchanges=seen, seconds=round(time.monotonic() - begun, 3)))
        await self._clean_up()

    async def _result(self, finding: Finding, trial: Callable[[Probe], Awaitable[str | None]]) -> Finding:
        self.probe.recorder.exchanges.clear()
        self.connection_broke = False
        try:
            return replace(finding, verdict=Verdict.PASSED, detail=await trial(self.probe) or "")
        except ParleyError as error:
            self.connection_broke = isinstance(error, UnreachableError)
            result = judged(finding, error, self.probe.version)
            is_open = result.verdict is Verdict.UNDECIDED
            return replace(result, hint=hint_for(error, self.probe)) if is_open else result
        except Exception as error:  # a reply that no case expects must not cost the report
            log.exception("A case of the check failed at %s", self.name)
            return replace(finding, detail=f"the check itself failed: {type(error).__name__}: {error}")

    def _retry_pause(self) -> float | None:
        """Seconds after which to run a case again: the connection broke, or the server asked for a pause."""
        if self.connection_broke:
            return 0
        throttled = [exchange for exchange in self.probe.recorder.exchanges if exchange.status == THROTTLED]
        if not throttled:
            return None
        seconds = throttled[-1].headers.get("retry-after", "")
        return min(float(seconds), MAX_RETRY_PAUSE) if seconds.isascii() and seconds.isdigit() else 1.0

    async def _clean_up(self) -> None:
        """Clean up after a case, and end the check if the server has stopped answering or the time is up."""
        budget = self.probe.budget
        has_answered = any(finding.verdict is not Verdict.UNDECIDED for finding in self.findings)
        if budget.is_over:
            self.stop_reason = f"the {self.probe.options.seconds_per_endpoint:g} seconds for this endpoint are over"
        elif budget.unanswered >= (UNANSWERED if has_answered else 1) and not await self.probe.is_alive():
            self.stop_reason = "the server has stopped answering" if has_answered else "the server does not answer"
            self.is_unresponsive = True
        else:
            await self.probe.cancel_started()


def judged(finding: Finding, error: ParleyError, version: Version) -> Finding:
    """An undecided finding, with what an error in its case means for the rule."""
    match error:
        case Broken():
            verdict = Verdict.FAILED if error.must else Verdict.WARNED
            says = CLAUSES[error.clause][1] if error.clause else finding.says
            return replace(finding, verdict=verdict, detail=error.message, says=says)
        case Undecided():
            return replace(finding, detail=error.message)
        case PeerProtocolError():
            return replace(finding, verdict=Verdict.FAILED, detail=f"the answer is not valid A2A {version}: {error}")
        case A2AError() if not isinstance(error, INCONCLUSIVE):
            return replace(finding, verdict=Verdict.FAILED, detail=f"answered with {describe(error)}")
        case _:
            return replace(finding, detail=f"{type(error).__name__}: {error}")


def _distinct(exchanges: Sequence[RecordedExchange]) -> list[RecordedExchange]:
    return list({id(exchange): exchange for exchange in exchanges}.values())
