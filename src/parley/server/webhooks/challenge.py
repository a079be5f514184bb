"""The challenge: before a webhook is first called, it proves that it wants notifications.

The server gets the webhook's URL with a random `validationToken` in the query, and the webhook answers with status 200
and the token as its whole body. This is a part of the first delivery and of its retries, so that a registration neither
waits for a webhook nor tells its caller at once what answers at a URL. No secret of the config is sent before the
proof. Proofs are remembered per owner and URL, in memory: after a restart the webhook is challenged again.
Spec: 0.2 "Streaming & Asynchronous Operations", ownership verification.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import TypeAlias

from msgspec import Struct, structs

from parley import __version__
from parley.engine.webhooks.deliveries import DeliveryError
from parley.network.addresses import Address, is_public_host, is_public_resolved
from parley.network.errors import ConnectError
from parley.network.http import HttpRequest
from parley.network.pinned import PinnedNetwork
from parley.network.urls import Url
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.interface import Owner

REMEMBERED = 10_000
"""Proofs that are remembered, about 200 bytes each. A webhook whose proof was forgotten is challenged again."""

MAX_REPLY = 1_024
"""Bytes of a reply that are read; the token has 43."""

LOOKUP_SECONDS = 5.0


class ChallengeAnswer(Struct, frozen=True):
    """What a webhook answered, and the beginning of its body."""

    status: int
    retry_after: str
    body: bytes


Exchange: TypeAlias = Callable[[HttpRequest, int], Awaitable[ChallengeAnswer]]
"""Sends a request, and reads this many bytes of the answer and a little more."""


class OwnershipChallenge:
    """Challenges the webhooks that a policy names, once each."""

    def __init__(self, policy: WebhookPolicy) -> None:
        self._policy = policy
        self._proven: OrderedDict[tuple[Owner, bytes], None] = OrderedDict()

    async def check(self, owner: Owner, url: Url, network: PinnedNetwork, exchange: Exchange) -> bool:
        """Challenge a webhook of an owner, unless it has proven before that it wants notifications.

        Return False if it was not challenged because it is public: the call must then follow the rules of
        `PublicWithoutProof`.

        Raises what `exchange` raises, and:
            DeliveryError: it has not proven it.
        """
        if self._policy.challenge == "never":
            return True
        key = (owner, hashlib.sha256(url.text.encode()).digest())  # a URL may have two kilobytes
        if key in self._proven:
            self._proven.move_to_end(key)
            return True
        if self._policy.challenge == "private":
            if not self._policy.allows(url.host):
                return True  # the policy does not let it be private
            if await _is_public(url, network):
                return False
        await _challenge(url, exchange)
        self._proven[key] = None
        if len(self._proven) > REMEMBERED:
            self._proven.popitem(last=False)
        return True


class PublicWithoutProof:
    """Rules for calls without a challenge: a name that was public a moment ago may be private now (DNS rebinding)."""

    def check_host(self, host: str) -> None:
        """Any name: its addresses decide."""

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Check that all addresses are public. Raises DeliveryError: the next attempt challenges the webhook."""
        if not all(map(is_public_resolved, addresses)):
            raise DeliveryError("Its host has a private address now, and it was not challenged")


async def _is_public(url: Url, network: PinnedNetwork) -> bool:
    if not is_public_host(url.host):
        return False
    try:
        addresses = await network.addresses(url.host, url.port, timeout=LOOKUP_SECONDS)
    except ConnectError:
        return False  # a proxy may know it; otherwise the challenge fails like any call
    return all(is_public_resolved(ip_address(address)) for address in addresses)


async def _challenge(url: Url, exchange: Exchange) -> None:
    token = secrets.token_urlsafe(32)
    parameter = f"validationToken={token}"
    asked = structs.replace(url, query=f"{url.query}&{parameter}" if url.query else parameter)
    headers = {"Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": f"parley/{__version__}"}
    answer = await exchange(HttpRequest("GET", asked, headers), MAX_REPLY)
    if answer.status != 200:
        raise DeliveryError(f"It did not answer the challenge: status {answer.status} instead of 200")
    if not secrets.compare_digest(answer.body.strip(), token.encode()):
        raise DeliveryError("It did not answer the challenge: the body of its answer is not the validationToken")
