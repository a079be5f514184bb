"""Notifications between Parley and others: those of SDKs reach our receiver, and ours reach other receivers.

What others get is sent by a server of ours with a key, which challenges every webhook first.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley.client.client import Client
from parley.client.reply import Reply
from parley.client.webhooks.offers import webhook_offer
from parley.client.webhooks.receiver import WebhookReceiver
from parley.client.webhooks.standard_webhooks import new_secret
from parley.keys import GivenKeys, LocalKey
from parley.keys.signing_key import generate_key
from parley.protocol.cards import Binding
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.listener.listener import Listener
from parley.server.webhooks.guard import WebhookPolicy
from tests.client.test_webhooks import Inbox
from tests.deadlines import fail_after
from tests.interop.sample_receivers import (
    JwtSampleReceiver,
    SampleReceiver,
    StandardWebhooksReceiver,
    StrictJwtReceiver,
)
from tests.proxy.test_old_sdk import old_process
from tests.server.serving import echo_agent, serving

pytestmark = pytest.mark.anyio


class Relay:
    """Listens before the receiver is made, whose URL has the port."""

    receiver: Any

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.receiver(scope, receive, send)


# --- from SDKs to our receiver ----------------------------------------------------------------------------------------

SDKS = [
    ("a2a-sdk-1.3.0", "server_sdk_1_3_0.py", Version.V1_0),
    ("a2a-sdk-1.3.0", "server_sdk_1_3_0.py", Version.V0_3),
    ("a2a-sdk-0.3.26", "server_sdk_pydantic.py", Version.V0_3),
]


@pytest.mark.parametrize(("sdk", "script", "version"), SDKS)
async def test_what_a_server_of_an_sdk_pushes_reaches_our_receiver(sdk: str, script: str, version: Version) -> None:
    inbox = Inbox()
    with fail_after(60), old_process(script, "push", sdk=sdk) as url:
        relay = Relay()
        async with serving(relay, seconds=60) as http:
            receiver = relay.receiver = WebhookReceiver(f"{http.base_url}/hook", inbox)
            async with Client(url, bindings=[Binding.JSONRPC], versions=[version]) as client:
                reply = await client.send("echo hello", notify=receiver)
                await inbox.has_ended.wait()
                other = await client.send("echo hello", push=PushConfig(f"{http.base_url}/hook", token="guess"))
    assert reply.task is not None
    assert {notification.task_id for notification in inbox.got} == {reply.task.id}
    assert reply.text == "hello"
    assert other.task is not None
    last: Any = inbox.got[-1].event
    if sdk == "a2a-sdk-0.3.26":  # the newer one sends what 1.0 has, whatever the dialect of the task
        assert (last.id, Reply(client, last).text) == (reply.task.id, "hello")
    assert last.status.state is TaskState.COMPLETED


# --- from us to others ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def signing_server(**options: Any) -> AsyncGenerator[str]:
    """The URL of a server of ours with a key, which signs its card and its calls to webhooks."""
    door = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{door.getsockname()[1]}"
    policy = WebhookPolicy(allow_private=True, challenge="always")
    keys = GivenKeys(LocalKey(generate_key("ES256"), "one"))
    app = App(echo_agent(), webhooks=policy, signer=keys, public_url=url, drain_seconds=0, **options)
    listener = Listener(app)
    with fail_after(20):
        async with app.running():
            await listener.start([door])
            try:
                yield url
            finally:
                await listener.close(grace=0.1)


def card_url(url: str, version: Version) -> str:
    return f"{url}/.well-known/agent-card.json?A2A-Version={version.value}"


VERSIONS = [Version.V0_1, Version.V0_2, Version.V0_3, Version.V1_0]
TEXT = 'Grüße, "1.50 €" \u2028 \n'


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["the sample of 0.2 and 0.3", "the text of 0.2", "Standard Webhooks"])
async def test_receivers_that_are_not_ours_understand_what_our_server_signs(kind: str, version: Version) -> None:
    secret, relay = new_secret(), Relay()
    async with signing_server() as url, serving(relay) as http:
        jwks, hook = f"{url}/.well-known/jwks.json", f"{http.base_url}/hook"
        theirs: SampleReceiver = {
            "the sample of 0.2 and 0.3": lambda: JwtSampleReceiver(jwks),
            "the text of 0.2": lambda: StrictJwtReceiver(jwks, issuer=url, audience=hook),
            "Standard Webhooks": lambda: StandardWebhooksReceiver(secret),
        }[kind]()
        relay.receiver = theirs.app
        signs = {
            "the sample of 0.2 and 0.3": PushAuthentication(("JWT",)),
            "the text of 0.2": PushAuthentication(("Bearer",)),
            "Standard Webhooks": PushAuthentication(("HMAC",), secret),
        }[kind]
        async with Client(card_url(url, version), bindings=[Binding.JSONRPC], versions=[version]) as client:
            reply = await client.send(TEXT, push=PushConfig(hook, authentication=signs))
            await theirs.has_got.wait()
        headers, body = theirs.requests[0]
        assert (theirs.refused, len(theirs.challenges)) == ([], 1)
        assert reply.task is not None
        changed = body.replace(reply.task.id.encode(), b"x" * len(reply.task.id))
        assert (await http.post("/hook", headers=headers, content=changed)).status_code == 401
    assert reply.task.id in str(theirs.got[0])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scheme", ["JWT", "HMAC"])
async def test_our_receiver_understands_what_our_server_signs(scheme: str, version: Version) -> None:
    inbox, relay = Inbox(), Relay()
    async with signing_server() as url, serving(relay) as http:
        hook = f"{http.base_url}/hook"
        receiver = relay.receiver = {
            "JWT": lambda: WebhookReceiver.jwt(hook, inbox, issuer=url),
            "HMAC": lambda: WebhookReceiver.hmac(hook, inbox),
        }[scheme]()
        async with Client(card_url(url, version), bindings=[Binding.JSONRPC], versions=[version]) as client:
            reply = await client.send(TEXT, push=receiver.config)  # a card of 0.1 cannot offer it
            await inbox.has_ended.wait()
    assert reply.task is not None
    assert {notification.task_id for notification in inbox.got} == {reply.task.id}
    numbers = [notification.number or 0 for notification in inbox.got]
    assert numbers == sorted(set(numbers))


WAYS = [(Version.V0_2, Binding.JSONRPC), (Version.V0_3, Binding.HTTP_JSON), (Version.V1_0, Binding.JSONRPC)]


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_both_ends_of_ours_agree_on_the_strongest_proof(version: Version, binding: Binding) -> None:
    """A signed token where the server has a key."""
    inbox, relay = Inbox(), Relay()
    async with signing_server() as url, serving(relay) as http:
        receiver = relay.receiver = WebhookReceiver(f"{http.base_url}/hook", inbox)
        async with Client(card_url(url, version), bindings=[binding], versions=[version]) as client:
            reply = await client.send("count 3", notify=receiver)
            config = client.webhook_config(receiver)
            await inbox.has_ended.wait()
            offer = webhook_offer(client.card)
    assert (offer.jwks, offer.issuer) == (f"{url}/.well-known/jwks.json", url)
    assert config.authentication == PushAuthentication(("JWT",))
    assert reply.task is not None
    assert {notification.task_id for notification in inbox.got} == {reply.task.id}
    assert all(notification.number for notification in inbox.got)


async def test_both_ends_of_ours_agree_on_hmac_if_the_server_has_no_key() -> None:
    inbox, relay = Inbox(), Relay()
    app = App(echo_agent(), webhooks=WebhookPolicy(allow_private=True), drain_seconds=0)
    async with app.running(), serving(app) as agent, serving(relay) as http:
        receiver = relay.receiver = WebhookReceiver(f"{http.base_url}/hook", inbox)
        async with Client(str(agent.base_url)) as client:
            await client.send("hello", notify=receiver)
            config = client.webhook_config(receiver)
            await inbox.has_ended.wait()
    assert config.authentication is not None
    assert config.authentication.schemes == ("HMAC",)
