"""Cards for readers of any age."""

import json
from typing import Any

import pytest
from hypothesis import given

from parley.dialects import v0_1_card, v0_2, v0_3, v1_0
from parley.dialects.cards import decode_any_card, detect_card_version, encode_superset_card
from parley.dialects.dialect import JsonDialect
from parley.dialects.oauth_flows import MAX_ALTERNATIVES, one_flow_per_scheme
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
        (b'{"name": "a", "url": "b", "description": "", "defaultInputModes": ["text"]}', Version.V0_1),
        (b'{"name": "a", "url": "b", "description": "", "defaultInputModes": ["text/plain"]}', Version.V0_2),
        (b'{"name": "a", "url": "b", "description": "", "defaultInputModes": [1]}', Version.V0_2),
        (b'{"name": "a", "url": "b", "description": "", "defaultInputModes": 1}', Version.V0_2),
        (
            b'{"name": "a", "url": "b", "description": "", "defaultInputModes": ["text"], "securitySchemes": {}}',
            Version.V0_2,
        ),
    ],
)
def test_a_cards_version_is_told_by_its_members(raw: bytes, version: Version) -> None:
    assert detect_card_version(raw) is version


@pytest.mark.parametrize("raw", [b"", b"[]", b"<html>"])
def test_what_is_no_json_object_is_no_card(raw: bytes) -> None:
    with pytest.raises(PeerProtocolError, match=r"^Invalid card"):
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


def test_a_scheme_of_1_0_that_is_two_is_refused() -> None:
    scheme = b'{"mtlsSecurityScheme": {}, "httpAuthSecurityScheme": {"scheme": "x"}}'
    with pytest.raises(PeerProtocolError) as caught:
        v1_0.DIALECT.decode_card(b'{"name": "a", "securitySchemes": {"x": %s}}' % scheme)
    assert caught.value.path == "$.securitySchemes.x"


def test_no_snake_case_can_be_smuggled_into_a_signed_card() -> None:
    card = v1_0.DIALECT.decode_card(b'{"name": "a", "icon_url": "https://evil", "supported_interfaces": []}')
    assert card.icon_url is None


def test_a_scheme_of_0_3_without_a_type_is_no_scheme() -> None:
    with pytest.raises(PeerProtocolError) as caught:
        v0_3.DIALECT.decode_card(b'{"name": "a", "url": "b", "securitySchemes": {"x": {"oauth2SecurityScheme": {}}}}')
    assert caught.value.path == "$.securitySchemes.x"


# --- endpoints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "stated", "version"),
    [
        (v0_2.DIALECT, None, "0.2"),
        (v0_2.DIALECT, "0.2.5", "0.2"),
        (v0_3.DIALECT, None, "0.3"),
        (v0_3.DIALECT, "0.3.0", "0.3"),
        (v0_3.DIALECT, "1.0", "0.3"),
        (v0_3.DIALECT, "latest", "0.3"),
    ],
)
def test_the_endpoint_of_an_old_card_speaks_the_version_it_can_be_read_in(
    dialect: JsonDialect, stated: str | None, version: str
) -> None:
    card = dialect.decode_card(json.dumps({"name": "a", "url": "b", "protocolVersion": stated}).encode())
    assert [interface.version for interface in card.interfaces] == [version]


def test_a_1_0_card_may_state_versions_with_a_patch_number_or_none_at_all() -> None:
    face = {"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.1"}
    odd = {**face, "protocolVersion": "draft.9.1"}
    silent = {"url": "u", "protocolBinding": "JSONRPC"}  # Microsoft's agent-framework-a2a, as documented
    card = v1_0.DIALECT.decode_card(json.dumps({"name": "a", "supportedInterfaces": [face, odd, silent]}).encode())
    assert [interface.version for interface in card.interfaces] == ["1.0", "draft.9.1", "1.0"]


MANY_DOORS = c.AgentCard(
    "n",
    "",
    "",
    (
        c.AgentInterface("grpc:443", "GRPC", "0.3"),
        c.AgentInterface("https://rest", "HTTP+JSON", "0.3"),
        c.AgentInterface("https://rpc", "JSONRPC", "0.3"),
        c.AgentInterface("https://new", "JSONRPC", "1.0"),
    ),
)


@pytest.mark.parametrize("dialect", [v0_2.DIALECT, v0_3.DIALECT], ids=["0.2", "0.3"])
def test_the_main_endpoint_of_an_old_card_is_the_json_rpc_one(dialect: JsonDialect) -> None:
    wire = json.loads(dialect.encode_card(MANY_DOORS))
    assert (wire["url"], wire["preferredTransport"]) == ("https://rpc", "JSONRPC")
    assert [face["url"] for face in wire["additionalInterfaces"]] == ["https://rpc", "grpc:443", "https://rest"]


def test_0_1_advertises_a_json_rpc_endpoint_wherever_there_is_one() -> None:
    def url(*interfaces: c.AgentInterface) -> str:
        return v0_1_card.encode_card(c.AgentCard("n", "", "", interfaces)).url

    grpc_0_1, grpc_0_3 = c.AgentInterface("grpc", "GRPC", "0.1"), c.AgentInterface("grpc3", "GRPC", "0.3")
    rpc_1_0 = c.AgentInterface("rpc", "JSONRPC", "1.0")
    assert url(*MANY_DOORS.interfaces) == "https://rpc"
    assert url(grpc_0_1, *MANY_DOORS.interfaces) == "https://rpc"
    assert url(grpc_0_1, rpc_1_0) == "rpc"
    assert url(grpc_0_3, grpc_0_1) == "grpc3"


# --- OAuth flows ------------------------------------------------------------------------------------------------------

FIVE_FLOWS = c.OAuth2Scheme(c.OAuthFlows(CODE, MACHINE, CODE, MACHINE, MACHINE))


def test_a_requirement_of_many_schemes_with_many_flows_does_not_explode() -> None:
    schemes = {f"s{number}": FIVE_FLOWS for number in range(10)}
    card = c.AgentCard("n", "", "", (), security_schemes=schemes, security=(dict.fromkeys(schemes, ()),))

    split = one_flow_per_scheme(card)

    assert split.security == card.security
    assert len(split.security_schemes) == 50


def test_a_requirement_is_spelled_out_up_to_the_limit() -> None:
    schemes = dict.fromkeys(("a", "b"), FIVE_FLOWS)
    card = c.AgentCard("n", "", "", (), security_schemes=schemes, security=({"a": (), "b": ()},))
    assert len(one_flow_per_scheme(card).security) == 25 <= MAX_ALTERNATIVES


def test_a_split_scheme_takes_no_name_that_another_has() -> None:
    both = c.OAuth2Scheme(c.OAuthFlows(authorization_code=CODE, client_credentials=MACHINE))
    key = c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Key")
    taken = {"login": both, "login-clientCredentials": key, "login-clientCredentials-2": key}
    card = c.AgentCard("n", "", "", (), security_schemes=taken, security=({"login": ()},))

    split = one_flow_per_scheme(card)

    assert split.security_schemes == {
        "login": c.OAuth2Scheme(c.OAuthFlows(authorization_code=CODE)),
        "login-clientCredentials": key,
        "login-clientCredentials-2": key,
        "login-clientCredentials-3": c.OAuth2Scheme(c.OAuthFlows(client_credentials=MACHINE)),
    }
    assert split.security == ({"login": ()}, {"login-clientCredentials-3": ()})


# --- schemes that nobody knows yet ------------------------------------------------------------------------------------


def test_a_scheme_of_a_later_release_is_left_out_and_its_requirement_stays() -> None:
    newer = {"name": "a", "url": "b", "protocolVersion": "0.3.0", "securitySchemes": {"x": {"type": "passkey"}}}
    card = v0_3.DIALECT.decode_card(json.dumps({**newer, "security": [{"x": []}]}).encode())
    assert (card.security_schemes, card.security) == ({}, ({"x": ()},))

    newer = {"name": "a", "securitySchemes": {"x": {"passkeySecurityScheme": {}}, "y": {"mtlsSecurityScheme": {}}}}
    requirement = {"schemes": {"x": {}}}
    card = v1_0.DIALECT.decode_card(json.dumps({**newer, "securityRequirements": [requirement]}).encode())
    assert (card.security_schemes, card.security) == ({"y": c.MutualTlsScheme()}, ({"x": ()},))


@pytest.mark.parametrize(
    ("dialect", "scheme", "path"),
    [
        (v1_0.DIALECT, {"apiKeySecurityScheme": {"location": "moon"}}, "$.securitySchemes.x.apiKeySecurityScheme"),
        (v1_0.DIALECT, "text", "$.securitySchemes.x"),
        (v0_3.DIALECT, {"type": "http"}, "$.securitySchemes.x"),
        (v0_3.DIALECT, {"type": 5}, "$.securitySchemes.x"),
        (v0_3.DIALECT, None, "$.securitySchemes.x"),
    ],
)
def test_the_fault_of_a_scheme_names_the_scheme(dialect: JsonDialect, scheme: Any, path: str) -> None:
    raw = json.dumps({"name": "a", "url": "b", "securitySchemes": {"x": scheme}}).encode()
    with pytest.raises(PeerProtocolError) as caught:
        dialect.decode_card(raw)
    assert (caught.value.path or "").startswith(path)


def test_0_2_drops_a_requirement_whose_scheme_it_cannot_name() -> None:
    schemes = {"m": c.MutualTlsScheme(), "key": c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Key")}
    security: tuple[c.SecurityRequirement, ...] = ({"m": (), "key": ()}, {"key": ()})
    card = c.AgentCard("n", "", "", (), security_schemes=schemes, security=security)
    wire = json.loads(v0_2.DIALECT.encode_card(card))
    assert (list(wire["securitySchemes"]), wire["security"]) == (["key"], [{"key": []}])


def test_a_card_of_0_1_may_name_one_scheme_without_its_list() -> None:
    card = v0_1_card.CARDS.decode(b'{"name": "a", "url": "b", "authentication": {"schemes": "Bearer"}}')
    assert card.security == ({"Bearer": ()},)
