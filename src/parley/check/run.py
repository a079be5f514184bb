"""A whole check: find the cards, visit every place that they declare, try every case, and say what was found.

Places are visited one after the other, and cases too: a server under check is not to be put under load. A place where
nobody answers any more is left, so every check ends.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from parley.check import (
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
from parley.check.card import card_cases
from parley.check.cases import Case
from parley.check.concealing import Concealment
from parley.check.discovery import FoundCard, find_cards
from parley.check.options import Options
from parley.check.places import Place, places_of
from parley.check.probe import Probe
from parley.check.reach import Reach
from parley.check.recording import Recorder
from parley.check.verdict import Broken, Finding, Report, Undecided, Verdict
from parley.check.visit import Tell, Visit, judged, unvisited
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
        DiscoveryError: there is no card, or nothing in it that was asked for.
        UnreachableError: there is no server.
        ForbiddenTargetError: the URL is none of an agent's.
    """
    options = options or Options()
    begun = time.monotonic()
    concealment = Concealment(url)
    async with AsyncExitStack() as stack:
        reach = Reach(url, options)
        stack.push_async_callback(reach.close)
        recorder = Recorder(max_requests=options.max_requests)
        cards = await find_cards(url, recorder, reach, options)
        findings = [finding for found in cards for finding in _about_card(found)]
        places, unspoken = places_of(cards, bindings, versions)
        if not places and (bindings or versions):
            raise DiscoveryError(f"No card at {concealment.text(url)} declares what was asked for")
        findings += [unvisited(version, name, reason) for name, (version, reason) in unspoken.items()]
        visits: list[Visit] = []
        for place in places:
            visit = _begun(place, options, reach, concealment, only=only, tell=tell)
            if isinstance(visit, Finding):
                findings.append(visit)
            else:
                stack.push_async_callback(visit.end)
                visits.append(visit)
        await _visit(visits)
        findings += [finding for visit in visits for finding in visit.findings]
        requests = recorder.requests + sum(visit.probe.recorder.requests for visit in visits)
        left = [visit.name for visit in visits if visit.was_left]
        if not visits:
            left = [*unspoken, *(place.name for place in places)]
    return Report(
        url=concealment.text(url),
        agent=cards[0].card.name,
        places=tuple(concealment.text(place.name) for place in places),
        findings=tuple(_concealed(finding, concealment) for finding in findings if not only or finding.rule in only),
        requests=requests,
        seconds=round(time.monotonic() - begun, 3),
        left=tuple(map(concealment.text, left)),
    )


def _begun(
    place: Place, options: Options, reach: Reach, concealment: Concealment, *, only: Collection[str], tell: Tell
) -> Visit | Finding:
    """A visit to a place, or why nobody goes there from here."""
    try:
        return Visit(Probe(place, options=options, reach=reach, concealment=concealment), only, tell)
    except ForbiddenTargetError as error:
        return unvisited(place.version, place.name, error.message)


def _concealed(finding: Finding, concealment: Concealment) -> Finding:
    text = concealment.text
    exchanges = tuple((text(sent), text(received)) for sent, received in finding.exchanges)
    return replace(finding, place=text(finding.place), detail=text(finding.detail), exchanges=exchanges)


def _about_card(found: FoundCard) -> list[Finding]:
    findings: list[Finding] = []
    exchanges = ((found.exchange.sent, found.exchange.shown),)
    for rule, name, trial in card_cases(found.version):
        try:
            verdict, detail = Verdict.PASSED, trial(found)
        except (Broken, Undecided) as error:
            verdict, detail = judged(error, found.version)
        findings.append(Finding(rule, name, found.url, verdict, detail, exchanges))
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
