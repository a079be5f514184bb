"""Security whose schemes and requirements are replaced while the server runs, such as those of an auth file.

A request that is being authenticated keeps the rules that it began with. The rule that stays true: rules that cannot be
loaded change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from parley.server.security.authentication import Security
from parley.server.security.credentials import Identity, PresentedCredentials

KEPT_SECONDS = 60.0
"""How long replaced schemes stay open for the requests that use them: longer than an issuer may take to answer."""


class ReloadableSecurity(Security):
    """The security that `load` returns: now, and again at every `reload`."""

    def __init__(self, load: Callable[[], Security]) -> None:
        """Raises what `load` raises."""
        self._load = load
        self._retired: set[Security] = set()
        self._adopt(load())

    def _adopt(self, rules: Security) -> None:
        self._rules = rules
        vars(self).update(vars(rules))  # what the card shows is read from here

    def reload(self) -> None:
        """Load the rules again. What `load` raises is raised, and the old rules stay in force."""
        before, loaded = self._rules, self._load()
        self._adopt(loaded)
        self._retired.add(before)
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._close_soon, before)

    def _close_soon(self, rules: Security) -> None:
        if rules in self._retired:
            self._retired.discard(rules)
            self._closing = asyncio.create_task(rules.close())

    async def authenticate(self, credentials: PresentedCredentials) -> Identity:
        """See `Security`."""
        return await self._rules.authenticate(credentials)

    async def close(self) -> None:
        """Close all schemes, also those that were replaced."""
        retired, self._retired = self._retired, set()
        for rules in (*retired, self._rules):
            await rules.close()
