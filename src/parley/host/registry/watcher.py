"""Makes the checks that are due, in the background, a few at a time. Several processes may share the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from parley.host.data.errors import NotFoundError
from parley.host.data.registry_checks import ClaimedCheck
from parley.host.registry.registry import Registry

logger = logging.getLogger(__name__)

AT_ONCE = 16
"""Checks at the same time. Each may take 15 seconds, and one tenant may have 200 agents that hang. Of catalogues, fewer
are read at once, see `registry`."""


class RegistryWatcher:
    """Watches the registered agents and catalogues of tenants that are active."""

    def __init__(self, registry: Registry, *, is_active: Callable[[str], bool]) -> None:
        self._registry = registry
        self._is_active = is_active
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Stop. A check that was claimed is made again when its claim has expired."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching

    async def _watch(self) -> None:
        while True:
            try:
                made = await self.run_due()
            except Exception:  # the store may be unavailable for a while
                logger.exception("Registered agents could not be checked")
                made = 0
            if not made:
                await asyncio.sleep(self._registry.timing.poll_seconds)

    async def run_due(self) -> int:
        """Make the checks that are due now, some of them at least, and return how many."""
        claimed = await self._registry.checks.claim_due(AT_ONCE)
        await asyncio.gather(*map(self._run, claimed))
        return len(claimed)

    async def _run(self, claimed: ClaimedCheck) -> None:
        last = claimed.last
        try:
            if not self._is_active(last.tenant):
                await self._registry.postpone(claimed)
                return
            check = await self._registry.run_check(claimed)
        except NotFoundError:
            return  # it was removed in the meantime
        except Exception:  # here a check ends
            logger.exception("The %s %s of tenant %s could not be checked", last.kind, last.name, last.tenant)
            return
        if check is not None and check.state != last.state:
            text = "The registered %s %s of tenant %s is %s%s"
            reason = f": {check.reason}" if check.reason else ""
            logger.info(text, last.kind, last.name, last.tenant, check.state, reason)
