"""Calling webhooks over HTTP: one POST per notification, in the dialect in which the webhook was registered.

Redirects are not followed, cookies are not kept, and only the status of a reply is used. Every connection is checked by
the guard. Secrets (the token, the credentials, the path and query of the URL) are never in an error. Spec: 1.0 section
4.3.3, 0.3 section 9.5.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeAlias
from urllib.parse import quote

from parley import __version__
from parley.dialects.registry import DIALECTS
from parley.engine.webhooks.deliveries import DeliveryError, DeliveryRefusedError, NoAnswerError
from parley.engine.webhooks.notifications import Notification
from parley.network.errors import NetworkError, ReadTimeoutError
from parley.network.http import HttpRequest
from parley.network.pinned import NameResolver, PinnedNetwork, Resolve, machine_tls
from parley.network.pool import ConnectionPool
from parley.network.proxies import Proxies
from parley.network.urls import parse_url
from parley.protocol.errors import InvalidParamsError, LocalProtocolError, PeerProtocolError
from parley.protocol.versions import Version
from parley.server.webhooks.guard import (
    PUBLIC_ONLY,
    WebhookForbiddenError,
    WebhookPolicy,
    WebhookRules,
    authorization_of,
    check_webhook,
)
from parley.server.webhooks.lookups import LOOKUPS, SharedLookups, looking_up_for

ExtraHeaders: TypeAlias = Callable[[Notification], Mapping[str, str]]
"""Returns further headers of a call, such as its trace context."""

TIMEOUT = 15.0
"""Seconds for a whole call, from the DNS lookup to the end of the reply; 10 to 30 are recommended."""

READ_BYTES = 4_096
"""How much of a reply is read, so that the connection can be reused. After a longer reply it is closed."""

CONNECT_TIMEOUT = 5.0
"""Seconds for one address of a host; then the next is tried."""

_FINAL_STATUSES = frozenset({400, 405, 410, 411, 413, 414, 415, 422, 431, 501})
"""Statuses for which a retry is useless. All others are retried: even 401, 403 and 404 may be temporary while a
receiver is being deployed."""


class WebhookSender:
    """Calls webhooks that a policy allows. Use it as `async with WebhookSender(policy) as sender: …`."""

    def __init__(
        self,
        policy: WebhookPolicy = PUBLIC_ONLY,
        *,
        timeout: float = TIMEOUT,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        extra_headers: ExtraHeaders | None = None,
    ) -> None:
        """`tls` is the context for https; by default it trusts the certificate authorities of the machine."""
        self._policy = policy
        self._timeout = timeout
        self._tls = tls
        self._resolve = resolve
        self._extra_headers = extra_headers
        self._names: NameResolver | None = None
        self._pool: ConnectionPool | None = None

    def _open(self) -> ConnectionPool:
        """The connection pool, created with the first call: reading the certificates of the machine takes a while."""
        if self._pool is None:
            self._names = NameResolver(threads=LOOKUPS)
            proxies = Proxies.of_environment() if self._policy.use_proxy else None
            self._pool = ConnectionPool(
                PinnedNetwork(WebhookRules(self._policy), SharedLookups(self._resolve or self._names), proxies),
                self._tls or machine_tls(),
                connect_seconds=CONNECT_TIMEOUT,
            )
        return self._pool

    async def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        pool, self._pool = self._pool, None
        names, self._names = self._names, None
        if pool is not None:
            await pool.close()
        if names is not None:
            names.close()

    async def __aenter__(self) -> Self:
        """Connections are opened when needed."""
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Close idle connections."""
        await self.close()

    async def send(self, notification: Notification) -> None:
        """Call a webhook; return when it has answered with a 2xx status.

        Raises:
            DeliveryError: it did not; a retry may succeed.
            NoAnswerError: the same, because its host has no address, does not accept connections or does not answer.
            DeliveryRefusedError: a retry is useless, or the webhook may not be called.
        """
        try:
            # Checked again, because the policy may have changed since the webhook was registered.
            check_webhook(notification.config, self._policy)
            body = DIALECTS[notification.version].pushes.encode(notification.event)
            request = HttpRequest("POST", parse_url(notification.config.url), self._headers(notification), body)
        except (InvalidParamsError, LocalProtocolError, PeerProtocolError) as error:
            raise DeliveryRefusedError(error.message) from None
        try:
            with looking_up_for(notification.key.owner):
                status, retry_after = await self._post(request)
        except (WebhookForbiddenError, LocalProtocolError) as error:
            raise DeliveryRefusedError(error.message) from None
        except ReadTimeoutError:
            raise NoAnswerError(f"It did not answer within {self._timeout:g} seconds") from None
        except NetworkError as error:
            raise NoAnswerError(f"It could not be called: {error}") from None
        _check_status(status, retry_after)

    async def _post(self, request: HttpRequest) -> tuple[int, str]:
        """The status of the answer, and its Retry-After."""
        pool = self._open()
        deadline = asyncio.get_running_loop().time() + self._timeout
        response = await pool.send(request, deadline)
        try:
            size = 0
            while size <= READ_BYTES and (chunk := await response.read(deadline)):
                size += len(chunk)
            return response.status, response.headers.get("retry-after", "")
        finally:
            await response.close()

    def _headers(self, notification: Notification) -> dict[str, str]:
        config = notification.config
        is_1_0 = notification.version is Version.V1_0
        headers = {
            "Content-Type": "application/a2a+json" if is_1_0 else "application/json",
            "User-Agent": f"parley/{__version__}",
            "Accept-Encoding": "identity",
            # The same for every attempt and unique per event, so that receivers can drop duplicates.
            "Parley-Event-Id": f"{quote(notification.key.task_id, safe='')}:{notification.seq}",
        }
        if self._extra_headers is not None:
            headers.update(self._extra_headers(notification))
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        authorization = authorization_of(config)
        if authorization:
            headers["Authorization"] = authorization
        return headers


def _check_status(status: int, retry_after: str) -> None:
    if 200 <= status < 300:
        return
    if status in _FINAL_STATUSES or 300 <= status < 400:
        raise DeliveryRefusedError(f"It answered with status {status}")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10 else 0.0
    raise DeliveryError(f"It answered with status {status}", retry_after=seconds)
