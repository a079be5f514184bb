"""Signatures of extended cards: the policy of the client applies to them over every binding."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from parley.agents.agent import Agent
from parley.agents.turn import Turn
from parley.client.calls import Attempt
from parley.client.client import Client
from parley.client.discovery.signatures import SignaturePolicy
from parley.keys import GivenKeys, LocalKey
from parley.keys.signing_key import generate_key
from parley.protocol.cards import Binding
from parley.protocol.errors import SignatureInvalidError
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.deadlines import fail_after
from tests.proxy.proxies import on_ports

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-ada"
BINDINGS = (Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC)


def agent_with_a_vault() -> Agent:
    agent = Agent("Talker", description="Talks.")

    @agent.on_message
    async def talk(turn: Turn) -> str:
        return turn.text

    @agent.skill(public=False, tags=["x"], scopes=["vault"])
    async def vault(turn: Turn) -> str:
        """Opens the vault."""
        return "gold"

    return agent


async def prove(attempt: Attempt) -> Attempt:
    headers = {**attempt.options.headers, "authorization": f"Bearer {TOKEN}"}
    return replace(attempt, options=replace(attempt.options, headers=headers))


@asynccontextmanager
async def client_of(keys: GivenKeys | None, binding: Binding, policy: SignaturePolicy) -> AsyncGenerator[Client]:
    secret = StoredSecret(name="ada", hash=hash_secret(TOKEN))
    app = App(agent_with_a_vault(), security=Security({"token": BearerTokens([secret])}), signer=keys)
    with fail_after(20):
        async with (
            on_ports(app) as place,
            Client(place["url"], bindings=[binding], interceptors=[prove], signatures=policy) as client,
        ):
            yield client


def skills_of(client: Client) -> list[str]:
    return [skill.id for skill in client.card.skills]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("is_pinned", [True, False])
async def test_a_signed_extended_card_is_verified_and_used(binding: Binding, is_pinned: bool) -> None:
    key = LocalKey(generate_key("ES256"), "k")
    keys = GivenKeys(key)
    pinned = SignaturePolicy("required", keys={"k": key.public_jwk})
    policy = pinned if is_pinned else SignaturePolicy("required", jwks_hosts=("127.0.0.1",))
    async with client_of(keys, binding, policy) as client:
        assert skills_of(client) == ["talker"]
        card = await client.get_extended_card()
        assert [skill.id for skill in card.skills] == ["vault"] == skills_of(client)
        assert len(card.signatures) == 1, "the one that was verified"


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("mode", ["required", "if signed"])
async def test_an_extended_card_that_another_key_has_signed_is_refused(binding: Binding, mode: str) -> None:
    key, forged = (LocalKey(generate_key("ES256"), "k") for _ in range(2))
    keys = GivenKeys(key)
    policy = SignaturePolicy("required" if mode == "required" else "if signed", keys={"k": key.public_jwk})
    async with client_of(keys, binding, policy) as client:
        keys.replace(forged)
        with pytest.raises(SignatureInvalidError, match="it is not a signature of this card by this key"):
            await client.get_extended_card()
        assert skills_of(client) == ["talker"]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_unsigned_extended_card_is_refused_where_signatures_are_required(binding: Binding) -> None:
    key = LocalKey(generate_key("ES256"), "k")
    policy = SignaturePolicy("required", keys={"k": key.public_jwk})
    async with (
        client_of(GivenKeys(key), binding, policy) as signed,
        client_of(None, binding, SignaturePolicy()) as bare,
    ):
        signed.calls.interfaces = bare.calls.interfaces  # another server answers in its place
        with pytest.raises(SignatureInvalidError, match="The card has no signatures"):
            await signed.get_extended_card()
        assert skills_of(signed) == ["talker"]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_unsigned_extended_card_is_used_where_they_are_not(binding: Binding) -> None:
    async with client_of(None, binding, SignaturePolicy()) as client:
        await client.get_extended_card()
        assert skills_of(client) == ["vault"]
