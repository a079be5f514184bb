"""How calls to a webhook are authenticated: one strategy per scheme, which the webhook's config names.

A scheme checks a config when it is registered, and makes the headers of each attempt. Signatures cover the bytes that
are sent; they are made anew for every attempt, while the id of the delivery stays. Errors name the JSON path and repeat
no secret. `authentication` has the table of schemes, and `auth_settings` what the operator configures for hosts.
Spec: 0.2 "Streaming & Asynchronous Operations"; https://www.standardwebhooks.com.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from parley.engine.webhooks.deliveries import DeliveryError
from parley.network.addresses import is_loopback
from parley.network.urls import MAX_URL, parse_url
from parley.protocol.errors import InvalidParamsError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.masking import MASK
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.signing_threads import SigningError, SigningThreads
from parley.server.webhooks.auth_settings import WebhookAuthSettings
from parley.server.webhooks.header_values import MAX_SECRET, fits_header

if TYPE_CHECKING:
    from parley.server.webhooks.webhook_tokens import WebhookTokens

TOKEN_SECONDS = 300
"""How long a signed token is valid: enough for a call, and for clocks that differ by some minutes."""

MAX_AUDIENCE = MAX_URL
"""As long as a URL, which is the default. With the other claims, in base64, the token still fits into a header."""

SECRET_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
"""The lengths of a secret that Standard Webhooks recommends."""

_NO_OAUTH = "This server has no OAuth2 settings for the host of the webhook"
_AFTER_PATH = re.compile(r"[?#]")


@dataclass(frozen=True, slots=True)
class ConfigPath:
    """The JSON paths of a config in a request, and which of its schemes they are about."""

    root: str = "$"
    version: Version = Version.V1_0
    index: int = 0

    @property
    def url(self) -> str:
        """The path of its URL."""
        return f"{self.root}.url"

    @property
    def scheme(self) -> str:
        """The path of the name of its scheme, which is in a list before 1.0."""
        member = "scheme" if self.version is Version.V1_0 else f"schemes[{self.index}]"
        return f"{self.root}.authentication.{member}"

    @property
    def credentials(self) -> str:
        """The path of its credentials."""
        return f"{self.root}.authentication.credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookCall:
    """One attempt to deliver a notification."""

    config: PushConfig
    agent: str
    task_id: str
    delivery_id: str
    body: bytes
    at: float
    """Seconds since 1970."""

    @property
    def credentials(self) -> str:
        """The credentials of the config; empty if it has none."""
        return credentials_of(self.config) or ""


def credentials_of(config: PushConfig) -> str | None:
    """The credentials of a config."""
    return config.authentication.credentials if config.authentication else None


class TokenSigner(Protocol):
    """Signs tokens with the current key of the server. It is called in several threads."""

    def sign_token(self, claims: Mapping[str, JsonValue]) -> str:
        """The claims as a JWT in its compact form, with the id of the key in its header."""
        ...


class WebhookScheme(Protocol):
    """One kind of authentication to webhooks. A config comes with the one name of a scheme that chose it."""

    def can_follow(self, config: PushConfig) -> bool:
        """Whether the server and the config have what it takes. Its credentials may still be invalid."""
        ...

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check that a webhook can be called in this way. Raises InvalidParamsError."""
        ...

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """The headers of an attempt. Raises DeliveryError if they cannot be made now."""
        ...


class AuthorizationHeader:
    """Any scheme of HTTP, such as Bearer and Basic: its name and the credentials."""

    def can_follow(self, config: PushConfig) -> bool:
        """Whether there are credentials."""
        return bool(credentials_of(config))

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check that both fit into a header."""
        authentication, authorization = config.authentication, _authorization(config)
        if authentication is None or authorization is None or fits_header(authorization):
            return
        if not fits_header(authentication.schemes[0]):
            text = f"The name of a scheme must be printable ASCII, up to {MAX_SECRET} characters"
            raise InvalidParamsError(text, path=path.scheme)
        text = f"Credentials must be printable ASCII, up to {MAX_SECRET} characters with the name of their scheme"
        raise InvalidParamsError(text, path=path.credentials)

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """The header `Authorization`, if there are credentials."""
        authorization = _authorization(call.config)
        return {"Authorization": authorization} if authorization else {}


def _authorization(config: PushConfig) -> str | None:
    authentication = config.authentication
    if authentication is None or not authentication.schemes or not authentication.credentials:
        return None
    return f"{authentication.schemes[0]} {authentication.credentials}"


class ApiKeyHeader:
    """An API key, in the header that most receivers read it from."""

    def can_follow(self, config: PushConfig) -> bool:
        """Whether there is a key."""
        return bool(credentials_of(config))

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check that the key fits into a header."""
        key = credentials_of(config)
        if key and not fits_header(key):
            text = f"An API key must be printable ASCII, up to {MAX_SECRET} characters"
            raise InvalidParamsError(text, path=path.credentials)

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """The header `X-API-Key`, if there is a key."""
        return {"X-API-Key": call.credentials} if call.credentials else {}


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A JWT signed by the server. `issuer_of` gives the URL of an agent, or None if the server does not know it."""

    signer: TokenSigner | None
    issuer_of: Callable[[str], str | None]
    threads: SigningThreads

    @property
    def is_available(self) -> bool:
        """Whether the server has a key, and a URL at which receivers find the public one."""
        return self.signer is not None and self.issuer_of("") is not None

    def can_follow(self, config: PushConfig) -> bool:
        """Whether the server can sign."""
        return self.is_available

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check the audience, and that there is a key to sign with."""
        if self.signer is None:
            raise InvalidParamsError("This server has no key to sign tokens for webhooks with", path=path.scheme)
        if not self.is_available:
            raise InvalidParamsError("This server does not know its URL, which signed tokens name", path=path.scheme)
        audience = credentials_of(config)
        if audience and not (fits_header(audience) and len(msgspec.json.encode(audience)) - 2 <= MAX_AUDIENCE):
            text = f"The audience of a JWT must be printable ASCII, up to {MAX_AUDIENCE} characters, escaped as JSON"
            raise InvalidParamsError(text, path=path.credentials)

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """A token for this attempt; `jti` is the id of the delivery. Raises DeliveryError if none is signed."""
        if self.signer is None:  # only in 0.1, see `WebhookAuthenticator.check`
            return {}
        issued_at = int(call.at)
        claims: dict[str, JsonValue] = {
            "iss": self.issuer_of(call.agent),
            "aud": call.credentials or _AFTER_PATH.split(call.config.url, maxsplit=1)[0],
            "iat": issued_at,
            "exp": issued_at + TOKEN_SECONDS,
            "jti": call.delivery_id,
            "taskId": call.task_id,
            "request_body_sha256": hashlib.sha256(call.body).hexdigest(),
        }
        try:
            token = await self.threads.run(partial(self.signer.sign_token, claims))
        except SigningError as error:
            raise DeliveryError("The server could not sign a token for it") from error
        return {"Authorization": f"Bearer {token}"}


class HmacSignature:
    """A signature with a secret that only the receiver and the server know, as Standard Webhooks describes."""

    def can_follow(self, config: PushConfig) -> bool:
        """Whether there is a secret. An invalid one is not given to another scheme, which may send it in plain."""
        return bool(credentials_of(config))

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check the secret. A mask keeps the stored one of this scheme, which was checked when it came."""
        secret = credentials_of(config) or ""
        if secret != MASK and _secret_bytes(secret) is None:
            least, most = SECRET_BYTES[0], SECRET_BYTES[-1]
            text = f"The secret of HMAC must be {SECRET_PREFIX} and the base64 of {least} to {most} random bytes"
            raise InvalidParamsError(text, path=path.credentials)

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """The id, the time of the attempt, and the signature over both and the body."""
        secret = _secret_bytes(call.credentials)
        if secret is None:  # another scheme of the config was followed when the attempt was checked
            raise DeliveryError("Its scheme is HMAC, and its config has no valid secret")
        timestamp = str(int(call.at))
        signed = b".".join((call.delivery_id.encode(), timestamp.encode(), call.body))
        signature = b64encode(hmac.digest(secret, signed, "sha256")).decode()
        return {
            "webhook-id": call.delivery_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{signature}",
        }


def _secret_bytes(text: str) -> bytes | None:
    """The bytes of a secret, or None if it is invalid."""
    prefix, separator, encoded = text.partition("_")
    if f"{prefix}{separator}" != SECRET_PREFIX:
        return None
    try:
        secret = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):  # the latter for characters beyond ASCII
        return None
    return secret if len(secret) in SECRET_BYTES else None


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """An access token, got with the client credentials that the operator has configured for the host."""

    settings: WebhookAuthSettings
    tokens: WebhookTokens | None
    """None if the operator has configured no host."""

    def can_follow(self, config: PushConfig) -> bool:
        """Whether the operator has configured the host, for a config without credentials."""
        return _passes(self, config)

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check that the operator has configured the host, and that the token is encrypted on its way."""
        _check_no_credentials(config, path, "OAuth2")
        url = parse_url(config.url)
        if self.settings.oauth_client(url) is None:
            raise InvalidParamsError(_NO_OAUTH, path=path.scheme)
        if url.scheme == "http" and not is_loopback(url.host):
            raise InvalidParamsError("A webhook with OAuth2 must have an https URL", path=path.url)

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """The cached token, or a new one."""
        client = self.settings.oauth_client(parse_url(call.config.url))
        if client is None or self.tokens is None:  # the settings were replaced since the attempt was checked
            raise DeliveryError(_NO_OAUTH)
        return {"Authorization": f"Bearer {await self.tokens.get(client)}"}

    def drop(self, call: WebhookCall, headers: Mapping[str, str]) -> None:
        """Do not use the token of an attempt again, because the webhook has refused it."""
        client, used = self.settings.oauth_client(parse_url(call.config.url)), headers.get("Authorization")
        if client is None or self.tokens is None or used is None:  # the settings may have been replaced since
            return
        self.tokens.drop(client, used.removeprefix("Bearer "))


@dataclass(frozen=True, slots=True)
class PresentedCertificate:
    """The client certificate that the operator has configured for the host; the sender presents it."""

    settings: WebhookAuthSettings

    def can_follow(self, config: PushConfig) -> bool:
        """Whether the operator has configured the host, for a config without credentials."""
        return _passes(self, config)

    def check(self, config: PushConfig, path: ConfigPath) -> None:
        """Check that the operator has configured the host, and that it is called over TLS."""
        _check_no_credentials(config, path, "mTLS")
        url = parse_url(config.url)
        if url.scheme != "https":
            raise InvalidParamsError("A webhook with mTLS must have an https URL", path=path.url)
        if self.settings.client_certificate(url) is None:
            text = "This server has no client certificate for the host of the webhook"
            raise InvalidParamsError(text, path=path.scheme)

    async def headers(self, call: WebhookCall) -> dict[str, str]:
        """None: the connection authenticates."""
        return {}


def _passes(scheme: WebhookScheme, config: PushConfig) -> bool:
    try:
        scheme.check(config, ConfigPath())
    except InvalidParamsError:
        return False
    return True


def _check_no_credentials(config: PushConfig, path: ConfigPath, name: str) -> None:
    # Not ignored: a caller that sends a secret expects that it is used.
    if credentials_of(config):
        text = f"{name} takes no credentials from callers: the operator of the server configures them"
        raise InvalidParamsError(text, path=path.credentials)
