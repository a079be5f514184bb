"""Cards for readers of any age."""

import json
from typing import Any

import pytest
from hypothesis import given

from parley.dialects import v0_1_card, v0_2, v0_3, v1_0
from parley.dialects.cards import decode_any_card, detect_card_version, encode_superset_card
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.protocol import cards as c
from parley.protocol.errors import PeerProtocolError
from parley.protocol.versions import Version
from tests import losses, strategies
from tests.losses import Losses

CODE = c.OAuthFlow({"read": "Read"}, authorization_url="https://a", token_url="https://t")
MACHINE = c.OAuthFlow({"read": "Read"}, token_url="https://t")
CARD = c.AgentCard(
    name="Currency",
    description="Converts money.",
    version="2.1",
    interfaces=(
        c.AgentInterface("https://agent/", "JSONRPC", "1.0", "acme"),
        c.AgentInterface("https://agent/", "JSONRPC", "0.3"),
        c.AgentInterface("https://agent/rest", "HTTP+JSON", "0.3"),
    ),
    capabilities=c.AgentCapabilities(streaming=True, extended_card=True, state_transition_history=True),
    skills=(c.AgentSkill("fx", "Convert", "Converts.", ("money",), security=({"login": ("read",)},)),),
    security_schemes={
        "login": c.OAuth2Scheme(c.OAuthFlows(authorization_code=CODE, client_credentials=MACHINE)),
        "key": c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Key"),
    },
    security=({"login": ("read",), "key": ()}, {"key": ()}),
)


def test_the_superset_serves_a_reader_of_0_3_and_a_reader_of_1_0() -> None:
    superset = encode_superset_card(CARD)

    assert v1_0.DIALECT.decode_card(superset) == Losses(losses.RULES_1_0).remaining(CARD)
    older = v0_3.DIALECT.decode_card(superset)
    assert older.interfaces == CARD.interfaces[1:]
    assert older.capabilities == CARD.capabilities
    assert older.security_schemes["key"] == CARD.security_schemes["key"]
    assert decode_any_card(superset)[1] is Version.V1_0


def test_the_superset_has_both_spellings_of_a_scheme() -> None:
    key = json.loads(encode_superset_card(CARD))["securitySchemes"]["key"]
    assert key == {
        "type": "apiKey",
        "in": "header",
        "name": "X-Key",
        "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
    }


@given(card=strategies.cards)
def test_every_card_has_a_superset_that_1_0_reads_as_its_own(card: c.AgentCard) -> None:
    assert v1_0.DIALECT.decode_card(encode_superset_card(card)) == Losses(losses.RULES_1_0).remaining(card)


def test_a_scheme_with_two_flows_becomes_two_schemes_and_every_requirement_an_alternative_for_each() -> None:
    split = one_flow_per_scheme(CARD)

    assert split.security_schemes == {
        "login": c.OAuth2Scheme(c.OAuthFlows(authorization_code=CODE)),
        "login-clientCredentials": c.OAuth2Scheme(c.OAuthFlows(client_credentials=MACHINE)),
        "key": CARD.security_schemes["key"],
    }
    assert split.security == (
        {"login": ("read",), "key": ()},
        {"login-clientCredentials": ("read",), "key": ()},
        {"key": ()},
    )
    assert split.skills[0].security == ({"login": ("read",)}, {"login-clientCredentials": ("read",)})
    assert one_flow_per_scheme(split) is split


def _without(document: bytes, *members: str) -> bytes:
    return json.dumps({name: value for name, value in json.loads(document).items() if name not in members}).encode()


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        (v1_0.DIALECT.encode_card(CARD), Version.V1_0),
        (v0_3.DIALECT.encode_card(CARD), Version.V0_3),
        (v0_2.DIALECT.encode_card(CARD), Version.V0_2),
        (_without(v0_2.DIALECT.encode_card(CARD), "protocolVersion"), Version.V0_2),
        (b'{"name": "a", "url": "b", "authentication": {"schemes": ["Bearer"]}}', Version.V0_1),
        (b'{"name": "a", "url": "b", "version": "1", "skills": []}', Version.V0_1),
        (b'{"name": "a", "url": "b", "securitySchemes": {}}', Version.V0_2),
        (b'{"name": "a", "url": "b", "protocolVersion": "1.0"}', Version.V0_3),
        (b'{"name": "a", "url": "b", "protocolVersion": 3}', Version.V0_3),
    ],
)
def test_a_cards_version_is_told_by_its_members(raw: bytes, version: Version) -> None:
    assert detect_card_version(raw) is version


@pytest.mark.parametrize("raw", [b"", b"[]", b"<html>"])
def test_what_is_no_json_object_is_no_card(raw: bytes) -> None:
    with pytest.raises(PeerProtocolError, match=r"^Not a card"):
        decode_any_card(raw)


def test_a_card_without_interfaces_can_be_written_in_every_version() -> None:
    card = c.AgentCard("n", "", "", ())
    for dialect in (v0_2.DIALECT, v0_3.DIALECT, v1_0.DIALECT):
        json.loads(dialect.encode_card(card))
    assert v0_1_card.encode_card(card).url == ""


def test_a_card_of_0_1_says_what_0_1_can_say() -> None:
    wire: Any = json.loads(v0_1_card.CARDS.encode(CARD))
    assert wire == {
        "name": "Currency",
        "url": "https://agent/",
        "version": "2.1",
        "description": "Converts money.",
        "capabilities": {"streaming": True, "stateTransitionHistory": True},
        "authentication": {"schemes": ["oauth2", "apiKey"]},
        "defaultInputModes": ["text"],
        "defaultOutputModes": ["text"],
        "skills": [{"id": "fx", "name": "Convert", "description": "Converts.", "tags": ["money"]}],
    }


def test_a_card_of_0_1_is_read_into_todays_terms() -> None:
    raw = b"""{"name": "Old", "url": "https://old/", "version": "0.9",
        "provider": {"organization": "ACME", "url": null},
        "capabilities": {"pushNotifications": true}, "authentication": {"schemes": ["Bearer", "Basic", "Bearer"]},
        "defaultOutputModes": ["text", "image/png"], "skills": [{"id": "s", "name": "S", "tags": null}]}"""
    assert v0_1_card.CARDS.decode(raw) == c.AgentCard(
        name="Old",
        description="",
        version="0.9",
        interfaces=(c.AgentInterface("https://old/", "JSONRPC", "0.1"),),
        capabilities=c.AgentCapabilities(push_notifications=True),
        skills=(c.AgentSkill("s", "S", ""),),
        default_output_modes=("text/plain", "image/png"),
        provider=c.AgentProvider("ACME", ""),
        security_schemes={"Bearer": c.HttpAuthScheme("Bearer"), "Basic": c.HttpAuthScheme("Basic")},
        security=({"Bearer": ()}, {"Basic": ()}),
    )


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        (c.HttpAuthScheme("Basic"), "Basic"),
        (c.OpenIdConnectScheme("https://id"), "openIdConnect"),
        (c.MutualTlsScheme(), "mutualTLS"),
    ],
)
def test_0_1_knows_a_scheme_by_its_name_alone(scheme: c.SecurityScheme, name: str) -> None:
    assert v0_1_card.encode_scheme_name(scheme) == name


def test_the_draft_name_of_the_extended_card_flag_is_read() -> None:
    raw = b'{"name": "a", "url": "b", "protocolVersion": "0.3.0", "supportsExtendedAgentCard": true}'
    assert v0_3.DIALECT.decode_card(raw).capabilities.extended_card is True


def test_a_card_of_1_0_may_leave_out_what_is_empty() -> None:
    assert v1_0.DIALECT.decode_card(b'{"name": "a"}') == c.AgentCard(
        "a", "", "", (), default_input_modes=(), default_output_modes=()
    )


def test_a_scheme_of_1_0_that_is_none_or_two_is_refused() -> None:
    for scheme in (b"{}", b'{"mtlsSecurityScheme": {}, "httpAuthSecurityScheme": {"scheme": "x"}}'):
        with pytest.raises(PeerProtocolError) as caught:
            v1_0.DIALECT.decode_card(b'{"name": "a", "securitySchemes": {"x": %s}}' % scheme)
        assert caught.value.path == "$.securitySchemes[...]"


def test_no_snake_case_can_be_smuggled_into_a_signed_card() -> None:
    card = v1_0.DIALECT.decode_card(b'{"name": "a", "icon_url": "https://evil", "supported_interfaces": []}')
    assert card.icon_url is None


def test_a_scheme_of_0_3_without_a_type_is_no_scheme() -> None:
    with pytest.raises(PeerProtocolError) as caught:
        v0_3.DIALECT.decode_card(b'{"name": "a", "url": "b", "securitySchemes": {"x": {"oauth2SecurityScheme": {}}}}')
    assert caught.value.path == "$.securitySchemes[...]"
