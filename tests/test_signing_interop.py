"""Signed cards between us and a2a-sdk 1.3.0: what one side signs the other verifies, and what was changed neither does.

All questions go to the SDK in one process (see `peers/sign_cards.py`). A card here is its 1.0 JSON object, as both
sides put it on the wire.
"""

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey
from msgspec import structs

from parley.dialects import v1_0
from parley.dialects.cards import encode_superset_card
from parley.protocol import cards as c
from parley.protocol.errors import SignatureInvalidError
from parley.protocol.signing import CardForm, CardKey, VerifiedSignature, load_key, sign_card, verify_card
from tests import samples
from tests.peer_environments import ask

PEER = "a2a-sdk-1.3.0"
KEYS: dict[str, CardKey] = {
    "ES256": ECKey.generate_key("P-256"),
    "RS256": RSAKey.generate_key(2048),
    "EdDSA": OKPKey.generate_key("Ed25519"),
}
Json = dict[str, Any]


# --- cards ------------------------------------------------------------------------------------------------------------

FULL = structs.replace(samples.CARD, signatures=())
"""A card with every member there is, some of them empty: scopes that nobody needs."""

LEAN = structs.replace(
    FULL,
    security=({"login": ("plan",)},),
    security_schemes={
        "login": FULL.security_schemes["login"],
        "device": c.OAuth2Scheme(
            c.OAuthFlows(
                device_code=c.OAuthFlow(
                    {"plan": "Plan meals"},
                    token_url="https://login.example/token",
                    device_authorization_url="https://login.example/device",
                )
            )
        ),
    },
)
"""The same without empty members: the form of the specification and that of the SDK are one."""


def wire(card: c.AgentCard) -> Json:
    return json.loads(v1_0.DIALECT.encode_card(card))


def superset(card: c.AgentCard) -> Json:
    return json.loads(encode_superset_card(card))


def signed(card: Json, algorithm: str = "ES256", *forms: CardForm) -> Json:
    """The card with our signature in the form of the specification, or one in each of these."""
    key = KEYS[algorithm]
    signatures = [sign_card(card, key, key_id="k1", form=form) for form in forms or (CardForm.SPEC,)]
    return {**card, "signatures": msgspec.to_builtins(signatures)}


def tampered(card: Json) -> Json:
    changed = copy.deepcopy(card)
    changed["skills"][0]["description"] += " And breakfast."
    return changed


def pem(algorithm: str, *, private: bool) -> str:
    return KEYS[algorithm].as_pem(private=private).decode()


def question(verb: str, card: Json, algorithm: str = "ES256") -> Json:
    key = pem(algorithm, private=verb == "sign")
    return {"do": verb, "card": card, "key": key, "alg": algorithm, "kid": "k1"}


QUESTIONS: dict[str, Json] = {
    **{f"sign {name}": question("sign", wire(LEAN), name) for name in KEYS},
    **{f"verify {name}": question("verify", signed(wire(LEAN), name), name) for name in KEYS},
    "sign full": question("sign", wire(FULL)),
    "verify full": question("verify", signed(wire(FULL))),
    "verify full twice": question("verify", signed(wire(FULL), "ES256", CardForm.SPEC, CardForm.NO_EMPTIES)),
    "verify tampered": question("verify", tampered(signed(wire(LEAN)))),
    "verify superset": question("verify", signed(superset(LEAN))),
    "verify full superset": question("verify", signed(superset(FULL), "ES256", CardForm.SPEC, CardForm.NO_EMPTIES)),
    "verify tampered superset": question("verify", tampered(signed(superset(LEAN)))),
    "sign superset": question("sign", superset(LEAN)),
}


@pytest.fixture(scope="module")
def peer() -> Callable[[str], Json]:
    """The SDK's answer to one of the questions."""
    answers = dict(zip(QUESTIONS, ask(PEER, "sign_cards.py", list(QUESTIONS.values())), strict=True))
    return answers.__getitem__


def verify(card: Json, algorithm: str = "ES256", **options: Any) -> VerifiedSignature:
    """As a client verifies: from bytes, with the public key."""
    key = load_key(pem(algorithm, private=False))
    return verify_card(json.dumps(card).encode(), lambda header: key if header.key_id == "k1" else None, **options)


def is_refused(card: Json) -> bool:
    with pytest.raises(SignatureInvalidError):
        verify(card)
    return True


# --- in the one direction and the other -------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_sdk_verifies_what_we_sign(algorithm: str, peer: Callable[[str], Json]):
    answer = peer(f"verify {algorithm}")
    assert answer["ok"], answer["error"]
    assert not wire(LEAN)["description"].isascii()


@pytest.mark.parametrize("algorithm", KEYS)
def test_we_verify_what_the_sdk_signs(algorithm: str, peer: Callable[[str], Json]):
    answer = peer(f"sign {algorithm}")
    assert answer["ok"], answer["error"]
    verified = verify(answer["card"], algorithm)
    assert (verified.index, verified.header.algorithm, verified.form) == (0, algorithm, CardForm.SPEC)


def test_a_card_changed_after_signing_is_refused_by_both(peer: Callable[[str], Json]):
    assert is_refused(tampered(signed(wire(LEAN))))
    assert is_refused(tampered(peer("sign ES256")["card"]))
    assert "signature" in peer("verify tampered")["error"].lower()


# --- empty members, which the SDK leaves out of what it signs ---------------------------------------------------------


def test_a_card_with_empty_members_needs_a_second_signature_for_the_sdk(peer: Callable[[str], Json]):
    assert "signature" in peer("verify full")["error"].lower()
    assert peer("verify full twice")["ok"], peer("verify full twice")["error"]


def test_we_verify_a_card_that_the_sdk_signed_without_its_empty_members(peer: Callable[[str], Json]):
    card = peer("sign full")["card"]
    assert verify(card).form is CardForm.NO_EMPTIES
    with pytest.raises(SignatureInvalidError):
        verify(card, forms=[CardForm.SPEC])


# --- cards for readers of 0.3 and 1.0 at once -------------------------------------------------------------------------


def test_the_sdk_verifies_a_superset_card_that_we_signed(peer: Callable[[str], Json]):
    """Though its client reads security schemes in their 0.3 form, which must therefore say all that was signed."""
    for name in ("verify superset", "verify full superset"):
        assert peer(name)["ok"], peer(name)["error"]
    assert verify(signed(superset(LEAN))).form is CardForm.SPEC


def test_a_signature_of_the_1_0_members_holds_for_the_superset(peer: Callable[[str], Json]):
    """Whoever signs, signs the same thing: the members of 1.0, whatever else is in the document."""
    signatures = signed(wire(LEAN))["signatures"]
    assert verify({**superset(LEAN), "signatures": signatures}).form is CardForm.SPEC
    assert verify({**superset(LEAN), "signatures": peer("sign superset")["card"]["signatures"]}).index == 0


def test_a_superset_card_changed_after_signing_is_refused_by_both(peer: Callable[[str], Json]):
    assert is_refused(tampered(signed(superset(LEAN))))
    assert "signature" in peer("verify tampered superset")["error"].lower()
