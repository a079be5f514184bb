"""A caller that reads a webhook and registers it again keeps its secrets, whatever the scheme."""

from __future__ import annotations

import pytest

from parley.client.client import Client
from parley.client.webhooks.standard_webhooks import new_secret
from parley.protocol import requests as r
from parley.protocol.errors import InvalidParamsError
from parley.protocol.masking import MASK
from parley.protocol.push import PushAuthentication, PushConfig
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.interface import Owner, TaskKey
from parley.stores.memory import MemoryStore
from tests.server.serving import echo_agent, serving

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:9/hook"


@pytest.mark.parametrize("scheme", ["HMAC", "Bearer", "ApiKey"])
async def test_a_webhook_that_was_read_can_be_registered_again(scheme: str) -> None:
    store, secret = MemoryStore(), new_secret()
    app = App(echo_agent(), store=store, webhooks=WebhookPolicy(allow_private=True), drain_seconds=0)
    async with app.running(), serving(app) as http, Client(str(http.base_url)) as client:
        task = (await client.send("ask")).task
        assert task is not None
        given = PushConfig(URL, id="one", authentication=PushAuthentication((scheme,), secret))
        created = await client.create_push_config(r.CreatePushConfigRequest(task.id, given))
        shown = await client.get_push_config(r.GetPushConfigRequest(task.id, "one"))
        assert shown == created
        assert await client.create_push_config(r.CreatePushConfigRequest(task.id, shown)) == created
        (kept,) = await store.outbox.configs(TaskKey(Owner("", ""), task.id))
    assert kept.authentication == PushAuthentication((scheme,), secret)


async def test_a_stored_secret_must_suit_the_scheme_that_a_caller_changes_to() -> None:
    store = MemoryStore()
    app = App(echo_agent(), store=store, webhooks=WebhookPolicy(allow_private=True), drain_seconds=0)
    async with app.running(), serving(app) as http, Client(str(http.base_url)) as client:
        task = (await client.send("ask")).task
        assert task is not None
        given = PushConfig(URL, id="one", authentication=PushAuthentication(("Bearer",), "credentials"))
        await client.create_push_config(r.CreatePushConfigRequest(task.id, given))
        changed = PushConfig(URL, id="one", authentication=PushAuthentication(("HMAC",), MASK))
        with pytest.raises(InvalidParamsError, match="credentials"):
            await client.create_push_config(r.CreatePushConfigRequest(task.id, changed))
        (kept,) = await store.outbox.configs(TaskKey(Owner("", ""), task.id))
    assert kept.authentication == PushAuthentication(("Bearer",), "credentials")
