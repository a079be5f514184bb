"""How long access tokens for webhooks are used that webhooks refuse."""

from __future__ import annotations

import pytest

from parley.engine.webhooks.deliveries import DeliveryError
from tests.server.authorization_server import authorization_server
from tests.server.test_webhook_auth import Clock, answer, asking, notification, oauth_sender, oauth_settings
from tests.server.webhook_receiver import webhook

pytestmark = pytest.mark.anyio


async def test_a_webhook_that_refuses_every_token_costs_one_now_and_then() -> None:
    """Each of them is that of all owners: they would wait for the next, or get none from a strict server."""
    clock = Clock()
    fetched: list[int] = []
    async with (
        authorization_server() as server,
        webhook(lambda _: answer(401)) as receiver,
        oauth_sender(oauth_settings(server, receiver), clock=clock) as sender,
    ):
        told = notification(receiver.url(), authentication=asking("OAuth2"))
        for seconds in (0, 1, 1, 1, 60, 1):
            clock.now += seconds
            with pytest.raises(DeliveryError, match="status 401"):
                await sender.send(told)
            fetched.append(len(server.forms))
    assert fetched == [1, 2, 2, 2, 2, 3]
