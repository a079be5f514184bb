"""Key sets: how long they are kept, and when they are fetched again."""

from __future__ import annotations

import json

import pytest
from joserfc.jwk import ECKey, KeySet

from parley.client.discovery import signatures
from parley.client.discovery.signatures import KeySets, SignaturePolicy, verify
from parley.client.errors import DiscoveryError
from parley.dialects.registry import DIALECTS
from parley.protocol.cards import AgentCard, AgentInterface
from parley.protocol.errors import SignatureInvalidError
from parley.protocol.signing import sign_card
from parley.protocol.versions import Version

pytestmark = pytest.mark.anyio

URL = "https://keys.example/set"


class Owner:
    """Who signs cards and publishes keys, and notes how often they are fetched."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fetched: list[str] = []
        self.is_away = False
        self.keys: dict[str, ECKey] = {}
        self.policy = SignaturePolicy("required", jwks_hosts=("keys.example",), key_sets=KeySets(lambda: self.now))

    def add(self, key_id: str) -> None:
        self.keys[key_id] = ECKey.generate_key("P-256", {"kid": key_id})

    def card(self, *key_ids: str, url: str = URL) -> bytes:
        card = AgentCard("Signed", "", "1", (AgentInterface("https://agents.example", "JSONRPC", "1.0"),))
        document = json.loads(DIALECTS[Version.V1_0].encode_card(card))
        made = [sign_card(document, self.keys.get(name, OTHER), key_id=name, jku=url) for name in key_ids]
        document["signatures"] = [{"protected": one.protected, "signature": one.signature} for one in made]
        return json.dumps(document).encode()

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        if self.is_away:
            raise DiscoveryError("away")
        return json.dumps(KeySet(list(self.keys.values())).as_dict(private=False)).encode()

    async def verifies(self, card: bytes) -> bool:
        try:
            await verify(card, self.policy, self.fetch)
        except SignatureInvalidError:
            return False
        return True


OTHER = ECKey.generate_key("P-256", {"kid": "other"})


@pytest.fixture
def owner() -> Owner:
    owner = Owner()
    owner.add("first")
    return owner


async def test_a_key_set_is_fetched_once_for_many_cards_and_again_after_a_while(owner: Owner) -> None:
    for _ in range(3):
        assert await owner.verifies(owner.card("first"))
    assert owner.fetched == [URL]
    owner.now += signatures.KEPT_SECONDS
    del owner.keys["first"]  # withdrawn
    assert (await owner.verifies(owner.card("first")), len(owner.fetched)) == (False, 2)


async def test_a_new_key_is_found_and_one_that_is_none_has_nothing_fetched_again_and_again(owner: Owner) -> None:
    assert await owner.verifies(owner.card("first"))
    owner.add("second")
    owner.now += signatures.MISSING_KEY_SECONDS
    assert (await owner.verifies(owner.card("second")), len(owner.fetched)) == (True, 2)
    for number in range(5):
        assert not await owner.verifies(owner.card(f"invented {number}"))
    assert len(owner.fetched) == 2


async def test_of_several_signatures_one_that_verifies_is_enough(owner: Owner) -> None:
    assert await owner.verifies(owner.card("unknown", "first", "unknown too"))
    assert owner.fetched == [URL]
    owner.now += signatures.MISSING_KEY_SECONDS
    owner.is_away = True  # also if looking for another one fails
    assert await owner.verifies(owner.card("first", "unknown"))


async def test_a_set_that_cannot_be_fetched_is_asked_for_once_a_card(owner: Owner) -> None:
    owner.is_away = True
    assert not await owner.verifies(owner.card("first", "second", "third"))
    assert owner.fetched == [URL]
    owner.is_away = False
    assert await owner.verifies(owner.card("first"))


async def test_cards_cannot_have_more_kept_than_allowed(owner: Owner) -> None:
    for number in range(signatures.MAX_KEPT + 5):
        assert await owner.verifies(owner.card("first", url=f"{URL}/{number}"))
    assert len(owner.policy.key_sets._kept) == signatures.MAX_KEPT
