"""Authentication to webhooks: finds the scheme that a webhook's config names in the table of schemes.

Names of schemes compare case-insensitively; those that are not in the table are schemes of HTTP, whose name and
credentials make the header `Authorization`. The card declares what a server offers with an extension.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

from parley.engine.webhooks.notifications import Notification
from parley.network.urls import parse_url
from parley.protocol.cards import AgentExtension
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.webhooks.auth_settings import WebhookAuthSettings, WebhookCertificate
from parley.server.webhooks.schemes import (
    ApiKeyHeader,
    AuthorizationHeader,
    ConfigPath,
    HmacSignature,
    OAuthToken,
    PresentedCertificate,
    SignedToken,
    TokenSigner,
    WebhookCall,
    WebhookScheme,
    credentials_of,
)
from parley.server.webhooks.signing_threads import SigningThreads
from parley.server.webhooks.webhook_tokens import WebhookTokens


class WebhookAuthenticator:
    """Authenticates calls to webhooks. The operator's settings can be replaced while the server runs.

    `signer` signs tokens; without it there are none. `issuer_of` gives the URL of an agent, which the tokens name as
    their issuer, or None if the server does not know its own URL.
    """

    def __init__(
        self,
        settings: WebhookAuthSettings | None = None,
        *,
        signer: TokenSigner | None = None,
        issuer_of: Callable[[str], str | None] = lambda agent: None,
        tokens: WebhookTokens | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Raises ValueError if all notifications must be signed, and there is no key."""
        self._now = now
        self._tokens = tokens or WebhookTokens()
        self._issuer_of = issuer_of
        self._threads = SigningThreads()
        self._signed = SignedToken(signer, issuer_of, self._threads)
        self._plain = AuthorizationHeader()
        self.use(settings or WebhookAuthSettings())

    def use(self, settings: WebhookAuthSettings) -> None:
        """Use these settings from now on, in place of those before. Raises as the constructor does."""
        if settings.sign == "always" and self._signed.signer is None:
            raise ValueError(
                'Webhooks shall always be signed (sign = "always"), but the server has no key to sign with'
            )
        self._settings = settings
        self._oauth = OAuthToken(settings, self._tokens)
        self._schemes: dict[str, WebhookScheme] = {
            "apikey": ApiKeyHeader(),
            "jwt": self._signed,
            "hmac": HmacSignature(),
            "oauth2": self._oauth,
            "mtls": PresentedCertificate(settings),
        }

    @property
    def offered(self) -> tuple[str, ...]:
        """The schemes that callers may name."""
        offered = ["Bearer", "Basic", "ApiKey", "HMAC"]
        if self._signed.is_available:
            offered.append("JWT")
        if self._settings.oauth2:
            offered.append("OAuth2")
        if self._settings.mtls:
            offered.append("mTLS")
        return tuple(offered)

    def extension(self, agent: str, keys_url: str) -> AgentExtension:
        """What the card of an agent says. `keys_url` is where its caller finds the public keys of the server."""
        params: JsonObject = {"schemes": list(self.offered)}
        issuer = self._issuer_of(agent) if self._signed.is_available else None
        if issuer is not None:
            params |= {"jwks": keys_url, "issuer": issuer}
        return AgentExtension(
            WEBHOOK_AUTH,
            description="How calls to webhooks can be authenticated, by the scheme in their config.",
            params=params,
        )

    def check(self, config: PushConfig, *, path: str = "$", version: Version = Version.V1_0) -> None:
        """Check that calls to a webhook can be authenticated as its config asks. Raises InvalidParamsError."""
        scheme = self._scheme(config)
        # The document of 0.1 registers `"schemes": ["jwt"]` at any server; one without a key calls it without a token.
        is_as_documented = version is Version.V0_1 and scheme is self._signed and not credentials_of(config)
        if is_as_documented and not self._signed.is_available:
            return
        scheme.check(config, ConfigPath(path, version))

    def call(self, notification: Notification, body: bytes) -> WebhookCall:
        """An attempt to deliver a notification, now."""
        return WebhookCall(
            config=notification.config,
            agent=notification.agent,
            task_id=notification.key.task_id,
            delivery_id=delivery_id_of(notification),
            body=body,
            at=self._now(),
        )

    async def headers(self, call: WebhookCall) -> Mapping[str, str]:
        """The headers that authenticate an attempt. Raises DeliveryError if they cannot be made now."""
        return await self._scheme(call.config).headers(call)

    def certificate(self, config: PushConfig) -> WebhookCertificate | None:
        """The client certificate to present to a webhook."""
        is_asked = isinstance(self._scheme(config), PresentedCertificate)
        return self._settings.client_certificate(parse_url(config.url)) if is_asked else None

    def refused(self, call: WebhookCall, headers: Mapping[str, str]) -> None:
        """Note that a webhook answered with status 401."""
        if self._scheme(call.config) is self._oauth:
            self._oauth.drop(call, headers)

    async def close(self) -> None:
        """Close the connections to authorization servers, and the threads; a later call opens new ones."""
        self._threads.close()
        await self._tokens.close()

    def _scheme(self, config: PushConfig) -> WebhookScheme:
        authentication = config.authentication
        name = authentication.schemes[0].lower() if authentication and authentication.schemes else ""
        scheme = self._schemes.get(name, self._plain)
        is_unsigned = scheme is self._plain and not (name and credentials_of(config))
        return self._signed if is_unsigned and self._settings.sign == "always" else scheme


def delivery_id_of(notification: Notification) -> str:
    """The id of a delivery: the same for every attempt, so that receivers can drop duplicates.

    A webhook that was registered again in another version gets an event in another form. That is another delivery, with
    another id: receivers refuse an id that comes again with another body.
    """
    task, version = quote(notification.key.task_id, safe=""), notification.version
    return f"{task}:{notification.seq}" if version is Version.V1_0 else f"{task}:{version}:{notification.seq}"
