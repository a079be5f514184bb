"""Tokens that are in use, by what they are for. Of all who need one at the same time, one gets it for all.

So they do with a failure: whoever waited for a server that does not answer has waited long enough. While the server is
away, a token that is about to end is used to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from parley.client.credentials.oauth import UnansweredError
from parley.client.credentials.token_store import Tokens
from parley.client.errors import ClientError

EARLY_SECONDS = 30.0
"""A token is renewed so long before it ends: a request takes its time, and clocks differ. Short lives are halved."""


class _Line:
    """Those who wait for one token."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.failures = 0
        self.failure: ClientError | None = None


class TokenCache:
    """Tokens by what they are for."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: dict[tuple[str, ...], Tokens] = {}
        # A line is gone with the last who stands in it: locks belong to an event loop, and this object to none.
        self._lines: WeakValueDictionary[tuple[str, ...], _Line] = WeakValueDictionary()

    async def get(
        self,
        key: tuple[str, ...],
        fetch: Callable[[], Awaitable[Tokens]],
        *,
        refused: str | None,
        old: Tokens | None = None,
    ) -> Tokens:
        """A token that is still good and is not the one that was refused: `old`, what is here, or a new one.

        Raises what `fetch` raises.
        """
        found = self._tokens.get(key, old)
        if found is not None and self.is_good(found, refused):
            return found
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        failures = line.failures
        async with line.lock:
            found = self._tokens.get(key, old)
            if found is not None and self.is_good(found, refused):
                return found
            if line.failure is not None and line.failures > failures:
                raise line.failure
            try:
                fresh = await fetch()
            except ClientError as error:
                if isinstance(error, UnansweredError) and found is not None and self._lives(found, refused):
                    return found
                line.failures += 1
                line.failure = error
                raise
            self._keep(key, fresh)
            return fresh

    def is_good(self, tokens: Tokens, refused: str | None) -> bool:
        """Whether a token can be sent now, and for a while."""
        early = EARLY_SECONDS
        if tokens.expires_at is not None and tokens.issued_at is not None:
            early = min(early, (tokens.expires_at - tokens.issued_at) / 2)
        return self._lives(tokens, refused, early=early)

    def _lives(self, tokens: Tokens, refused: str | None, *, early: float = 0.0) -> bool:
        is_in_time = tokens.expires_at is None or tokens.expires_at - early > self._now()
        return is_in_time and tokens.access_token != refused

    def _keep(self, key: tuple[str, ...], tokens: Tokens) -> None:
        self._tokens = {name: kept for name, kept in self._tokens.items() if self._lives(kept, None)}
        self._tokens[key] = tokens
