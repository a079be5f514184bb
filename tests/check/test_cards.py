"""What is said about cards, and where a check does not go."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from joserfc.jwk import ECKey

from parley.check.card_faults import REQUIRED
from parley.check.cases.card import cached, complete, consistent, encrypted, public, signed, unambiguous, versioned
from parley.check.endpoints.discovery import FoundCard
from parley.check.findings import Broken, RecordedExchange, Undecided, Verdict
from parley.check.options import CheckOptions
from parley.check.run import check
from parley.client.discovery.signatures import SignaturePolicy
from parley.client.errors import DiscoveryError, UnreachableError
from parley.dialects.cards import decode_any_card
from parley.protocol.signing import load_key, sign_card
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.pages.signer import Signer
from tests.server.serving import echo_agent, running, serving

CARD: dict[str, Any] = {
    "name": "Agent",
    "description": "An agent",
    "version": "1",
    "supportedInterfaces": [{"url": "https://agent.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "a", "name": "A", "description": "Does A", "tags": ["a"]}],
}
OLD: dict[str, Any] = {
    **{name: member for name, member in CARD.items() if name != "supportedInterfaces"},
    "protocolVersion": "0.3.0",
    "url": "https://agent.example/",
    "preferredTransport": "JSONRPC",
}


def found(*, at: str = "https://agent.example/card.json", base: dict[str, Any] = CARD, **members: Any) -> FoundCard:
    document = {**base, **members}
    card, version = decode_any_card(json.dumps(document).encode())
    return FoundCard(card, version, at, RecordedExchange("GET /", status=200), document)


def face(url: str, version: str = "1.0") -> dict[str, Any]:
    return {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}


def test_a_good_card_is_complete_encrypted_and_versioned() -> None:
    assert complete(found()) == "The card has all required members"
    assert encrypted(found()) == "All interfaces with a scheme are https"
    assert versioned(found()) == "All interfaces declare Major.Minor"
    assert consistent(found(base=OLD)) == "Every URL has one transport"


@pytest.mark.parametrize(
    ("trial", "card", "must", "detail"),
    [
        (unambiguous, found(skills=[*CARD["skills"], *CARD["skills"]]), False, "more than one skill has the id a"),
        (
            unambiguous,
            found(securityRequirements=[{"schemes": {"token": {"list": []}}}]),
            False,
            "the card requires token, and declares no such scheme",
        ),
        (
            unambiguous,
            found(skills=[{**CARD["skills"][0], "securityRequirements": [{"schemes": {"key": {"list": []}}}]}]),
            False,
            "the card requires key, and declares no such scheme",
        ),
        (complete, found(version=""), True, "the card lacks version"),
        (
            complete,
            found(supportedInterfaces=[{"url": "https://agent.example", "protocolBinding": "JSONRPC"}]),
            True,
            r"the card lacks supportedInterfaces\[0\]\.protocolVersion",
        ),
        (complete, found(supportedInterfaces=[]), True, "the card declares no interface"),
        (complete, found(skills=[]), False, "the card has no skill"),
        (cached, found(), False, "the card comes without cache-control and etag"),
        (encrypted, found(supportedInterfaces=[face("http://agent.example")]), True, "not encrypted: http://agent"),
        (public, found(supportedInterfaces=[face("https://10.0.0.1")]), True, "the card names internal addresses"),
        (versioned, found(supportedInterfaces=[face("https://agent.example", "1.0.1")]), False, "not Major.Minor"),
        (
            consistent,
            found(base=OLD, additionalInterfaces=[{"url": "https://agent.example/", "transport": "GRPC"}]),
            True,
            "more than one transport",
        ),
        (
            consistent,
            found(base=OLD, additionalInterfaces=[{"url": "https://agent.example:1", "transport": "GRPC"}]),
            False,
            "does not list the main url",
        ),
        (signed, found(signatures=[{"protected": "!", "signature": "x"}]), True, "not JSON in base64url"),
        (signed, found(signatures=[{"protected": "e30", "signature": "x"}]), True, "has no alg"),
    ],
)
def test_a_bad_card_is_told_what_is_wrong(trial: Any, card: FoundCard, must: bool, detail: str) -> None:
    with pytest.raises(Broken, match=detail) as broken:
        trial(card)
    assert broken.value.must is must


@pytest.mark.parametrize(
    ("trial", "card", "reason"),
    [
        (signed, found(), "not signed"),
        (signed, found(signatures=[{"protected": "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ", "signature": "x"}]), "key"),
        (encrypted, found(at="http://127.0.0.1:80/card.json"), "private address"),
        (public, found(at="http://localhost/card.json"), "private address"),
        (public, found(), "only the owner knows"),
    ],
)
def test_what_a_card_does_not_show_is_undecided(trial: Any, card: FoundCard, reason: str) -> None:
    with pytest.raises(Undecided, match=reason):
        trial(card)


def document(card: dict[str, Any] | bytes, status: int = 200) -> Any:
    """An app that has this at every path."""
    body = card if isinstance(card, bytes) else json.dumps(card).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/json")]})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.anyio
async def test_a_card_that_points_into_the_network_of_its_reader_is_not_followed() -> None:
    faces = [face("http://10.0.0.1/"), face("https://127.0.0.1.example.internal/"), face("http://[bad")]
    async with serving(document({**CARD, "supportedInterfaces": faces})) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5))
    endpoints = [found for found in report.findings if found.case == "The interface answers as the card says"]
    assert [finding.verdict for finding in endpoints] == [Verdict.UNDECIDED] * 3
    assert "which is not encrypted" in endpoints[0].detail
    assert report.incomplete == report.endpoints  # nobody was asked anything: that is no good end
    assert report.hints == {
        "the check does not call http://10.0.0.1; give --allow-private": 1,
        "the check does not call https://127.0.0.1.example.internal; give --allow-private": 1,
    }


@pytest.mark.anyio
async def test_an_interface_that_answers_nothing_of_a2a_fails_and_an_unknown_binding_is_left_out() -> None:
    async with serving(document(b"")) as elsewhere:
        url = str(elsewhere.base_url)
        other = {"url": url, "protocolBinding": "urn:other", "protocolVersion": "1.0"}
        faces = [{**face(url), "protocolBinding": "HTTP+JSON"}, other, face(url, "7.0"), face(url, "0.1")]
        async with serving(document({**CARD, "supportedInterfaces": faces})) as client:
            report = await check(f"{client.base_url}/card.json", CheckOptions(timeout=5))
    assert [endpoint.split(" ")[:2] for endpoint in report.endpoints] == [["1.0", "HTTP+JSON"], ["0.1", "JSONRPC"]]
    not_checked = {
        found.endpoint.split(" ")[1]: found.detail for found in report.findings if "does not support" in found.detail
    }
    assert not_checked == {
        "urn:other": "the check does not support the binding urn:other",
        "JSONRPC": "the check does not support A2A 7.0",
    }
    assert {"G1.7", "G1.53", "A1.2"} <= {finding.rule for finding in report.findings if finding.verdict == "failed"}


@pytest.mark.anyio
async def test_without_a_card_there_is_no_check() -> None:
    for app in (document(b"", 404), document(b"nonsense")):
        async with serving(app) as client:
            with pytest.raises(DiscoveryError, match="There is no agent card"):
                await check(f"{client.base_url}/agents/one", CheckOptions(timeout=5))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("card", "rule", "detail"),
    [
        ({"hello": 1}, "G1.53", f"it lacks {', '.join(REQUIRED[Version.V1_0])}"),
        ({**CARD, "skills": "many"}, "G1.53", "the card cannot be read: "),
        (
            {"url": "https://agent.example", "protocolVersion": "0.3.0", "skills": 1},
            "G2.2",
            "it lacks name, description, ",
        ),
    ],
)
async def test_what_is_meant_as_a_card_and_is_none_breaks_a_rule(card: dict[str, Any], rule: str, detail: str) -> None:
    async with serving(document(card)) as client:
        report = await check(f"{client.base_url}/agents/one", CheckOptions(timeout=5))
    (finding,) = report.findings
    assert (finding.rule, finding.verdict) == (rule, Verdict.FAILED)
    assert detail in finding.detail
    assert finding.endpoint == f"{client.base_url}/agents/one/.well-known/agent-card.json"
    assert finding.says.startswith("An agent MUST publish a card")
    assert json.dumps(card) in finding.exchanges[0][1]


@pytest.mark.anyio
async def test_a_json_object_where_no_card_is_said_to_be_is_not_taken_for_one() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await document({"id": 7}, 200 if scope["path"] == "/orders/7" else 404)(scope, receive, send)

    async with serving(app) as client:
        with pytest.raises(DiscoveryError, match="There is no agent card"):
            await check(f"{client.base_url}/orders/7", CheckOptions(timeout=5))


@pytest.mark.anyio
async def test_without_a_server_there_is_no_check() -> None:
    async with serving(document(b"")) as client:
        url = str(client.base_url)
    with pytest.raises(UnreachableError):
        await check(url, CheckOptions(timeout=5))


@pytest.mark.anyio
async def test_a_port_where_nobody_listens_is_not_as_the_card_says() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen; nothing else is given the port meanwhile
        faces = [face(f"http://127.0.0.1:{silent.getsockname()[1]}/")]
        async with serving(document({**CARD, "supportedInterfaces": faces})) as client:
            report = await check(str(client.base_url), CheckOptions(timeout=5))
    (finding,) = [found for found in report.findings if found.case == "The interface answers as the card says"]
    assert finding.verdict is Verdict.FAILED
    assert finding.detail.startswith("the interface of the card cannot be reached")
    assert report.incomplete == report.endpoints


@pytest.mark.anyio
async def test_the_card_of_another_agent_at_the_root_is_not_looked_at() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        mine = scope["path"] == "/mine/.well-known/agent-card.json"
        name = "Mine" if mine else "Another"
        is_there = mine or scope["path"] == "/.well-known/agent-card.json"
        await document({**CARD, "name": name}, 200 if is_there else 404)(scope, receive, send)

    async with serving(app) as client:
        report = await check(f"{client.base_url}/mine", CheckOptions(timeout=5), only=["G1.53"])
        other = await check(f"{client.base_url}/other", CheckOptions(timeout=5), only=["G1.53"])
    assert report.agent == "Mine"
    assert {found.endpoint for found in report.findings if "well-known" in found.endpoint} == {
        f"{client.base_url}/mine/.well-known/agent-card.json"
    }
    assert other.agent == "Another"


@pytest.mark.anyio
async def test_a_key_in_the_url_is_not_reported() -> None:
    async with serving(document({**CARD, "supportedInterfaces": [face("https://10.0.0.1/")]})) as client:
        report = await check(
            f"{client.base_url}/card.json?key=se%2Fcret-of-mine&A2A-Version=1.0", CheckOptions(timeout=5)
        )
    assert "cret-of-mine" not in repr(report)
    assert report.url.endswith("/card.json?key=(not shown)&A2A-Version=1.0")


# --- signatures -------------------------------------------------------------------------------------------------------


def signed_card(**members: Any) -> dict[str, Any]:
    signature = sign_card({**CARD, **members}, KEY, key_id="k1", jku=members.pop("jku", None))
    protected, value = signature.protected, signature.signature
    return {**CARD, **members, "signatures": [{"protected": protected, "signature": value}]}


async def result_of(card: dict[str, Any], policy: SignaturePolicy) -> tuple[Verdict, str]:
    async with serving(document({**card, "supportedInterfaces": card["supportedInterfaces"]})) as client:
        options = CheckOptions(timeout=5, signatures=policy)
        report = await check(f"{client.base_url}/card.json", options, only=["G1.56"])
    (finding,) = [found for found in report.findings if found.rule == "G1.56"]
    return finding.verdict, finding.detail


KEY = load_key(ECKey.generate_key("P-256").as_dict(private=True))
OTHER_KEY = load_key(ECKey.generate_key("P-256").as_dict(private=True))
FACES = [face("https://10.0.0.1/")]  # where nobody goes


@pytest.mark.anyio
async def test_a_signature_verifies_with_a_pinned_key_and_fails_with_another() -> None:
    card = signed_card(supportedInterfaces=FACES)
    assert await result_of(card, SignaturePolicy(keys={"k1": KEY})) == (
        Verdict.PASSED,
        "The signature by k1 verifies",
    )
    verdict, detail = await result_of(card, SignaturePolicy(keys={"k1": OTHER_KEY}))
    assert (verdict, detail.startswith("no signature verifies")) == (Verdict.FAILED, True)
    changed = {**card, "name": "Another"}
    assert (await result_of(changed, SignaturePolicy(keys={"k1": KEY})))[0] is Verdict.FAILED
    assert (await result_of(card, SignaturePolicy()))[0] is Verdict.UNDECIDED


@pytest.mark.anyio
async def test_our_own_signed_cards_verify_with_the_keys_that_the_server_itself_shows() -> None:
    async with running(App(echo_agent(), signer=Signer(KEY, "k1"))) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.56"])
    assert [found.verdict for found in report.findings] == [Verdict.PASSED]


@pytest.mark.anyio
async def test_a_key_set_that_cannot_be_fetched_decides_nothing() -> None:
    app = App(echo_agent(), signer=Signer(KEY, "k1", "http://127.0.0.1:1/keys.json"))
    async with running(app) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.56"])
    (finding,) = report.findings
    assert finding.verdict is Verdict.UNDECIDED
    assert "the key set cannot be fetched" in finding.detail
