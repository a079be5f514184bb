"""The figures of a run, and for a failing one what it takes to understand it: seed, faults, and the broken promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.checker import Violation
from tests.chaos.evidence import Evidence
from tests.chaos.history import Acknowledged, Delivered, Retried, Sent, Streamed, WebhookRegistered
from tests.chaos.run import Outcome
from tests.chaos.side_file import EffectDone
from tests.chaos.takeovers import describe_takeovers, find_takeovers

SHOWN = 20
"""Violations of one rule that are shown; the rest is counted."""


def report(outcome: Outcome) -> str:
    """The whole report, as text."""
    return "\n".join([*_figures(outcome), *_verdict(outcome)])


def _figures(outcome: Outcome) -> Iterator[str]:
    settings, evidence = outcome.settings, outcome.evidence
    kinds = Counter([fault.kind for fault in outcome.faults if not fault.is_void])
    void = sum(fault.is_void for fault in outcome.faults)
    states = Counter([task.state for task in evidence.tasks.values()])
    entries = Counter([type(entry) for entry in evidence.entries])
    streams = [entry for entry in evidence.entries if isinstance(entry, Streamed)]
    acknowledged = {entry.message for entry in evidence.entries if isinstance(entry, Acknowledged)}
    began = Counter([tenure.began for task in evidence.tasks.values() for tenure in task.tenures])
    clients, lease = settings.clients, settings.lease_seconds
    yield f"seed {settings.seed}, {outcome.seconds:.0f} s, {clients} clients, lease {lease:g} s"
    yield f"faults: {kinds.total()} ({', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))})"
    if void:
        yield f"faults that found nothing to do, and do not count: {void}"
    yield f"tasks: {len(evidence.tasks)} ({', '.join(f'{n} {state}' for state, n in sorted(states.items()))})"
    yield f"events: {sum(task.last_seq for task in evidence.tasks.values())}, steps: {_steps(evidence)}"
    yield f"sends: {entries[Sent]}, acknowledged messages: {len(acknowledged)}, calls repeated: {entries[Retried]}"
    yield (
        f"streams: {len(streams)}, frames: {sum(len(stream.frames) for stream in streams)}, resumed from a cursor: "
        f"{sum(bool(stream.after) for stream in streams)}"
    )
    yield f"webhooks: {entries[WebhookRegistered]}, deliveries: {entries[Delivered]}"
    yield f"runs that began: {', '.join(f'{n} {how}' for how, n in sorted(began.items()))}"
    yield from describe_takeovers(find_takeovers(outcome.faults, evidence), lease)


def _steps(evidence: Evidence) -> str:
    recorded = sum(
        [
            event["type"] == "step" and "run" in str(event["value"])
            for t in evidence.tasks.values()
            for _, event in t.events
        ]
    )
    taken = sum([isinstance(event, EffectDone) for event in evidence.side])
    return f"{recorded} recorded, {taken} taken"


def _verdict(outcome: Outcome) -> Iterator[str]:
    violations = outcome.violations
    if not violations:
        yield "0 lost, 0 doubled, 0 stuck, 0 two-owner appends"
        return
    yield ""
    yield f"FAILED with seed {outcome.settings.seed}: {len(violations)} promises were broken"
    first = outcome.faults[0].begun if outcome.faults else 0.0
    for fault in outcome.faults:
        void = " (does not count)" if fault.is_void else ""
        yield f"  {fault.begun - first:7.2f} to {fault.healed - first:7.2f}  {fault.kind}: {fault.what}{void}"
    by_rule: dict[str, list[Violation]] = {}
    for violation in violations:
        by_rule.setdefault(violation.rule, []).append(violation)
    for rule, broken in by_rule.items():
        yield f"{rule}: {len(broken)}"
        yield from [f"  task {violation.task}: {violation.text[:1_000]}" for violation in broken[:SHOWN]]
