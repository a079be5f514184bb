"""A whole check: find the cards, visit every place that they declare, try every case, and say what was found.

Places are visited one after the other, and cases too: a server under check is not to be put under load. A place where
nobody answers any more is left, so every check ends.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from parley.check.card_faults import lacks
from parley.check.cases import (
    envelope,
    listing,
    negotiation,
    reading,
    sending,
    streaming,
    subscribing,
    validation,
    webhooks,
)
from parley.check.cases.card import PUBLISHED, card_cases
from parley.check.cases.case import Case
from parley.check.endpoint_check import Outcome, Tell, Visit, judged, unvisited
from parley.check.endpoints.connections import CheckConnections
from parley.check.endpoints.discovery import FaultyCardError, FoundCard, find_cards
from parley.check.endpoints.endpoint import places_of
from parley.check.endpoints.hints import cure_of_forbidden
from parley.check.endpoints.probe import Probe
from parley.check.findings import Broken, Finding, Report, Undecided, Verdict
from parley.check.options import EXAMPLE_WEBHOOK, Options
from parley.check.report.recording import Recorder
from parley.check.report.redaction import Concealment
from parley.check.rules import CLAUSES
from parley.client.errors import DiscoveryError, ForbiddenTargetError
from parley.protocol.cards import Binding
from parley.protocol.versions import Version

CASES: tuple[Case, ...] = (
    *negotiation.CASES,
    *sending.CASES,
    *reading.CASES,
    *listing.CASES,
    *streaming.CASES,
    *subscribing.CASES,
    *webhooks.CASES,
    *envelope.CASES,
)
SPOILING: tuple[Case, ...] = tuple(validation.CASES)
"""Tried when all else has been tried at all places: what they send, some servers take, and cannot show again."""

UNNAMED = "An agent without a name"
"""What a report calls an agent whose card cannot be read."""


async def check(
    url: str,
    options: Options | None = None,
    *,
    only: Collection[str] = (),
    bindings: Collection[Binding] = (),
    versions: Collection[Version] = (),
    tell: Tell = lambda place, case: None,
) -> Report:
    """Check the server at a URL; `only` names rules, and `tell` hears the place and the case that is tried.

    A version that the caller names is tried even if no card declares it, where JSON-RPC is spoken.

    Raises:
        DiscoveryError: there is no card, or nothing in it that was asked for. One that is there and cannot be read is
            reported as a broken rule.
        UnreachableError: there is no server.
        ForbiddenTargetError: the URL is none of an agent's.
    """
    wanted = _Wanted(only, bindings, versions)
    options = options or Options()
    own_webhook = options.webhook if options.webhook != EXAMPLE_WEBHOOK else None
    concealment = Concealment(url, webhook=own_webhook)
    text = concealment.text
    at, begun = datetime.now(UTC), time.monotonic()
    seen = await _look(url, options, wanted, concealment, tell)
    return Report(
        url=text(url),
        agent=seen.agent,
        places=tuple(map(text, seen.places)),
        findings=tuple(_concealed(finding, concealment) for finding in seen.findings if wanted.rule(finding.rule)),
        requests=seen.requests,
        seconds=round(time.monotonic() - begun, 3),
        left=tuple(map(text, seen.left)),
        at=at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        made_by=options.made_by,
        asked={name: text(value) for name, value in _asked(options, wanted)},
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What of a server is to be checked; empty is everything."""

    only: Collection[str]
    bindings: Collection[Binding]
    versions: Collection[Version]

    def rule(self, id: str) -> bool:
        """Whether this rule is."""
        return not self.only or id in self.only


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found out, secrets and all."""

    agent: str
    findings: Sequence[Finding]
    requests: int
    places: Sequence[str] = ()
    left: Sequence[str] = ()


def _asked(options: Options, wanted: _Wanted) -> Iterator[tuple[str, str]]:
    """How the check was asked for, without credentials."""
    yield "message", options.text
    yield "timeout", f"{options.timeout:g} s"
    yield "webhook", options.webhook
    chosen = {"only": wanted.only, "binding": wanted.bindings, "dialect": wanted.versions, "skill": options.skills}
    for name, values in chosen.items():
        if values:
            yield name, ", ".join(values)
    if options.guard.allow_private:
        yield "allow-private", "yes"
    if options.shows_certificate:
        yield "certificate", "shown"


async def _look(url: str, options: Options, wanted: _Wanted, concealment: Concealment, tell: Tell) -> _Seen:
    """Find the cards and visit what they declare."""
    async with AsyncExitStack() as stack:
        connections = CheckConnections(url, options)
        stack.push_async_callback(connections.close)
        recorder = Recorder(max_requests=options.max_requests)
        try:
            cards = await find_cards(url, recorder, connections, options)
        except FaultyCardError as error:
            finding = _about_faulty(error)
            if not wanted.rule(finding.rule):
                raise
            return _Seen(UNNAMED, (finding,), recorder.requests)
        findings = [finding for found in cards for finding in _about_card(found)]
        places, unspoken = places_of(cards, wanted.bindings, wanted.versions, options.skills)
        if not places and (wanted.bindings or wanted.versions):
            raise DiscoveryError(f"No card at {concealment.text(url)} declares what was asked for")
        findings += [unvisited(version, name, reason) for name, (version, reason) in unspoken.items()]
        visits: list[Visit] = []
        for place in places:
            try:
                probe = Probe(place, options=options, connections=connections, concealment=concealment)
            except ForbiddenTargetError as error:
                cure = cure_of_forbidden(error, place, url)
                findings.append(unvisited(place.version, place.name, error.message, cure=cure))
                continue
            visits.append(Visit(probe, wanted.only, tell))
            stack.push_async_callback(visits[-1].end)
        await _visit(visits)
        findings += [finding for visit in visits for finding in visit.findings]
        requests = recorder.requests + sum(visit.probe.recorder.requests for visit in visits)
        names = [place.name for place in places]
        left = [visit.name for visit in visits if visit.was_left] if visits else [*unspoken, *names]
    return _Seen(cards[0].card.name, findings, requests, names, left)


def _concealed(finding: Finding, concealment: Concealment) -> Finding:
    text = concealment.text
    exchanges = tuple((text(sent), text(received)) for sent, received in finding.exchanges)
    return replace(
        finding, place=text(finding.place), detail=text(finding.detail), cure=text(finding.cure), exchanges=exchanges
    )


def _about_faulty(error: FaultyCardError) -> Finding:
    """What is said of a card that cannot be read."""
    rule, says = CLAUSES[PUBLISHED[error.version]]
    missing = lacks(error.members, error.version)
    detail = f"the card cannot be read: {error.message}" + (f"; it lacks {', '.join(missing)}" if missing else "")
    exchanges = ((error.exchange.sent, error.exchange.shown),)
    return Finding(rule, "The card is complete", error.url, Verdict.FAILED, detail, exchanges, says=says)


def _about_card(found: FoundCard) -> list[Finding]:
    findings: list[Finding] = []
    exchanges = ((found.exchange.sent, found.exchange.shown),)
    for clause, name, trial in card_cases(found.version):
        try:
            outcome = Outcome(Verdict.PASSED, trial(found))
        except (Broken, Undecided) as error:
            outcome = judged(error, found.version)
        rule, _ = CLAUSES[clause]
        _, says = CLAUSES[outcome.clause or clause]
        findings.append(Finding(rule, name, found.url, outcome.verdict, outcome.detail, exchanges, says=says))
    return findings


# --- visits -----------------------------------------------------------------------------------------------------------


async def _visit(visits: Sequence[Visit]) -> None:
    """Try everything everywhere, and what may spoil a server's lists in the end."""
    for visit in visits:
        await visit.begin()
        for case in CASES:
            await visit.try_case(case)
        earlier = [other for other in visits if other.probe.version is visit.probe.version and other is not visit]
        for other in earlier:
            await visit.compare(other)
        await visit.leave_task()
    for visit in visits:
        for case in SPOILING:
            await visit.try_case(case)
        visit.add_unseen()
