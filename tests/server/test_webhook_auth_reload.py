"""SIGHUP while webhooks are called: the operator's settings are replaced, or stay if the file is not valid."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from parley.dialects.registry import DIALECTS
from parley.engine.webhooks.deliveries import DeliveryError
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.push import PushAuthentication
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.reloading import reload_settings
from parley.server.telemetry.audit import AuditTrail
from parley.server.webhooks.auth_file import load_webhook_auth, parse_webhook_auth
from parley.server.webhooks.auth_settings import WebhookAuthSettings
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.guard import WebhookPolicy
from parley.server.webhooks.sender import WebhookSender
from tests.server.authorization_server import CLIENT, authorization_server
from tests.server.serving import echo_agent, running
from tests.server.webhook_receiver import ANYWHERE, KeySigner, Request, accept, notification, webhook

pytestmark = pytest.mark.anyio

OAUTH2 = PushAuthentication(("OAuth2",))
CLIENT_OF_HOOKS = """
[[oauth2]]
hosts = ["hooks.example"]
token_url = "https://login.example/token"
client_id = "parley"
client_secret = "s3cret"
"""


def oauth_at(port: int, token_url: str) -> WebhookAuthSettings:
    table = f'hosts = ["127.0.0.1:{port}"]\ntoken_url = "{token_url}"\nclient_id = "{CLIENT[0]}"'
    return parse_webhook_auth(f'[[oauth2]]\n{table}\nclient_secret = "{CLIENT[1]}"')


async def offered(http: Any) -> Any:
    reply = await http.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})
    extensions = DIALECTS[Version.V1_0].decode_card(reply.content).capabilities.extensions
    (found,) = [each for each in extensions if each.uri == WEBHOOK_AUTH]
    return found.params["schemes"]


async def test_the_card_follows_the_file_and_an_invalid_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file, trail = tmp_path / "hooks.toml", tmp_path / "audit.jsonl"
    file.write_text("")
    app = App(echo_agent(), webhook_auth=load_webhook_auth(file))
    plain = ["Bearer", "Basic", "ApiKey", "HMAC"]
    audit = AuditTrail(trail)
    audit.open()
    async with running(app) as http:
        seen = [await offered(http)]
        for text in (CLIENT_OF_HOOKS, "oauth2 = 1", 'sign = "always"', ""):
            file.write_text(text)
            reload_settings(app, load_webhook_auth=lambda: load_webhook_auth(file), audit=audit)
            seen.append(await offered(http))
    audit.close()
    assert seen == [plain, [*plain, "OAuth2"], [*plain, "OAuth2"], [*plain, "OAuth2"], plain]
    refusals = [line for line in caplog.messages if "were not reloaded; the old ones stay in force: " in line]
    assert [("hooks.toml: oauth2" in line, "no key to sign with" in line) for line in refusals] == [
        (True, False),
        (False, True),
    ]
    assert trail.read_text().count('"what":"webhook-auth-reloaded"') == 2


async def test_without_a_file_nothing_is_reloaded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    app = App(echo_agent())
    async with running(app) as http:
        before = await offered(http)
        reload_settings(app)
        assert await offered(http) == before
    assert not [line for line in caplog.messages if "webhooks were" in line]


async def test_the_next_call_uses_the_new_settings() -> None:
    async with authorization_server() as issuer, webhook() as receiver:
        authenticator = WebhookAuthenticator(signer=KeySigner(), issuer_of=lambda agent: "https://agents.example")
        async with WebhookSender(ANYWHERE, authentication=authenticator) as sender:
            await sender.send(notification(receiver.url()))
            authenticator.use(WebhookAuthSettings(sign="always"))
            await sender.send(notification(receiver.url()))
            authenticator.use(oauth_at(receiver.port, f"{issuer.url}/token"))
            await sender.send(notification(receiver.url()))
            await sender.send(notification(receiver.url(), authentication=OAUTH2))
    assert ["authorization" in request.headers for request in receiver.requests] == [False, True, False, True]


async def test_a_setting_that_is_taken_away_during_an_attempt_is_worth_another_try() -> None:
    """The webhook is challenged after the attempt was checked; the settings are replaced meanwhile."""

    def take_away(request: Request) -> bytes | None:
        if request.method == "GET":
            authenticator.use(WebhookAuthSettings())
        return accept(request)

    policy = WebhookPolicy(allow_private=True, challenge="always")
    async with webhook(take_away) as receiver:
        authenticator = WebhookAuthenticator(oauth_at(receiver.port, "http://127.0.0.1:9/token"))
        async with WebhookSender(policy, authentication=authenticator) as sender:
            with pytest.raises(DeliveryError, match="no OAuth2 settings") as failure:
                await sender.send(notification(receiver.url(), authentication=OAUTH2))
    assert (type(failure.value), receiver.notifications) == (DeliveryError, [])
