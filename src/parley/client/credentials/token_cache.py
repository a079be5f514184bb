"""Tokens in use, by what they are for. Callers that need the same token at the same time share one fetch.

They share its failure too, instead of waiting for the same server one after the other. While the authorization server
does not answer, a token is used until it expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from parley.client.credentials.oauth import UnansweredError
from parley.client.credentials.token_store import Tokens
from parley.client.errors import ClientError

EARLY_SECONDS = 30.0
"""A token is renewed this long before it expires, as requests take time and clocks differ; at most half its life."""


class _SharedFetch:
    """One fetch of a token, and its last failure."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.failures = 0
        self.failure: ClientError | None = None


class TokenCache:
    """Tokens by what they are for."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: dict[tuple[str, ...], Tokens] = {}
        # Weak: a lock belongs to an event loop, this object to none, so a lock lives only while a caller waits for it.
        self._fetches: WeakValueDictionary[tuple[str, ...], _SharedFetch] = WeakValueDictionary()

    async def get(
        self,
        key: tuple[str, ...],
        fetch: Callable[[], Awaitable[Tokens]],
        *,
        refused: str | None,
        old: Tokens | None = None,
    ) -> Tokens:
        """A valid token other than the refused one: the cached one, `old`, or a new one.

        Raises what `fetch` raises.
        """
        found = self._tokens.get(key, old)
        if found is not None and self.is_good(found, refused):
            return found
        shared = self._fetches.get(key)
        if shared is None:
            shared = self._fetches[key] = _SharedFetch()
        failures = shared.failures
        async with shared.lock:
            found = self._tokens.get(key, old)
            if found is not None and self.is_good(found, refused):
                return found
            if shared.failure is not None and shared.failures > failures:
                raise shared.failure
            try:
                fresh = await fetch()
            except ClientError as error:
                if isinstance(error, UnansweredError) and found is not None and self._is_valid(found, refused):
                    return found
                shared.failures += 1
                shared.failure = error
                raise
            self._keep(key, fresh)
            return fresh

    def is_good(self, tokens: Tokens, refused: str | None) -> bool:
        """Whether a token can be used now and for a while."""
        early = EARLY_SECONDS
        if tokens.expires_at is not None and tokens.issued_at is not None:
            early = min(early, (tokens.expires_at - tokens.issued_at) / 2)
        return self._is_valid(tokens, refused, early=early)

    def _is_valid(self, tokens: Tokens, refused: str | None, *, early: float = 0.0) -> bool:
        is_in_time = tokens.expires_at is None or tokens.expires_at - early > self._now()
        return is_in_time and tokens.access_token != refused

    def _keep(self, key: tuple[str, ...], tokens: Tokens) -> None:
        self._tokens = {name: kept for name, kept in self._tokens.items() if self._is_valid(kept, None)}
        self._tokens[key] = tokens
