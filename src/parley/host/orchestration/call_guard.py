"""Model calls within budgets: what a call may spend is reserved before it begins.

A call that has ended is settled with its usage (`TurnContext.count_call`). One that the provider refused or failed
before any text came is not charged. One that was cut off in the middle is charged at what was reserved, because the
provider charges for what it has made. So is one that was canceled after its end, before its usage was counted.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from types import TracebackType

from parley.agents.turn import run_of
from parley.host.budgets.budgets import HeldCall
from parley.host.budgets.exceeded import BUDGET_EXCEEDED, BudgetExceededError
from parley.host.budgets.scopes import CallAccount
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
        await context.check_may_call()
        if await context.services.budgets.holds_for(self._account):
            await self._reserve_to_the_end()
        context.held = self._held if self._held.reservation is not None else None
        return self

    async def _reserve_to_the_end(self) -> None:
        """Reserve. If the turn is canceled meanwhile, what is being written then is given up again."""
        engine = run_of(self._context.turn).engine
        reserving = engine.in_background(self._reserve())
        try:
            await asyncio.shield(reserving)
        except BudgetExceededError as error:
            raise TurnFailedError(error.message, BUDGET_EXCEEDED) from None
        except asyncio.CancelledError:
            engine.in_background(self._give_up_after(reserving))
            raise

    async def _reserve(self) -> None:
        self._held = await self._context.services.budgets.reserve(
            self._account, self._model, self._asked, may_shorten=self._may_shorten
        )

    async def _give_up_after(self, reserving: asyncio.Task[None]) -> None:
        with suppress(BudgetExceededError, StoreError):  # nothing is reserved
            await reserving
            await self._give_up(is_charged=False)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or self._held.reservation is None:
            return
        self._context.held = None
        is_charged = self.has_answered or not isinstance(error, ModelError)
        ending = run_of(self._context.turn).engine.in_background(self._give_up(is_charged=is_charged))
        if isinstance(error, Exception):  # otherwise the turn is canceled and must not wait
            await asyncio.shield(ending)

    async def _give_up(self, *, is_charged: bool) -> None:
        await _give_up(self._context, self._account, self._held, is_charged=is_charged)


def charge_uncounted(context: TurnContext) -> None:
    """End the reservation of a call that had ended when its task was, and was not counted yet."""
    run = run_of(context.turn)
    if context.held is not None and (run.is_cancelled or run.is_overdue):  # otherwise another run counts it
        run.engine.in_background(_give_up(context, context.account(), context.held, is_charged=True))


async def _give_up(context: TurnContext, account: CallAccount, held: HeldCall, *, is_charged: bool) -> None:
    try:
        await context.services.budgets.give_up(account, held, is_charged=is_charged)
    except StoreError as failure:
        logger.warning("A call's reservation stays charged to its budget: %s", failure)
