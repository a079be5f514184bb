"""A whole check: find the cards, visit every place that they declare, try every case, and say what was found.

Places are visited one after the other, and cases too: a server under check is not to be put under load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import msgspec

from parley.check import envelope, negotiation, reading, sending, streaming, webhooks
from parley.check.card import FoundCard, card_cases
from parley.check.cases import Case
from parley.check.probe import Options, Probe
from parley.check.reach import Reach
from parley.check.recording import Recorder
from parley.check.rules import RULES
from parley.check.verdict import Broken, Exchange, Finding, Report, Undecided, Verdict
from parley.client.errors import ClientError, DiscoveryError, ForbiddenTargetError, UnreachableError
from parley.client.transport import Sent
from parley.dialects.cards import decode_any_card
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import A2AError, ParleyError, PeerProtocolError
from parley.protocol.negotiation import version_of
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
CASES: tuple[Case, ...] = (
    *negotiation.CASES,
    *sending.CASES,
    *reading.CASES,
    *streaming.CASES,
    *webhooks.CASES,
    *envelope.CASES,  # last: what they send, some servers take, and cannot show again
)
CONSISTENT = {Version.V1_0: "G1.44", Version.V0_3: "G2.19"}


async def check(
    url: str,
    options: Options | None = None,
    *,
    only: Collection[str] = (),
    bindings: Collection[Binding] = (),
    versions: Collection[Version] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Check the server at a URL; `only` names rules, and `tell` hears which place is visited.

    A version that the caller names is tried even if no card declares it, where JSON-RPC is spoken.

    Raises:
        DiscoveryError: there is no card.
        UnreachableError: there is no server.
    """
    options = options or Options()
    reach = Reach(url, options.timeout)
    try:
        return await _check(url, options, reach, only=only, bindings=bindings, versions=versions, tell=tell)
    finally:
        await reach.close()


async def _check(
    url: str,
    options: Options,
    reach: Reach,
    *,
    only: Collection[str],
    bindings: Collection[Binding],
    versions: Collection[Version],
    tell: Callable[[str], None],
) -> Report:
    begun = time.monotonic()
    recorder = Recorder(max_requests=options.max_requests, secret=options.headers)
    cards = await _cards(url, recorder, reach, options.timeout)
    findings = [finding for found in cards for finding in _about_card(found)]
    requests = recorder.requests
    samples: dict[str, tuple[Version, Task]] = {}
    places: list[str] = []
    for card, interface, version in _places(cards, bindings, versions):
        tell(f"{version} {interface.binding} at {interface.url}")
        try:
            probe = _reached(card, interface, version, options=options, reach=reach)
        except Undecided as error:
            place = f"{version} {interface.binding} {interface.url}"
            places.append(place)
            rule = "G1.53" if version is Version.V1_0 else "G2.2"
            name = "The interface answers as the card says"
            findings.append(Finding(rule, name, place, Verdict.UNDECIDED, error.message))
            continue
        places.append(probe.place)
        try:
            findings += await _visit(probe, only)
            findings += await _compare(probe, samples, only)
        finally:
            await probe.close()
        requests += probe.recorder.requests
    kept = tuple(finding for finding in findings if not only or finding.rule in only)
    return Report(url, cards[0].card.name, tuple(places), kept, requests, round(time.monotonic() - begun, 3))


# --- cards and places -------------------------------------------------------------------------------------------------


async def _cards(url: str, recorder: Recorder, reach: Reach, timeout: float) -> list[FoundCard]:
    """The cards at a URL: itself if it names one, and what lies at the well-known paths below it and at its root."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise DiscoveryError(f"{url} is no http or https URL")
    root = f"{parts.scheme}://{parts.netloc}"
    if parts.path.endswith(".json"):
        candidates = [url]
    else:
        below = [f"{url.rstrip('/')}{path}" for path in WELL_KNOWN]
        candidates = list(dict.fromkeys([*below, *(f"{root}{path}" for path in WELL_KNOWN)]))
    found: list[FoundCard] = []
    reason = "no card there"
    channel = reach.channel(recorder)
    try:
        for candidate in candidates:
            if len(found) == len(WELL_KNOWN):
                break
            headers = {"accept": "application/json", "accept-encoding": "identity"}
            try:
                reply = await channel.exchange("GET", candidate, b"", Sent(headers, timeout=timeout))
                if reply.status != 200:
                    reason = f"HTTP {reply.status} at {candidate}"
                    continue
                card, version = decode_any_card(reply.body)
            except (PeerProtocolError, ForbiddenTargetError) as error:
                reason = f"{candidate}: {error}"
                continue
            members: dict[str, Any] = msgspec.json.decode(reply.body)
            found.append(FoundCard(card, version, candidate, recorder.exchanges[-1], members))
    finally:
        await channel.close()
    if not found:
        raise DiscoveryError(f"There is no agent card at {url}: {reason}")
    return found


def _places(
    cards: Sequence[FoundCard], bindings: Collection[Binding], versions: Collection[Version]
) -> list[tuple[AgentCard, AgentInterface, Version]]:
    """Every interface in the versions that it declares, each once, and those that the caller insists on."""
    places: dict[tuple[str, str, Version], tuple[AgentCard, AgentInterface, Version]] = {}
    for found in cards:
        for face in found.card.interfaces:
            version = version_of(face)
            if version is None or face.binding not in list(Binding):
                continue
            if face.binding != Binding.JSONRPC and version not in CONSISTENT:
                continue  # only 0.3 and 1.0 have other bindings
            places.setdefault((face.url, face.binding, version), (found.card, face, version))
    declared = {version for _, _, version in places.values()}
    rpc = [face for _, face, _ in places.values() if face.binding == Binding.JSONRPC]
    for version in versions:
        if version not in declared and rpc:
            places[(rpc[0].url, Binding.JSONRPC, version)] = (cards[0].card, rpc[0], version)
    return [
        place
        for place in places.values()
        if (not bindings or place[1].binding in bindings) and (not versions or place[2] in versions)
    ]


def _reached(card: AgentCard, interface: AgentInterface, version: Version, *, options: Options, reach: Reach) -> Probe:
    """A probe there. The caller's headers are for the host that it named, and for no other that a card points to.

    Raises:
        Undecided: nobody goes there from here.
    """
    if interface.binding == Binding.GRPC and find_spec("grpc") is None:
        raise Undecided('gRPC is not installed here: pip install "parley-a2a[grpc]"')
    try:
        known = options if reach.is_named(interface.url) else replace(options, headers={})
        return Probe(card, interface, version, options=known, reach=reach)
    except ForbiddenTargetError as error:
        raise Undecided(error.message) from error


# --- findings ---------------------------------------------------------------------------------------------------------


def _about_card(found: FoundCard) -> list[Finding]:
    findings: list[Finding] = []
    for rule, name, trial in card_cases(found.version):
        verdict, detail = Verdict.PASSED, ""
        try:
            detail = trial(found)
        except Broken as error:
            verdict, detail = (Verdict.FAILED if error.must else Verdict.WARNED), error.message
        except Undecided as error:
            verdict, detail = Verdict.UNDECIDED, error.message
        exchanges = ((found.exchange.sent, found.exchange.shown),)
        findings.append(Finding(rule, name, found.url, verdict, detail, exchanges))
    return findings


async def _visit(probe: Probe, only: Collection[str]) -> list[Finding]:
    """Try all cases at one place, and add the rules that nobody can see."""
    findings: list[Finding] = []
    for case in CASES:
        rule = case.rule_at(probe)
        if rule is not None and (not only or rule in only):
            findings.append(await _try(probe, rule, case.name, case.trial))
    for rule in RULES.values():
        if probe.version in rule.versions and rule.unseen:
            findings.append(Finding(rule.id, "Not visible from outside", probe.place, Verdict.UNDECIDED, rule.unseen))
    return findings


async def _try(probe: Probe, rule: str, name: str, trial: Callable[[Probe], Any]) -> Finding:
    probe.recorder.exchanges.clear()
    try:
        verdict, detail = Verdict.PASSED, await trial(probe) or ""
    except Broken as error:
        verdict, detail = (Verdict.FAILED if error.must else Verdict.WARNED), error.message
    except Undecided as error:
        verdict, detail = Verdict.UNDECIDED, error.message
    except PeerProtocolError as error:
        verdict, detail = Verdict.FAILED, f"what came back is no A2A {probe.version}: {error}"
    except (ClientError, UnreachableError) as error:
        verdict, detail = Verdict.UNDECIDED, f"{type(error).__name__}: {error}"
    except A2AError as error:
        verdict, detail = Verdict.FAILED, f"answered with {type(error).__name__}: {error}"
    seen = tuple((exchange.sent, exchange.shown) for exchange in _distinct(probe.recorder.exchanges))
    await probe.tidy_up()
    return Finding(rule, name, probe.place, verdict, detail, seen)


def _distinct(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return list({id(exchange): exchange for exchange in exchanges}.values())


async def _compare(probe: Probe, samples: dict[str, tuple[Version, Task]], only: Collection[str]) -> list[Finding]:
    """Read the tasks that other bindings of the same version made, and leave one for the next."""
    rule = CONSISTENT.get(probe.version)
    if rule is None or (only and rule not in only):
        return []
    findings: list[Finding] = []
    for place, (version, task) in samples.items():
        if version is not probe.version:
            continue

        async def trial(probe: Probe, task: Task = task) -> str:
            read = await probe.call(ops.GET_TASK, r.GetTaskRequest(task.id, tenant=probe.tenant))
            if (read.id, read.context_id, read.status.state) != (task.id, task.context_id, task.status.state):
                raise Broken(f"task {task.id} reads differently here")
            return "The task reads the same here"

        findings.append(await _try(probe, rule, f"A task of another binding can be read ({place})", trial))
    try:
        samples[f"{probe.binding}"] = (probe.version, await probe.finished())
    except ParleyError:
        return findings  # the other cases have said why there is none
    return findings
