"""Model calls within budgets: what a call may spend is reserved before it begins.

A call that has ended is settled with its usage (`TurnContext.count_call`). One that the provider refused or failed
before any text came is not charged. One that was cut off in the middle is charged at what was reserved, because the
provider charges for what it has made.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType

from parley.agents.turn import run_of
from parley.host.budgets.budgets import HeldCall
from parley.host.budgets.exceeded import BUDGET_EXCEEDED, BudgetExceededError
from parley.host.models.model import ModelError, ModelRequest
from parley.host.orchestration.turn_context import TurnContext, TurnFailedError
from parley.stores.interface import StoreError

logger = logging.getLogger(__name__)


class ModelCallGuard:
    """A block in which a model is called: `async with ModelCallGuard(…) as call`, with `call.request`."""

    def __init__(self, context: TurnContext, model: str, request: ModelRequest, *, may_shorten: bool = True) -> None:
        self._context = context
        self._model = model
        self._may_shorten = may_shorten
        self._asked = request
        self._account = context.account()
        self._held = HeldCall(request)
        self.has_answered = False
        """Set it when the model has said something."""

    @property
    def request(self) -> ModelRequest:
        """The request, with the `max_tokens` that the budgets allow."""
        return self._held.request

    @property
    def lowered_to(self) -> int | None:
        """The `max_tokens` that the budgets allow, if that is less than was asked for."""
        allowed = self._held.request.max_tokens
        return allowed if allowed < self._asked.max_tokens else None

    async def __aenter__(self) -> ModelCallGuard:
        """Reserve what the call may spend. Raises TurnFailedError if the tenant may not make it."""
        context = self._context
        context.check_may_call()
        try:
            self._held = await context.services.budgets.reserve(
                self._account, self._model, self._asked, may_shorten=self._may_shorten
            )
        except BudgetExceededError as error:
            raise TurnFailedError(error.message, BUDGET_EXCEEDED) from None
        context.has_reserved = self._held.reservation is not None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or self._held.reservation is None:
            return
        self._context.has_reserved = False
        is_charged = self.has_answered or not isinstance(error, ModelError)
        ending = run_of(self._context.turn).engine.in_background(self._give_up(is_charged=is_charged))
        if isinstance(error, Exception):  # otherwise the turn is canceled and must not wait
            await asyncio.shield(ending)

    async def _give_up(self, *, is_charged: bool) -> None:
        try:
            await self._context.services.budgets.give_up(self._account, self._held, is_charged=is_charged)
        except StoreError as failure:
            logger.warning("A call's reservation stays charged to its budget: %s", failure)
