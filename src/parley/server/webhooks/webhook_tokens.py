"""Access tokens for webhooks: got with client credentials, cached, and fetched once for concurrent calls.

The token endpoint is the operator's, so it may have any address. What it answers is bounded in time and size. Callers
whose webhook is not called because of it learn only that: the log has the reason, for the operator.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from math import inf

from parley.client.credentials.oauth import AuthorizationServer, Endpoints
from parley.client.credentials.oauth_client import OAuthClient
from parley.client.credentials.token_cache import TokenCache
from parley.client.credentials.token_store import Tokens
from parley.client.errors import ClientError
from parley.client.guard import Guard
from parley.client.transports.connections import Connections
from parley.engine.webhooks.deliveries import DeliveryError
from parley.network.urls import without_secrets
from parley.server.webhooks.auth_settings import WebhookOAuthClient

logger = logging.getLogger(__name__)

FETCH_SECONDS = 10.0
"""For a token, with repeated attempts: an attempt to deliver waits for it."""

FAILURE_SECONDS = 5.0
"""How long a failure is remembered, so that many deliveries do not wait for a server that does not answer."""

DROP_SECONDS = 60.0
"""How long after a refused token the next one is used even where a webhook refuses it."""


class WebhookTokens:
    """The access tokens of a server, by the client that they are for."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._clock = clock
        self._cache = TokenCache(now)
        self._refused: dict[WebhookOAuthClient, str] = {}
        self._dropped_at: dict[WebhookOAuthClient, float] = {}
        self._failed_until: dict[WebhookOAuthClient, float] = {}
        self._connections: Connections | None = None

    async def get(self, client: WebhookOAuthClient) -> str:
        """A valid token.

        Raises:
            DeliveryError: there is none now.
        """
        if self._clock() < self._failed_until.get(client, 0.0):
            raise _no_token()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                tokens = await self._cache.get(
                    _key(client), lambda: self._fetch(client), refused=self._refused.get(client)
                )
        except (ClientError, TimeoutError) as error:
            self._failed_until[client] = self._clock() + FAILURE_SECONDS
            reason = str(error) or f"no answer within {FETCH_SECONDS:g} seconds"
            logger.warning("No access token for webhooks from %s: %s", without_secrets(client.token_url), reason)
            raise _no_token() from error
        return tokens.access_token

    def drop(self, client: WebhookOAuthClient, token: str) -> None:
        """Do not use a token again, because a webhook has refused it; the next call fetches another.

        Once in a while: the token is that of all owners, and a webhook that refuses each one must not cost them theirs.
        """
        now = self._clock()
        if now >= self._dropped_at.get(client, -inf) + DROP_SECONDS:
            self._dropped_at[client] = now
            self._refused[client] = token

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.close()

    async def _fetch(self, client: WebhookOAuthClient) -> Tokens:
        if self._connections is None:
            self._connections = Connections(guard=Guard(allow_private=True))
        who = OAuthClient(client.client_id, client.client_secret, resource=client.resource, audience=client.audience)
        server = AuthorizationServer(
            self._connections.channel, who, Endpoints(client.token_url), now=self._now, sleep=self._sleep
        )
        return await server.client_credentials(client.scopes)


def _key(client: WebhookOAuthClient) -> tuple[str, ...]:
    target = (client.audience or "", client.resource or "")
    return (client.token_url, client.client_id, *target, *client.scopes)


def _no_token() -> DeliveryError:
    return DeliveryError("The server could not get an access token for it")
