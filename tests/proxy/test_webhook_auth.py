"""Who authenticates to a webhook behind a proxy: the proxy if it calls the webhook, otherwise the agent."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import httpx2
import jwt
import pytest

from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.push import PushAuthentication, PushConfig
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from tests.conformance.matrix import JSONRPC, V1_0
from tests.conformance.serve import conformance_agent
from tests.deadlines import fail_after
from tests.proxy.proxies import Place, caller, card_at, on_ports, proxy_of, relay_of
from tests.server.webhook_receiver import KeySigner, webhook

pytestmark = pytest.mark.anyio

ISSUER = "https://agents.example.com"
SECRET = bytes(range(32))


def signing_app(signer: KeySigner) -> App:
    policy = WebhookPolicy(allow_private=True, challenge="always")
    return App(conformance_agent("Open"), webhooks=policy, signer=signer, public_url=ISSUER)


async def declared_at(place: Place) -> Any:
    async with httpx2.AsyncClient(base_url=place["url"]) as http:
        card = (await http.get("/.well-known/agent-card.json")).json()
    (found,) = [one for one in card["capabilities"]["extensions"] if one["uri"] == WEBHOOK_AUTH]
    return found["params"]


def card_of(agent: Place) -> AgentCard:
    """What the agent's card says, with the URL at which it can be reached here."""
    site = signing_app(KeySigner()).table.site("open")
    assert site is not None
    extensions = site.service.cards.card(ISSUER).capabilities.extensions
    return card_at(agent, V1_0, JSONRPC, extensions=extensions)


async def send_to(place: Place, url: str, scheme: str, credentials: str | None = None) -> None:
    config = PushConfig(url, authentication=PushAuthentication((scheme,), credentials))
    async with caller(place, V1_0, JSONRPC) as peer:
        await peer.call(ops.SEND_MESSAGE, peer.request(peer.message("hello"), push_config=config))


async def test_a_proxy_that_calls_webhooks_authenticates_with_what_it_has() -> None:
    """The agent challenges the proxy's own webhook as well, and the proxy answers."""
    policy = WebhookPolicy(allow_private=True, challenge="always")
    with fail_after(20):
        async with (
            on_ports(signing_app(KeySigner())) as agent,
            webhook() as receiver,
            relay_of(card_of(agent), webhooks=policy) as proxy,
        ):
            assert await declared_at(proxy) == {"schemes": ["Bearer", "Basic", "ApiKey", "HMAC"]}
            with pytest.raises(InvalidParamsError, match="no key to sign"):
                await send_to(proxy, receiver.url(), "JWT")
            await send_to(proxy, receiver.url(), "HMAC", f"whsec_{base64.b64encode(SECRET).decode()}")
            request = await receiver.notified("/hook")
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    digest = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{digest}"


async def test_a_proxy_that_forwards_webhooks_leaves_their_schemes_to_the_agent() -> None:
    signer = KeySigner()
    with fail_after(20):
        async with (
            on_ports(signing_app(signer)) as agent,
            webhook() as receiver,
            proxy_of(card_of(agent)) as proxy,
        ):
            assert await declared_at(proxy) == await declared_at(agent)
            await send_to(proxy, receiver.url(), "JWT")
            request = await receiver.notified("/hook")
    (key,) = jwt.PyJWKSet.from_dict(signer.key_set).keys
    token = request.headers["authorization"].removeprefix("Bearer ")
    jwt.decode(token, key, algorithms=["ES256"], audience=receiver.url(), issuer=ISSUER)
