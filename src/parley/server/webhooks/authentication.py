"""Authentication to webhooks: finds the scheme that a webhook's config names in the table of schemes.

Of several names, the first counts that the server can follow; if it can follow none, the first. Names compare
case-insensitively; those that are not in the table are schemes of HTTP, whose name and credentials make the header
`Authorization`. Bearer without credentials asks for a token that the server gets or signs (0.2, "Streaming &
Asynchronous Operations", the asymmetric key flow). The card declares what a server offers with an extension.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from msgspec import structs

from parley.engine.webhooks.notifications import Notification
from parley.network.urls import parse_url
from parley.protocol.cards import AgentExtension
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.signing_threads import SigningThreads
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

if TYPE_CHECKING:
    from parley.server.webhooks.webhook_tokens import WebhookTokens

MAX_NAMES = 16
"""How many names of schemes are considered, for each attempt: more than there are schemes in the table."""

_WITH_CREDENTIALS = {"basic": "Basic", "apikey": "ApiKey"}
"""Schemes that are nothing without credentials of the caller, and how their names are written. That of HMAC checks its
secret itself."""


class _Choice(NamedTuple):
    """A scheme of a config, the config with its name alone, and the position of the name in the list."""

    scheme: WebhookScheme
    config: PushConfig
    position: int = 0


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
        self._tokens = tokens
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
        if settings.oauth2 and self._tokens is None:
            # Not above: few servers get tokens for webhooks, and the others need no OAuth client.
            from parley.server.webhooks.webhook_tokens import WebhookTokens

            self._tokens = WebhookTokens()
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

    def check_registration(self, config: PushConfig, *, path: str = "$", version: Version = Version.V1_0) -> None:
        """Check a config that is registered: as `check` does, and that there are credentials if its scheme needs some.

        Raises:
            InvalidParamsError: calls to the webhook cannot be authenticated as its config asks.
        """
        choice = self._choose(config)
        name = _WITH_CREDENTIALS.get(_name_of(choice.config))
        if name is not None and not credentials_of(config):
            text = f"{name} needs credentials: the server has none of its own for the webhook"
            raise InvalidParamsError(text, path=ConfigPath(path, version, choice.position).credentials)
        self.check(config, path=path, version=version)

    def check(self, config: PushConfig, *, path: str = "$", version: Version = Version.V1_0) -> None:
        """Check that calls to a webhook can be authenticated as its config asks. Raises InvalidParamsError."""
        scheme, chosen, position = self._choose(config)
        # The document of 0.1 registers `"schemes": ["jwt"]` at any server; one without a key calls it without a token.
        is_as_documented = version is Version.V0_1 and scheme is self._signed and not credentials_of(config)
        if is_as_documented and not self._signed.is_available:
            return
        scheme.check(chosen, ConfigPath(path, version, position))

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
        scheme, chosen, _ = self._choose(call.config)
        return await scheme.headers(replace(call, config=chosen))

    def certificate(self, config: PushConfig) -> WebhookCertificate | None:
        """The client certificate to present to a webhook."""
        is_asked = isinstance(self._choose(config).scheme, PresentedCertificate)
        return self._settings.client_certificate(parse_url(config.url)) if is_asked else None

    def refused(self, call: WebhookCall, headers: Mapping[str, str]) -> None:
        """Note that a webhook answered with status 401."""
        if self._choose(call.config).scheme is self._oauth:
            self._oauth.drop(call, headers)

    async def close(self) -> None:
        """Close the connections to authorization servers, and the threads; a later call opens new ones."""
        self._threads.close()
        if self._tokens is not None:
            await self._tokens.close()

    def _choose(self, config: PushConfig) -> _Choice:
        authentication = config.authentication
        if authentication is None or not authentication.schemes:
            return _Choice(self._signed if self._settings.sign == "always" else self._plain, config)
        choices = (self._choice(config, position) for position in range(len(authentication.schemes[:MAX_NAMES])))
        first = next((choice for choice in choices if choice.scheme.can_follow(choice.config)), None)
        return first or self._choice(config, 0)

    def _choice(self, config: PushConfig, position: int) -> _Choice:
        """The scheme of one name of the list."""
        assert config.authentication is not None, "it names schemes"
        named = structs.replace(config.authentication, schemes=(config.authentication.schemes[position],))
        config = structs.replace(config, authentication=named)
        name = _name_of(config)
        scheme = self._schemes.get(name, self._plain)
        if scheme is self._plain and not credentials_of(config):
            if name == "bearer" and self._oauth.can_follow(config):
                scheme = self._oauth
            elif self._settings.sign == "always" or (name == "bearer" and self._signed.is_available):
                scheme = self._signed
        return _Choice(scheme, config, position)


def _name_of(config: PushConfig) -> str:
    authentication = config.authentication
    return authentication.schemes[0].lower() if authentication and authentication.schemes else ""


def delivery_id_of(notification: Notification) -> str:
    """The id of a delivery: the same for every attempt, so that receivers can drop duplicates.

    A webhook that was registered again in another version gets an event in another form. That is another delivery, with
    another id: receivers refuse an id that comes again with another body.
    """
    task, version = quote(notification.key.task_id, safe=""), notification.version
    return f"{task}:{notification.seq}" if version is Version.V1_0 else f"{task}:{version}:{notification.seq}"
