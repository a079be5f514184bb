"""A host signs its calls to webhooks as the agent that was called, and its cards say so."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

from parley.protocol.extensions import WEBHOOK_AUTH
from parley.server.webhooks.guard import WebhookPolicy
from tests.host.api_calls import constitution
from tests.host.running_host import running_host
from tests.server.webhook_receiver import KeySigner, webhook

pytestmark = pytest.mark.anyio


async def test_a_token_names_the_url_of_the_hosted_agent_and_the_card_the_same() -> None:
    signer = KeySigner()
    options: Any = {"webhooks": WebhookPolicy(allow_private=True, challenge="private"), "signer": signer}
    async with webhook() as receiver, running_host(options=options) as running:
        acme = running.acme
        await running.admin.patch(f"/v1/admin/tenants/{acme.id}", json={"settings": {"push_notifications": True}})
        await acme.client.post("/v1/agents", json=constitution("helper"))
        target = {"url": receiver.url(), "authentication": {"scheme": "JWT"}}
        begun = await acme.client.post("/v1/requests", json={"message": "hi", "agent": "helper", "webhook": target})
        assert begun.status_code == 202
        request = await receiver.notified("/hook")
        (key,) = jwt.PyJWKSet.from_dict(signer.key_set).keys
        issuer = f"{running.url}/v1/a2a/agents/helper"
        token = request.headers["authorization"].removeprefix("Bearer ")
        jwt.decode(token, key, algorithms=["ES256"], audience=receiver.url(), issuer=issuer)
        card = (await acme.client.get("/v1/a2a/agents/helper/agent-card.json")).json()
        (declared,) = [one for one in card["capabilities"]["extensions"] if one["uri"] == WEBHOOK_AUTH]
        assert (declared["params"]["issuer"], declared["params"]["jwks"]) == (
            issuer,
            f"{running.url}/.well-known/jwks.json",
        )
        # A tenant that takes no webhooks has none to authenticate to.
        await running.globex.client.post("/v1/agents", json=constitution("helper"))
        card = (await running.globex.client.get("/v1/a2a/agents/helper/agent-card.json")).json()
        assert WEBHOOK_AUTH not in [one["uri"] for one in card["capabilities"]["extensions"]]


async def test_the_native_api_refuses_what_the_host_cannot_do() -> None:
    async with running_host() as running:
        acme = running.acme
        await running.admin.patch(f"/v1/admin/tenants/{acme.id}", json={"settings": {"push_notifications": True}})
        target = {"url": "https://hooks.example.com/x", "authentication": {"scheme": "HMAC", "credentials": "s3cret"}}
        refused = await acme.client.post("/v1/requests", json={"message": "hi", "webhook": target})
        assert (refused.status_code, "s3cret" in refused.text) == (400, False)
        assert refused.json()["error"].startswith("$.webhook.authentication.credentials: The secret of HMAC must be")
