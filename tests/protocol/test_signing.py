"""Signed cards: what a signature covers, who may sign, and everything that makes a signature worthless."""

from __future__ import annotations

import copy
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import json_b64encode, urlsafe_b64encode

from parley.dialects import v1_0
from parley.protocol.errors import (
    MAX_TEXT,
    LocalProtocolError,
    ParleyError,
    SignatureInvalidError,
    UnavailableError,
)
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.signing import (
    MAX_SIGNATURES,
    CardForm,
    CardKey,
    ProtectedHeader,
    VerifiedSignature,
    load_key,
    sign_card,
    signature_headers,
    signing_payload,
    verify_card,
)

Json: TypeAlias = dict[str, Any]

EC = ECKey.generate_key("P-256")
RSA = RSAKey.generate_key(2048)
ED = OKPKey.generate_key("Ed25519")
WEAK_RSA_RAW = rsa.generate_private_key(65537, 1024)
WEAK_RSA = RSAKey(WEAK_RSA_RAW, WEAK_RSA_RAW)
BRAINPOOL_RAW = ec.generate_private_key(ec.BrainpoolP256R1())
SECRET: Any = OctKey.generate_key(256)

# Every message of the 1.0 card, with the members that presence rules treat differently.
CARD: Json = {
    "name": "Währung €\U0001f600",
    "description": "",
    "version": "1.2",
    "supportedInterfaces": [
        {"url": "https://x.test/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "acme"}
    ],
    "provider": {"organization": "X", "url": "https://x.test"},
    "iconUrl": "",
    "capabilities": {
        "streaming": False,
        "extensions": [
            {"uri": "https://x.test/geo", "required": True, "params": {"z": [], "limit": 1e21, "step": 0.1, "n": None}}
        ],
    },
    "securitySchemes": {
        "mtls": {"mtlsSecurityScheme": {}},
        "oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t", "scopes": {}}}}},
    },
    "securityRequirements": [{"schemes": {"mtls": {}, "oauth": {"list": ["read"]}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": [],
    "skills": [{"id": "s", "name": "S", "description": "Does it.", "tags": [], "examples": ["100 €"]}],
}


def changed(card: Json, **members: Any) -> Json:
    return copy.deepcopy(card) | members


def signed(card: Json, key: CardKey = EC, *, key_id: str = "k1") -> Json:
    return card | {"signatures": [msgspec.to_builtins(sign_card(card, key, key_id=key_id))]}


def entry(payload: bytes, header: Any, key: CardKey = EC, algorithm: str = "ES256") -> Any:
    """A signature that `sign_card` would not make: any header over any payload."""
    protected = json_b64encode(header)
    signature = JWSRegistry.algorithms[algorithm].sign(protected + b"." + urlsafe_b64encode(payload), key)
    return {"protected": protected.decode(), "signature": urlsafe_b64encode(signature).decode()}


def finds(key: CardKey | None) -> Callable[[ProtectedHeader], CardKey | None]:
    return lambda header: key


def why_refused(card: Json | bytes, key: CardKey | None = EC) -> str:
    with pytest.raises(SignatureInvalidError) as caught:
        verify_card(card, finds(key))
    return caught.value.message


HEADER: Json = {"alg": "ES256", "kid": "k1", "typ": "JOSE"}


# --- what a signature covers ---


def test_the_example_of_the_specification_has_the_payload_it_prints() -> None:
    """1.0 section 8.4.1."""
    fragment: Json = {
        "name": "Example Agent",
        "description": "",
        "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
        "skills": [],
    }
    assert signing_payload(fragment) == (
        b'{"capabilities":{"pushNotifications":false,"streaming":false},'
        b'"description":"","name":"Example Agent","skills":[]}'
    )


def test_required_optional_and_message_members_stay_and_other_defaults_go() -> None:
    card = changed(
        CARD,
        documentationUrl=None,
        signatures=[{"protected": "x", "signature": "y"}],
        capabilities={"streaming": False, "extensions": [{"uri": "u", "required": False, "params": {}}]},
        securitySchemes={
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "", "description": ""}},
            "flow": {"oauth2SecurityScheme": {"flows": {"implicit": {"scopes": {}, "refreshUrl": ""}}}},
        },
        securityRequirements=[{"schemes": {}}, {"schemes": {"key": {"list": []}}}],
    )
    assert json.loads(signing_payload(card)) == {
        "name": "Währung €\U0001f600",
        "description": "",
        "version": "1.2",
        "supportedInterfaces": CARD["supportedInterfaces"],
        "provider": CARD["provider"],
        "iconUrl": "",
        "capabilities": {"streaming": False, "extensions": [{"uri": "u", "params": {}}]},
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": ""}},
            "flow": {"oauth2SecurityScheme": {"flows": {"implicit": {}}}},
        },
        "securityRequirements": [{}, {"schemes": {"key": {}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": [],
        "skills": CARD["skills"],
    }


def test_the_payload_is_canonical_json() -> None:
    """RFC 8785: UTF-16 order of names, minimal escapes, ECMAScript numbers; extension parameters stay as they are."""
    params: Json = {
        "\ufb33": 1.0,
        "\U0001f600": -0.0,
        "é": [1e21, 1e-7, 0.000001, 333333333.33333329, 100],
        "a\n": '\u0007"\\/€',
        "": None,
    }
    card: Json = {"capabilities": {"extensions": [{"params": params}]}}
    assert (
        signing_payload(card)
        == (
            '{"capabilities":{"extensions":[{"params":{"":null,"a\\n":"\\u0007\\"\\\\/€",'
            '"é":[1e+21,1e-7,0.000001,333333333.3333333,100],"\U0001f600":0,"\ufb33":1}}]}}'
        ).encode()
    )


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**5000, float("inf"), float("nan")], ids=range(5))
def test_a_number_that_canonical_json_cannot_hold_is_an_error_on_both_sides(number: float) -> None:
    card = signed(CARD)
    card["capabilities"] = {"extensions": [{"params": {"n": number}}]}
    with pytest.raises(LocalProtocolError, match="The card has no canonical form"):
        signing_payload(card)
    assert why_refused(card).startswith("The card has no canonical form")


# --- signing and verifying ---


@pytest.mark.parametrize(("key", "algorithm"), [(EC, "ES256"), (RSA, "RS256"), (ED, "EdDSA")])
def test_a_signed_card_verifies_with_the_public_key(key: CardKey, algorithm: str) -> None:
    public = load_key(key.as_pem(private=False))
    card = signed(CARD, key)
    header = ProtectedHeader(algorithm, "k1")
    expected = VerifiedSignature(0, header, CardForm.SPEC, signing_payload(CARD))
    assert verify_card(card, finds(public)) == expected
    assert verify_card(json.dumps(card).encode(), finds(public)).form is CardForm.SPEC


def test_the_protected_header_names_algorithm_key_type_and_key_set() -> None:
    signature = sign_card(CARD, EC, key_id="k1", jku="https://x.test/jwks.json")
    card = CARD | {"signatures": [msgspec.to_builtins(signature)]}
    assert signature.protected == json_b64encode(HEADER | {"jku": "https://x.test/jwks.json"}).decode()
    assert signature_headers(card) == (ProtectedHeader("ES256", "k1", "https://x.test/jwks.json"),)


def test_one_good_signature_among_bad_ones_is_enough() -> None:
    card = signed(CARD)
    other = msgspec.to_builtins(sign_card(CARD, ED, key_id="rotated"))
    card["signatures"] = [None, {"protected": "e30", "signature": ""}, *card["signatures"], other]

    def find_key(header: ProtectedHeader) -> CardKey | None:
        return {"rotated": ED}.get(header.key_id)

    header = ProtectedHeader("EdDSA", "rotated")
    assert verify_card(card, find_key) == VerifiedSignature(3, header, CardForm.SPEC, signing_payload(CARD))
    assert [header.key_id for header in signature_headers(card)] == ["k1", "rotated"]


def test_signatures_that_a_card_has_already_do_not_change_a_new_one() -> None:
    card = signed(CARD)
    card["signatures"].append(msgspec.to_builtins(sign_card(card, ED, key_id="second")))
    assert verify_card(card, lambda header: ED if header.key_id == "second" else None).index == 1
    assert verify_card(card, finds(EC)).index == 0


def test_no_more_than_a_few_signatures_are_looked_at() -> None:
    asked: list[ProtectedHeader] = []
    card = signed(CARD)
    card["signatures"] = card["signatures"] * 1000
    with pytest.raises(SignatureInvalidError):
        verify_card(card, asked.append)
    assert len(asked) == len(signature_headers(card)) == MAX_SIGNATURES


# --- the forms that peers sign ---


def test_members_that_1_0_does_not_have_may_stand_beside_signed_ones() -> None:
    """A dual-form card: the 1.0 members are signed, those for 0.3 readers are not."""
    card = signed(CARD)
    card |= {"url": "https://x.test", "preferredTransport": "JSONRPC", "security": [{"oauth": []}]}
    card["securitySchemes"] = copy.deepcopy(CARD["securitySchemes"])
    card["securitySchemes"]["mtls"]["type"] = "mutualTLS"
    assert verify_card(card, finds(EC)).form is CardForm.SPEC


def test_members_of_a_newer_release_may_be_signed() -> None:
    card = changed(CARD, motto={"text": "", "since": 3}, retired=None)
    payload = rfc8785.dumps(changed(CARD, motto={"text": "", "since": 3}))
    card["signatures"] = [entry(payload, HEADER)]
    assert verify_card(card, finds(EC)).form is CardForm.SPEC_UNKNOWN


@pytest.mark.parametrize(
    ("extra", "form"), [({}, CardForm.NO_EMPTIES), ({"motto": {"since": 0}}, CardForm.NO_EMPTIES_UNKNOWN)]
)
def test_a_card_signed_without_its_empty_members_verifies(extra: Json, form: CardForm) -> None:
    """What a2a-sdk 1.3.0 signs: empty texts, lists and objects are gone, required ones and parameters too."""
    payload: Json = {
        "name": CARD["name"],
        "version": "1.2",
        "supportedInterfaces": CARD["supportedInterfaces"],
        "provider": CARD["provider"],
        "capabilities": {
            "streaming": False,
            "extensions": [{"uri": "https://x.test/geo", "required": True, "params": {"limit": 1e21, "step": 0.1}}],
        },
        "securitySchemes": {
            "oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t"}}}}
        },
        "securityRequirements": [{"schemes": {"oauth": {"list": ["read"]}}}],
        "defaultInputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "Does it.", "examples": ["100 €"]}],
    }
    card = CARD | extra | {"signatures": [entry(rfc8785.dumps(payload | extra), HEADER)]}
    assert verify_card(card, finds(EC)).form is form


def test_a_card_may_be_signed_for_readers_of_either_form() -> None:
    forms = (CardForm.SPEC, CardForm.NO_EMPTIES)
    signatures = [msgspec.to_builtins(sign_card(CARD, EC, key_id=form, form=form)) for form in forms]
    card = CARD | {"signatures": signatures}
    for index, form in enumerate(forms):
        expected = VerifiedSignature(index, ProtectedHeader("ES256", form), form, signing_payload(CARD, form))
        assert verify_card(card, finds(EC), forms=[form]) == expected


def test_a_strict_client_accepts_the_form_of_the_specification_only() -> None:
    card = changed(CARD, motto="x")
    card["signatures"] = [entry(rfc8785.dumps(card), HEADER)]
    assert verify_card(card, finds(EC)).form is CardForm.SPEC_UNKNOWN
    with pytest.raises(SignatureInvalidError):
        verify_card(card, finds(EC), forms=[CardForm.SPEC])


# --- what is refused ---


@pytest.mark.parametrize("signatures", [None, [], {}, "x"])
def test_a_card_without_signatures_is_not_verified(signatures: Any) -> None:
    assert why_refused(CARD) == "The card has no signatures"
    assert why_refused(CARD | {"signatures": signatures}) == "The card has no signatures"


NAMELESS = {name: value for name, value in HEADER.items() if name != "kid"}


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        (None, "protected is missing or not a text"),
        ({"protected": 1, "signature": "AA"}, "protected is missing or not a text"),
        ({"protected": "e30=", "signature": "AA"}, "protected is not base64url"),
        ({"protected": "\ud800", "signature": "AA"}, "protected is not base64url"),
        ({"protected": "bm8", "signature": "AA"}, "the protected header is not readable as JSON"),
        ({"protected": "_w", "signature": "AA"}, "the protected header is not readable as JSON"),
        ({"protected": "W10", "signature": "AA"}, "the protected header is not a JSON object"),
        ({"protected": urlsafe_b64encode(b"[" * 100_000).decode()}, "the protected header is not readable as JSON"),
        ({"protected": urlsafe_b64encode(b'{"alg":"none","alg":"ES256"}').decode()}, "a member occurs twice"),
        ({"protected": json_b64encode(HEADER).decode()}, "signature is missing or not a text"),
        ({"protected": json_b64encode(HEADER).decode(), "signature": "A"}, "signature is not base64url"),
        ({"protected": json_b64encode(HEADER).decode(), "signature": ""}, "it is not a signature of this card"),
        (entry(signing_payload(CARD), NAMELESS), "kid is missing or not a text"),
        (entry(signing_payload(CARD), HEADER | {"alg": None}), "alg is missing or not a text"),
        (entry(signing_payload(CARD), HEADER | {"jku": 1}), "jku is not a text"),
        (entry(signing_payload(CARD), HEADER | {"crit": ["b64"], "b64": False}), "critical extensions"),
        (entry(signing_payload(CARD), HEADER | {"crit": []}), "critical extensions"),
        (entry(signing_payload(CARD), HEADER | {"b64": False}), "critical extensions"),
        (entry(b"{}", HEADER), "it is not a signature of this card by this key"),
        (entry(signing_payload(CARD), HEADER, ECKey.generate_key("P-256")), "it is not a signature of this card"),
    ],
)
def test_a_bad_signature_is_refused_with_its_reason(signature: Any, reason: str) -> None:
    message = why_refused(CARD | {"signatures": [signature]})
    assert message.startswith("No signature of the card could be verified: [0] ")
    assert reason in message


def test_each_signature_has_its_own_reason() -> None:
    card = CARD | {"signatures": [None, entry(b"{}", HEADER)]}
    assert why_refused(card) == (
        "No signature of the card could be verified: [0] protected is missing or not a text; "
        "[1] it is not a signature of this card by this key"
    )


def test_a_key_that_nobody_knows_is_named() -> None:
    assert why_refused(signed(CARD), key=None).endswith("[0] no key is known for kid 'k1'")


def test_a_key_that_could_not_be_had_counts_against_its_signature_alone() -> None:
    card = signed(CARD)
    card["signatures"] *= 2
    answers: Iterator[CardKey | None] = iter([None, EC])

    def find_key(header: ProtectedHeader) -> CardKey:
        key = next(answers)
        if key is None:
            raise UnavailableError("the key set did not answer")
        return key

    assert verify_card(card, find_key).index == 1


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "RS384", "PS256", "ES256K", "", "RS256\n"])
def test_an_algorithm_off_the_list_is_refused_before_a_key_is_looked_for(algorithm: str) -> None:
    card = CARD | {"signatures": [entry(signing_payload(CARD), HEADER | {"alg": algorithm})]}
    with pytest.raises(SignatureInvalidError) as caught:
        verify_card(card, lambda header: pytest.fail("asked for a key"))
    assert f"alg {algorithm!r} is refused; accepted algorithms: ES256, RS256, EdDSA" in str(caught.value)


@pytest.mark.parametrize("key", [RSA, EC, ED])
def test_a_public_key_is_never_taken_for_a_shared_secret(key: CardKey) -> None:
    """Algorithm confusion: the forger signs with HS256 and the public key, which everybody has, as the secret."""
    protected = json_b64encode(HEADER | {"alg": "HS256"})
    signing_input = protected + b"." + urlsafe_b64encode(signing_payload(CARD))
    forged = hmac.digest(key.as_pem(private=False), signing_input, "sha256")
    signature: Json = {"protected": protected.decode(), "signature": urlsafe_b64encode(forged).decode()}
    assert "alg 'HS256' is refused" in why_refused(CARD | {"signatures": [signature]}, key)


def test_a_shared_secret_is_never_taken_for_a_key() -> None:
    card = signed(CARD)
    assert "Cards are signed with" in why_refused(card, SECRET)
    with pytest.raises(LocalProtocolError, match="Cards are signed with"):
        sign_card(CARD, SECRET, key_id="k")


def test_an_algorithm_that_does_not_fit_the_key_is_refused() -> None:
    assert "alg 'ES256' does not fit the key, which is for RS256" in why_refused(signed(CARD, EC), RSA)


@pytest.mark.parametrize(
    "key",
    [
        WEAK_RSA,
        ECKey.generate_key("P-384"),
        ECKey.generate_key("secp256k1"),
        ECKey(BRAINPOOL_RAW, BRAINPOOL_RAW),
        OKPKey.generate_key("Ed448"),
        OKPKey.generate_key("X25519"),
    ],
)
def test_a_key_of_another_kind_neither_signs_nor_verifies(key: CardKey) -> None:
    reason = "Cards are signed with RSA keys of at least 2048 bits, P-256 or Ed25519 keys"
    with pytest.raises(LocalProtocolError, match=reason):
        sign_card(CARD, key, key_id="k")
    with pytest.raises(LocalProtocolError, match=reason):
        load_key(key)
    assert reason in why_refused(signed(CARD), key)


def test_a_public_key_does_not_sign() -> None:
    with pytest.raises(LocalProtocolError, match="The key cannot sign"):
        sign_card(CARD, load_key(EC.as_pem(private=False)), key_id="k")


@pytest.mark.parametrize("limit", [{"use": "enc"}, {"alg": "PS256"}, {"key_ops": ["encrypt"]}])
def test_a_key_meant_for_something_else_neither_signs_nor_verifies(limit: Json) -> None:
    key = load_key(RSA.as_dict(private=True) | limit)
    with pytest.raises(LocalProtocolError, match="The key cannot sign"):
        sign_card(CARD, key, key_id="k")
    assert "the key cannot verify" in why_refused(signed(CARD, RSA), key)


def test_the_open_header_overrides_nothing() -> None:
    card = signed(CARD)
    card["signatures"][0]["header"] = {"alg": "none", "kid": "evil", "crit": ["x"]}
    assert verify_card(card, finds(EC)).header == ProtectedHeader("ES256", "k1")


# --- documents that are no card ---


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "The card is not readable as JSON"),
        (b"[]", "The card is not a JSON object"),
        (b'{"name": "\xff"}', "The card is not readable as JSON"),
        (b'{"name": "a", "name": "b"}', "a member occurs twice"),
        (b'{"provider": {"url": "a", "url": "b"}}', "a member occurs twice"),
        pytest.param(b'{"a":' * 100_000, "The card is not readable as JSON", id="deep"),
        pytest.param(b"1" * 5000, "The card is not readable as JSON", id="long"),
        (b'{"name": "\\ud800", "signatures": [{}]}', "The card has no canonical form"),
        (b'{"skills": [{"id": "\\ud800"}], "signatures": [{}]}', "The card has no canonical form"),
    ],
)
def test_bytes_that_say_nothing_certain_are_refused(document: bytes, reason: str) -> None:
    assert reason in why_refused(document)


def test_nesting_without_end_is_refused() -> None:
    abyss: Json = {}
    abyss["x"] = abyss
    capabilities = {"extensions": [{"uri": "u", "params": abyss}]}
    assert why_refused(signed(CARD) | {"capabilities": capabilities}).startswith("The card has no canonical form")
    with pytest.raises(LocalProtocolError, match="The card has no canonical form"):
        sign_card({"capabilities": {"extensions": [{"params": abyss}]}}, EC, key_id="k")


# --- keys ---


@pytest.mark.parametrize("key", [RSA, EC, ED])
def test_keys_are_read_from_pem_and_jwk(key: CardKey) -> None:
    private = key.as_pem(private=True)
    for source in (key, private, private.decode(), key.as_dict(private=True)):
        assert verify_card(signed(CARD, load_key(source)), finds(key))
    assert load_key(key.as_dict(private=False)).is_private is False


DSA_PEM = dsa.generate_private_key(1024).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
ENCRYPTED_PEM = WEAK_RSA_RAW.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "no key",
        pytest.param(DSA_PEM, id="DSA"),
        pytest.param(ENCRYPTED_PEM, id="encrypted"),
        SECRET.as_dict(private=True),
        {},
        {"kty": ["RSA"]},
        {"kty": "EC"},
        {"kty": "EC", "crv": "P-1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"},
        {"kty": "OKP", "crv": "Ed25519", "x": "!"},
        {"kty": "RSA", "n": "AQ", "e": 1},
        {"kty": "RSA", "n": "", "e": ""},
    ],
)
def test_what_is_no_key_for_cards_is_not_read(source: Json | str | bytes) -> None:
    with pytest.raises(LocalProtocolError, match="The key cannot be read"):
        load_key(source)


def test_a_short_rsa_key_is_not_read_whether_warnings_are_errors_or_not() -> None:
    pem = WEAK_RSA.as_pem(private=True)
    with pytest.raises(LocalProtocolError, match="2048 bits"):
        load_key(pem)
    with pytest.warns(SecurityWarning), pytest.raises(LocalProtocolError, match="at least 2048 bits"):
        load_key(pem)


# --- properties ---

SIGNED = signed(CARD, ED)


def paths(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from paths(item, (*path, key))


def parent_of(card: Any, path: tuple[str | int, ...]) -> Any:
    for key in path[:-1]:
        card = card[key]
    return card


@pytest.mark.parametrize("path", list(paths(CARD)), ids=lambda path: ".".join(map(str, path)))
def test_changing_or_removing_anything_signed_breaks_the_signature(path: tuple[str | int, ...]) -> None:
    card = copy.deepcopy(SIGNED)
    parent_of(card, path)[path[-1]] = "tampered"
    assert "it is not a signature of this card" in why_refused(card, ED)
    card = copy.deepcopy(SIGNED)
    removed = parent_of(card, path).pop(path[-1])
    if removed in ("", [], {}) and (verified := verifies(card)):  # required and empty: the reader fills it in again
        assert verified.form is CardForm.SPEC_FILLED
        assert verified.payload == signing_payload(CARD)
    else:
        assert "it is not a signature of this card" in why_refused(card, ED)


def verifies(card: Json) -> VerifiedSignature | None:
    try:
        return verify_card(card, finds(ED))
    except SignatureInvalidError:
        return None


def shuffled(value: JsonValue, data: st.DataObject) -> JsonValue:
    if isinstance(value, dict):
        names = data.draw(st.permutations(list(value)))
        return {name: shuffled(value[name], data) for name in names}
    return value


@settings(deadline=None)
@given(st.data())
def test_the_order_of_members_does_not_matter(data: st.DataObject) -> None:
    card = shuffled(SIGNED, data)
    assert verify_card(json.dumps(card, indent=1).encode(), finds(ED)).form is CardForm.SPEC


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.data(), JSON)
def test_no_json_in_any_place_of_a_card_raises_anything_unforeseen(data: st.DataObject, nonsense: Any) -> None:
    card = copy.deepcopy(SIGNED)
    path = data.draw(st.sampled_from(list(paths(SIGNED))))
    parent_of(card, path)[path[-1]] = nonsense
    for act in (
        lambda: verify_card(card, finds(ED)),
        lambda: verify_card(json.dumps(card).encode(), finds(ED)),
        lambda: sign_card(card, ED, key_id="k"),
        lambda: signature_headers(card),
    ):
        try:
            act()
        except ParleyError:
            continue


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_raise_anything_unforeseen(document: bytes) -> None:
    with pytest.raises(SignatureInvalidError):
        verify_card(document, finds(ED))


@settings(deadline=None)
@given(
    st.sampled_from([RSA, EC, ED]),
    st.dictionaries(
        st.sampled_from(["kty", "crv", "x", "y", "d", "n", "e", "p", "q", "use", "key_ops", "alg", "kid"]),
        JSON | st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "AQAB"]),
        max_size=3,
    ),
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_no_jwk_raises_anything_unforeseen(key: CardKey, nonsense: Json) -> None:
    try:
        found = load_key(key.as_dict(private=False) | nonsense)
        verify_card(SIGNED, finds(found))
    except ParleyError:
        return


# --- what may be read from a card that was tampered with ---


def served(card: Json, **members: Any) -> bytes:
    return json.dumps(card | members).encode()


def signed_without_empties(card: Json) -> Json:
    signature = sign_card(card, EC, key_id="k1", form=CardForm.NO_EMPTIES)
    return card | {"signatures": [msgspec.to_builtins(signature)]}


OPEN_DOOR: Json = {
    "securitySchemes": {"oauth": CARD["securitySchemes"]["oauth"]},
    "securityRequirements": [{"schemes": {"oauth": {"list": ["read"]}}}],
}


@pytest.mark.parametrize(
    "tampering",
    [
        {"securityRequirements": [{}, *OPEN_DOOR["securityRequirements"]]},
        {
            "securitySchemes": {"m": {"mtlsSecurityScheme": {}}, **OPEN_DOOR["securitySchemes"]},
            "securityRequirements": [{"schemes": {"m": {}}}, *OPEN_DOOR["securityRequirements"]],
        },
        {"url": "https://evil.test/", "protocolVersion": "0.3.0"},
    ],
    ids=["an empty requirement", "an empty scheme and its requirement", "members of 0.3"],
)
def test_what_somebody_inserted_is_not_in_the_verified_payload(tampering: Json) -> None:
    card = signed_without_empties(changed(CARD, **OPEN_DOOR))

    verified = verify_card(served(card, **tampering), finds(EC))

    assert verified.payload == verify_card(served(card), finds(EC)).payload
    read = v1_0.DIALECT.decode_card(verified.payload)
    assert read.security == ({"oauth": ("read",)},)
    assert list(read.security_schemes) == ["oauth"]
    assert [interface.url for interface in read.interfaces] == ["https://x.test/rpc"]


def test_the_verified_payload_is_the_card_that_was_signed() -> None:
    verified = verify_card(signed(CARD), finds(EC))
    assert verified.payload == signing_payload(CARD)
    assert v1_0.DIALECT.decode_card(verified.payload) == v1_0.DIALECT.decode_card(served(CARD))


# --- cards whose server left out what its signer had written ---


def test_a_card_signed_with_its_empty_required_members_verifies_when_served_without_them() -> None:
    full = changed(CARD, capabilities={}, skills=[{"id": "s", "name": "", "description": "", "tags": []}])
    flow: Json = {"flows": {"clientCredentials": {"tokenUrl": "https://t"}}}
    lean = changed(full, skills=[{"id": "s"}], securitySchemes={"oauth": {"oauth2SecurityScheme": flow}})
    full["securitySchemes"] = {
        "oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t", "scopes": {}}}}}
    }
    for name in ("description", "defaultOutputModes", "capabilities"):
        del lean[name]

    verified = verify_card(lean | {"signatures": signed(full)["signatures"]}, finds(EC))

    assert verified.form is CardForm.SPEC_FILLED
    assert verified.payload == signing_payload(full)


def test_a_form_without_canonical_bytes_is_passed_over() -> None:
    card = signed(CARD) | {"motto": 2**60}
    assert verify_card(card, finds(EC)).form is CardForm.SPEC


def test_the_reasons_of_a_refusal_are_kept_short() -> None:
    card = CARD | {"signatures": [entry(b"", HEADER | {"kid": "k" * 1000}) for _ in range(5)]}
    assert len(why_refused(card, None)) == MAX_TEXT
