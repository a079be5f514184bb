"""A stream that ends when its reader may not read it any more: it is open for long, and a token may be revoked."""

from __future__ import annotations

from functools import partial

from parley.engine.reading.following import Batch
from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.data.access_tokens import AccessTokens
from parley.server.contracts import EventStream


class WatchedStream:
    """The events of a stream for as long as the token of a principal has a scope."""

    def __init__(self, stream: EventStream, tokens: AccessTokens, principal: Principal, scope: Scope) -> None:
        self._stream = stream
        self._check = partial(tokens.check_again, principal, scope)

    async def __anext__(self) -> Batch:
        """The next batch. Raises as the stream and `AccessTokens.check_again` do."""
        batch = await self._stream.__anext__()
        await self._check()
        return batch

    async def aclose(self) -> None:
        """Follow no longer."""
        await self._stream.aclose()
