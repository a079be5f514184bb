"""The card of one remote agent: looked up when it is needed, and remembered for a while; failures for a shorter while.

A lookup is made once for all that wait for it, and goes on if they stop waiting: the next turn then has the card. The
client keeps documents with their ETags beside this, so that a card that has not changed is not transferred again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from parley.client.client import Client
from parley.client.guard import HINT
from parley.protocol.cards import AgentCard
from parley.protocol.errors import ParleyError, SignatureInvalidError

logger = logging.getLogger(__name__)

CARD_SECONDS = 60.0
"""How long a card is used without asking for it again. Cards change when agents are deployed."""

FAILURE_SECONDS = 15.0
"""How long an agent without a card is not asked again, so that it does not delay every turn."""

ADVICE = "; `allow_private_hosts` in a2a_agents.json allows more hosts"


class CardUnavailableError(ParleyError):
    """The card of a remote agent cannot be read."""


class KnownCard:
    """What is known of the card of one agent."""

    def __init__(self, client: Client, *, clock: Callable[[], float]) -> None:
        self.client = client
        """Calls the agent, and is not open. It is another one after the card has changed."""
        self.card: AgentCard | None = None
        """The card, if the last lookup found it."""
        self._last_card: AgentCard | None = None
        self._failure = ""
        self._expires: float | None = None
        self._clock = clock
        self._lookup: asyncio.Task[None] | None = None

    def refresh(self) -> asyncio.Task[None] | None:
        """The lookup in progress, begun here if nothing is remembered; None if something is."""
        if self._lookup is None and (self._expires is None or self._clock() >= self._expires):
            self._lookup = asyncio.get_running_loop().create_task(self._look_up())
        return self._lookup

    async def read(self) -> AgentCard:
        """The card.

        Raises:
            CardUnavailableError: the agent has none, cannot be reached or must not be called.
        """
        if (lookup := self.refresh()) is not None:
            await asyncio.shield(lookup)
        if self.card is None:
            raise CardUnavailableError(self._failure)
        return self.card

    async def _look_up(self) -> None:
        try:
            async with self.client.copy() as opened:
                found = opened.card
        except ParleyError as error:
            self.card, self._failure = None, error.message.replace(HINT, ADVICE)
            if isinstance(error, SignatureInvalidError):
                self.client = self.client.copy()  # which is refused, although one that is open would still be accepted
            self._expires = self._clock() + FAILURE_SECONDS
            logger.info("The card of the remote agent at %s is unavailable: %s", self.client.target, self._failure)
        else:
            if self._last_card not in (None, found):
                self.client = self.client.copy()  # delegations keep clients open, with the card that they found
            self.card = self._last_card = found
            self._expires = self._clock() + CARD_SECONDS
        finally:
            self._lookup = None

    def forget(self) -> None:
        """Stop a lookup in progress, without waiting for its end."""
        if self._lookup is not None:
            self._lookup.cancel()

    async def close(self) -> None:
        """Stop a lookup in progress."""
        if (lookup := self._lookup) is not None:
            lookup.cancel()
            with suppress(asyncio.CancelledError):
                await lookup
