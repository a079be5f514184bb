"""Calling webhooks over HTTP: one POST per notification, in the dialect in which the webhook was registered.

Redirects are not followed, cookies are not kept, and only the status of a reply is used. Every connection is checked by
the guard. `authentication` makes the headers that the webhook's config asks for, and `challenge` has a webhook prove
that it wants notifications. Secrets (the token, the credentials, the path and query of the URL) are never in an error.
Spec: 1.0 section 4.3.3, 0.3 section 9.5.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

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
from parley.server.webhooks.auth_settings import WebhookCertificate
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.challenge import ChallengeAnswer, OwnershipChallenge, PublicWithoutProof
from parley.server.webhooks.guard import (
    PUBLIC_ONLY,
    WebhookForbiddenError,
    WebhookPolicy,
    WebhookRules,
    check_url_and_token,
)
from parley.server.webhooks.lookups import LOOKUPS, SharedLookups, looking_up_for
from parley.server.webhooks.schemes import WebhookCall

logger = logging.getLogger(__name__)

ExtraHeaders: TypeAlias = Callable[[Notification], Mapping[str, str]]
"""Returns further headers of a call, such as its trace context."""

TIMEOUT = 15.0
"""Seconds for a whole call, from the DNS lookup to the end of the reply; 10 to 30 are recommended."""

READ_BYTES = 4_096
"""How much of a reply is read, so that the connection can be reused. After a longer reply it is closed."""

CONNECT_TIMEOUT = 5.0
"""Seconds for one address of a host; then the next is tried."""

_PROXY = re.compile(r"the proxy \S+")
"""How errors of connections name a proxy."""

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
        authentication: WebhookAuthenticator | None = None,
    ) -> None:
        """`tls` is the context for https; by default it trusts the certificate authorities of the machine."""
        self._policy = policy
        self._authentication = authentication or WebhookAuthenticator()
        self._challenge = OwnershipChallenge(policy)
        self._timeout = timeout
        self._tls = tls
        self._resolve = resolve
        self._extra_headers = extra_headers
        self._names: NameResolver | None = None
        self._networks: tuple[PinnedNetwork, PinnedNetwork] | None = None
        self._pools: dict[tuple[PinnedNetwork, WebhookCertificate | None], tuple[object, ConnectionPool]] = {}

    def _open_networks(self) -> tuple[PinnedNetwork, PinnedNetwork]:
        """The network with all that the policy allows, and the one for calls without a challenge."""
        if self._networks is None:
            self._names = NameResolver(threads=LOOKUPS)
            proxies = Proxies.of_environment() if self._policy.use_proxy else None
            lookups = SharedLookups(self._resolve or self._names)
            self._networks = (
                PinnedNetwork(WebhookRules(self._policy), lookups, proxies),
                PinnedNetwork(PublicWithoutProof(), lookups, proxies),
            )
        return self._networks

    def _pool(self, network: PinnedNetwork, certificate: WebhookCertificate | None) -> ConnectionPool:
        """The connections that present a client certificate, or none. No other webhook may use one that presented it.

        They are created with the first call, because reading the certificates of the machine takes a while, and again
        when the files of the client certificate have changed.

        Raises:
            DeliveryError: the certificate cannot be read.
        """
        stamp, pool = self._pools.get((network, certificate), (None, None))
        try:
            current = None if certificate is None else certificate.stamp()
            if pool is None or stamp != current:
                tls = certificate.files.context() if certificate is not None else self._tls or machine_tls()
                pool = ConnectionPool(network, tls, connect_seconds=CONNECT_TIMEOUT)
                self._pools[network, certificate] = (current, pool)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            logger.warning("The client certificate for webhooks cannot be read: %s", error)
            raise DeliveryError("The server cannot read its client certificate for it") from error
        return pool

    async def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        pools, self._pools = self._pools, {}
        names, self._names, self._networks = self._names, None, None
        for _, pool in pools.values():
            await pool.close()
        if names is not None:
            names.close()
        await self._authentication.close()

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
        config, owner = notification.config, notification.key.owner
        try:
            # Checked again, because the policy may have changed since the webhook was registered.
            check_url_and_token(config, self._policy)
            body = DIALECTS[notification.version].pushes.encode(notification.event)
            url = parse_url(config.url)
        except (InvalidParamsError, LocalProtocolError, PeerProtocolError) as error:
            raise DeliveryRefusedError(error.message) from None
        try:
            self._authentication.check(config, version=notification.version)
        except InvalidParamsError as error:  # the operator has changed a setting, and may change it back
            raise DeliveryError(error.message) from None
        network, public_network = self._open_networks()
        certificate = self._authentication.certificate(config)
        pool = self._pool(network, certificate)
        with looking_up_for(owner), self._translated_errors():
            if not await self._challenge.check(owner, url, network, partial(self._exchange, pool)):
                pool = self._pool(public_network, certificate)
            call = self._authentication.call(notification, body)
            credentials = await self._authentication.headers(call)
            request = HttpRequest("POST", url, self._headers(notification, call, credentials), body)
            answer = await self._exchange(pool, request, READ_BYTES)
        if answer.status == 401:
            self._authentication.refused(call, credentials)
        _check_status(answer.status, answer.retry_after)

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        try:
            yield
        except (WebhookForbiddenError, LocalProtocolError) as error:
            raise DeliveryRefusedError(error.message) from None
        except ReadTimeoutError:
            raise NoAnswerError(f"It did not answer within {self._timeout:g} seconds") from None
        except NetworkError as error:
            # The owner of the webhook sees the text, and the host of the proxy is the operator's business.
            text, of_proxy = _PROXY.subn("the server's proxy", str(error))
            if of_proxy:
                logger.warning("A webhook could not be called: %s", error)
            raise NoAnswerError(f"It could not be called: {text}") from None

    async def _exchange(self, pool: ConnectionPool, request: HttpRequest, limit: int) -> ChallengeAnswer:
        """The answer of a webhook, with the first `limit` bytes of its body and a little more."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        response = await pool.send(request, deadline)
        try:
            body = bytearray()
            while len(body) <= limit and (chunk := await response.read(deadline)):
                body += chunk
            return ChallengeAnswer(response.status, response.headers.get("retry-after", ""), bytes(body))
        finally:
            await response.close()

    def _headers(self, notification: Notification, call: WebhookCall, credentials: Mapping[str, str]) -> dict[str, str]:
        config = notification.config
        is_1_0 = notification.version is Version.V1_0
        headers = {
            "Content-Type": "application/a2a+json" if is_1_0 else "application/json",
            "User-Agent": f"parley/{__version__}",
            "Accept-Encoding": "identity",
            "Parley-Event-Id": call.delivery_id,
        }
        if self._extra_headers is not None:
            headers.update(self._extra_headers(notification))
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        return headers | dict(credentials)


def _check_status(status: int, retry_after: str) -> None:
    if 200 <= status < 300:
        return
    if status in _FINAL_STATUSES or 300 <= status < 400:
        raise DeliveryRefusedError(f"It answered with status {status}")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10 else 0.0
    raise DeliveryError(f"It answered with status {status}", retry_after=seconds)
