"""A whole check: finds the cards, runs every case at every endpoint that they declare, and reports what was found.

Endpoints and cases run one after the other, so that a check does not put a server under load. A check of an endpoint
ends when the server stops answering, so every check ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from parley.check.card_faults import missing_members
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
from parley.check.endpoint_check import EndpointCheck, OnProgress, judged, not_checked, undecided
from parley.check.endpoints.connections import connections_for
from parley.check.endpoints.discovery import FaultyCardError, FoundCard, find_cards
from parley.check.endpoints.endpoint import endpoints_of
from parley.check.endpoints.hints import hint_for_forbidden
from parley.check.endpoints.probe import Probe
from parley.check.findings import Broken, Finding, Report, Undecided, Verdict
from parley.check.options import EXAMPLE_WEBHOOK, CheckOptions
from parley.check.report.recording import Recorder
from parley.check.report.redaction import Redaction
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
DISRUPTIVE: tuple[Case, ...] = tuple(validation.CASES)
"""Run last, at all endpoints: some servers accept these invalid messages, and then fail to list them."""

UNNAMED = "An agent without a name"
"""What a report calls an agent whose card is not valid."""


async def check(
    url: str,
    options: CheckOptions | None = None,
    *,
    only: Collection[str] = (),
    bindings: Collection[Binding] = (),
    versions: Collection[Version] = (),
    on_progress: OnProgress = lambda endpoint, case: None,
) -> Report:
    """Check the server at a URL; `only` lists rules, and `on_progress` gets the endpoint and the case before it runs.

    A version in `versions` is tried over JSON-RPC even if no card declares it.

    Raises:
        DiscoveryError: there is no card, or it declares nothing that was asked for. A card that is not valid is
            reported as a broken rule.
        UnreachableError: there is no server.
        ForbiddenTargetError: the URL cannot be one of an agent.
    """
    selection = _Selection(only, bindings, versions)
    options = options or CheckOptions()
    own_webhook = options.webhook if options.webhook != EXAMPLE_WEBHOOK else None
    redaction = Redaction(url, webhook=own_webhook)
    text = redaction.text
    at, begun = datetime.now(UTC), time.monotonic()
    report = await _check(url, options, selection, redaction, on_progress)
    return replace(
        report,
        url=text(url),
        endpoints=tuple(map(text, report.endpoints)),
        findings=tuple(_redacted(finding, text) for finding in report.findings if selection.has_rule(finding.rule)),
        seconds=round(time.monotonic() - begun, 3),
        incomplete=tuple(map(text, report.incomplete)),
        at=at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        made_by=options.made_by,
        options={name: text(value) for name, value in _described(options, selection)},
    )


@dataclass(frozen=True, slots=True)
class _Selection:
    """What of a server is checked; empty means everything."""

    only: Collection[str]
    bindings: Collection[Binding]
    versions: Collection[Version]

    def has_rule(self, id: str) -> bool:
        """Whether this rule is checked."""
        return not self.only or id in self.only


def _described(options: CheckOptions, selection: _Selection) -> Iterator[tuple[str, str]]:
    """The options of the check, without credentials."""
    yield "message", options.text
    yield "timeout", f"{options.timeout:g} s"
    yield "webhook", options.webhook
    chosen = {
        "only": selection.only,
        "binding": selection.bindings,
        "dialect": selection.versions,
        "skill": options.skills,
    }
    for name, values in chosen.items():
        if values:
            yield name, ", ".join(values)
    if options.guard.allow_private:
        yield "allow-private", "yes"
    if options.shows_certificate:
        yield "certificate", "shown"


async def _check(
    url: str, options: CheckOptions, selection: _Selection, redaction: Redaction, on_progress: OnProgress
) -> Report:
    """Find the cards and check the endpoints that they declare; the report is not redacted yet."""
    async with AsyncExitStack() as stack:
        connections = connections_for(url, options)
        stack.push_async_callback(connections.close)
        recorder = Recorder(max_requests=options.max_requests)
        try:
            cards = await find_cards(url, recorder, connections, options)
        except FaultyCardError as error:
            finding = _faulty_card_finding(error)
            if not selection.has_rule(finding.rule):
                raise
            return Report(url, UNNAMED, (), (finding,), recorder.requests)
        findings = [finding for found in cards for finding in _card_findings(found)]
        endpoints, unsupported = endpoints_of(cards, selection.bindings, selection.versions, options.skills)
        if not endpoints and (selection.bindings or selection.versions):
            raise DiscoveryError(f"No card at {redaction.text(url)} declares what was asked for")
        findings += [not_checked(version, name, reason) for name, (version, reason) in unsupported.items()]
        checks: list[EndpointCheck] = []
        for endpoint in endpoints:
            try:
                probe = Probe(endpoint, url=url, options=options, connections=connections, redaction=redaction)
            except ForbiddenTargetError as error:
                hint = hint_for_forbidden(error, endpoint, url)
                findings.append(not_checked(endpoint.version, endpoint.name, error.message, hint=hint))
                continue
            checks.append(EndpointCheck(probe, selection.only, on_progress))
            stack.push_async_callback(checks[-1].end)
        await _run_cases(checks)
        findings += [finding for one in checks for finding in one.findings]
        requests = recorder.requests + sum(one.probe.recorder.requests for one in checks)
        names = [endpoint.name for endpoint in endpoints]
        incomplete = [one.name for one in checks if one.is_incomplete] if checks else [*unsupported, *names]
    return Report(url, cards[0].card.name, tuple(names), tuple(findings), requests, incomplete=tuple(incomplete))


async def _run_cases(checks: Sequence[EndpointCheck]) -> None:
    """Run every case at every endpoint, the disruptive ones last."""
    for one in checks:
        await one.begin()
        for case in CASES:
            await one.run_case(case)
        for other in checks:
            if other.probe.version is one.probe.version and other is not one:
                await one.compare(other)
        await one.keep_finished_task()
    for one in checks:
        for case in DISRUPTIVE:
            await one.run_case(case)
        one.add_unobservable()


# --- findings ---------------------------------------------------------------------------------------------------------


def _redacted(finding: Finding, text: Callable[[str], str]) -> Finding:
    exchanges = tuple((text(sent), text(received)) for sent, received in finding.exchanges)
    texts = {name: text(getattr(finding, name)) for name in ("endpoint", "detail", "hint")}
    return replace(finding, exchanges=exchanges, **texts)


def _faulty_card_finding(error: FaultyCardError) -> Finding:
    """What is reported about a card that is not valid."""
    missing = missing_members(error.members, error.version)
    detail = f"the card cannot be read: {error.message}" + (f"; it lacks {', '.join(missing)}" if missing else "")
    finding = undecided(PUBLISHED[error.version], "The card is complete", error.url, detail)
    return replace(finding, verdict=Verdict.FAILED, exchanges=((error.exchange.sent, error.exchange.shown),))


def _card_findings(found: FoundCard) -> list[Finding]:
    findings: list[Finding] = []
    exchanges = ((found.exchange.sent, found.exchange.shown),)
    for clause, name, trial in card_cases(found.version):
        finding = replace(undecided(clause, name, found.url), exchanges=exchanges)
        try:
            findings.append(replace(finding, verdict=Verdict.PASSED, detail=trial(found)))
        except (Broken, Undecided) as error:
            findings.append(judged(finding, error, found.version))
    return findings
