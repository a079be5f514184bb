"""Cards of a server whose keys change, or are elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from parley.keys import GivenKeys, KeyFolder, KeyRing, LocalKey
from parley.keys.signing_key import generate_key
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.signing import load_key, signature_headers, verify_card
from parley.server.app import App
from parley.server.app_resources import CACHED_CARDS, Cache
from parley.server.reloading import reload_settings
from parley.server.security.auth_file import load_security, new_token
from parley.server.security.authentication import Security
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.reloading import ReloadableSecurity
from parley.server.security.schemes.scheme import Proof
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.conformance.serve import secured_agent
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"


async def test_a_cached_card_is_signed_again_after_a_rotation(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys")
    old = folder.create().key_id
    ticks = iter(range(0, 100_000, 10))
    ring = KeyRing(folder.path, monotonic=lambda: float(next(ticks)))
    async with running(App(echo_agent(), signer=ring)) as client:
        first = await client.get(CARD)
        assert signature_headers(first.content)[0].key_id == old
        assert (await client.get(CARD)).headers["etag"] == first.headers["etag"]
        known = {"if-none-match": first.headers["etag"]}
        assert (await client.get(CARD, headers=known)).status_code == 304

        new = folder.rotate(lead=timedelta()).key_id
        second = await client.get(CARD, headers=known)
        assert second.status_code == 200
        assert [header.key_id for header in signature_headers(second.content)] == [new, new]
        keys = {key["kid"]: load_key(key) for key in (await client.get(JWKS)).json()["keys"]}
        assert list(keys) == [new, old]
        for card in (first.content, second.content):
            verify_card(card, lambda header: keys.get(header.key_id))


async def test_a_card_is_modified_when_its_key_is_replaced() -> None:
    keys = GivenKeys(LocalKey(generate_key("ES256"), "a"))
    app = App(echo_agent(), signer=keys)
    async with running(app) as client:
        since = (await client.get(CARD)).headers["last-modified"]
        keys.replace(LocalKey(generate_key("EdDSA"), "b"))
        assert keys.current_since is not None
        document = app.table.site("echo").service.cards.document("http://x")  # type: ignore[union-attr]
        assert document.modified == keys.current_since.replace(microsecond=0)
        assert (await client.get(CARD)).headers["last-modified"] >= since


class RemoteKey:
    """A key as a KMS has it: it is known by its id, and signs."""

    key_id = "projects/x/keys/1"
    algorithm = "ES256"

    def __init__(self) -> None:
        self._hidden = LocalKey(generate_key("ES256"), self.key_id)

    @property
    def public_jwk(self) -> JsonObject:
        return self._hidden.public_jwk

    def sign(self, data: bytes) -> bytes:
        return self._hidden.sign(data)


async def test_a_key_needs_nothing_but_a_method_that_signs() -> None:
    keys = GivenKeys(RemoteKey())
    async with running(App(echo_agent(), signer=keys)) as client:
        (key,) = (await client.get(JWKS)).json()["keys"]
        card = (await client.get(CARD)).content
        assert verify_card(card, lambda _: load_key(key)).header.key_id == "projects/x/keys/1"
        assert keys.signatures == {"projects/x/keys/1": 2}


class SlowKey(RemoteKey):
    """A key in a KMS that does not answer until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.may_answer = threading.Event()

    def sign(self, data: bytes) -> bytes:
        self.asked.set()
        self.may_answer.wait(10)
        return super().sign(data)


async def test_a_key_that_signs_slowly_holds_up_only_those_who_ask_for_the_card() -> None:
    key = SlowKey()
    keys = GivenKeys(key)
    async with running(App(echo_agent(), signer=keys)) as client, asyncio.TaskGroup() as group:
        cards = [group.create_task(client.get(CARD)) for _ in range(3)]
        await asyncio.to_thread(key.asked.wait, 5)
        assert (await client.get(JWKS)).status_code == 200
        assert not any(card.done() for card in cards)
        key.may_answer.set()
        bodies = {(await card).content for card in cards}
    (body,) = bodies
    assert verify_card(body, lambda _: load_key(key.public_jwk))
    assert keys.signatures == {key.key_id: 2}, "it was signed once for all of them"


async def test_an_extended_card_is_signed_beside_the_event_loop_too() -> None:
    key = SlowKey()
    secured = Security({"token": BearerTokens([secret_of("alice", "a")])})
    app = App(secured_agent(), signer=GivenKeys(key), security=secured)
    async with running(app) as client, asyncio.TaskGroup() as group:
        headers = {"authorization": "Bearer a", "a2a-version": "1.0"}
        card = group.create_task(client.get("/extendedAgentCard", headers=headers))
        await asyncio.to_thread(key.asked.wait, 5)
        assert (await client.get(JWKS)).status_code == 200
        key.may_answer.set()
        reply = await card
    assert reply.status_code == 200
    assert verify_card(reply.content, lambda _: load_key(key.public_jwk))


async def test_a_card_that_cannot_be_signed_now_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 0.05)
    key = SlowKey()
    async with running(App(echo_agent(), signer=GivenKeys(key))) as client:
        try:
            assert (await client.get(CARD)).status_code == 503
        finally:
            key.may_answer.set()
        monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 5)
        assert (await client.get(CARD)).status_code == 200


async def test_a_card_that_is_not_to_be_signed_does_not_wait_for_the_key() -> None:
    """Any caller can name any host; see `App._may_sign_for`."""
    key = SlowKey()
    async with running(App(echo_agent(), signer=GivenKeys(key))) as client:
        card = await client.get(CARD, headers={"host": "foreign.example"})
        page = await client.get("/docs", headers={"host": "foreign.example"})
    assert (card.status_code, "signatures" in card.json(), page.status_code) == (200, False, 200)
    assert not key.asked.is_set()


async def test_a_page_that_is_kept_does_not_wait_for_the_key() -> None:
    """Its card may be forgotten: so many are kept, and callers choose the hosts in them."""
    key = SlowKey()
    key.may_answer.set()
    app = App(echo_agent(), signer=GivenKeys(key), public_url="https://agents.example")
    async with running(app) as client:
        assert (await client.get("/docs")).status_code == 200
        app.shared.cards = Cache(CACHED_CARDS)
        key.asked.clear()
        key.may_answer.clear()
        assert (await client.get("/openapi.json")).status_code == 200
    assert not key.asked.is_set()


def test_a_private_member_is_never_published() -> None:
    class Careless(RemoteKey):
        @property
        def public_jwk(self) -> JsonObject:
            return self._hidden.private_jwk()

    (published,) = json.loads(GivenKeys(Careless()).published())["keys"]
    assert set(published) == {"kty", "crv", "x", "y", "kid", "alg", "use"}


def test_a_signature_in_der_is_an_error_and_not_sent() -> None:
    class Der(RemoteKey):
        def sign(self, data: bytes) -> bytes:
            signature = super().sign(data)
            return encode_dss_signature(*(int.from_bytes(half) for half in (signature[:32], signature[32:])))

    keys = GivenKeys(Der())
    with pytest.raises(LocalProtocolError, match=r"projects/x/keys/1 returns signatures of \d\d bytes.*not DER"):
        keys.sign_token({"iss": "a"})
    assert keys.signatures == {"projects/x/keys/1": 0}


async def test_cards_and_pages_show_the_rules_of_a_reloaded_auth_file(tmp_path: Path) -> None:
    file = tmp_path / "auth.toml"

    def write(name: str) -> str:
        token, entry = new_token("ada")
        file.write_text(f'[schemes.{name}]\ntype = "bearer"\ntokens = [{entry}]\n')
        return token

    first = write("first")
    security = ReloadableSecurity(lambda: load_security(file))
    app = App(echo_agent(), security=security)
    async with running(app) as client:
        assert list((await client.get(CARD)).json()["securitySchemes"]) == ["first"]
        second = write("second")
        reload_settings(app, security=security)
        assert list((await client.get(CARD)).json()["securitySchemes"]) == ["second"]
        statuses = [
            (await client.get("/tasks", headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"})).status_code
            for token in (first, second)
        ]
        assert statuses == [401, 200]
        openapi = json.loads((await client.get("/openapi.json")).content)
        assert "second" in json.dumps(openapi)


async def test_a_request_that_is_being_authenticated_keeps_the_rules_that_it_began_with() -> None:
    """The first of two schemes takes as long as a remote issuer does; the rules are replaced meanwhile."""
    asked, go_on = anyio.Event(), anyio.Event()

    class Slow(BearerTokens):
        async def verify(self, credentials: PresentedCredentials) -> Proof | None:
            asked.set()
            await go_on.wait()
            return None

    token, other = "a-token-of-ada", "a-token-of-bob"
    before = Security({"slow": Slow([secret_of("eve", "x")]), "token": BearerTokens([secret_of("ada", token)])})
    after = Security({"other": BearerTokens([secret_of("bob", other)])})
    rules = iter((before, after))
    security = ReloadableSecurity(lambda: next(rules))
    names: list[str] = []

    async def call() -> None:
        names.append((await security.authenticate(presented(token))).name)

    with fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await asked.wait()
            security.reload()
            assert (await security.authenticate(presented(other))).name == "other:bob"
            go_on.set()
        await security.close()
    assert names == ["token:ada"]


def secret_of(name: str, token: str) -> StoredSecret:
    return StoredSecret(name=name, hash=hash_secret(token))


def presented(token: str) -> PresentedCredentials:
    return PresentedCredentials({"authorization": f"Bearer {token}"})
