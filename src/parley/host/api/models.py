"""Models: those that agents can name, as far as they are known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from msgspec import Struct

from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute
from parley.host.models.prices import LongPromptPrices, PricedModel
from parley.host.models.registry import KnownModel


class ModelPricesView(Struct, frozen=True):
    """What a million tokens of each kind cost today, as decimal texts."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write: Decimal | None
    long_prompt: LongPromptPrices | None = None
    """The prices of calls with more than `over` input tokens."""
    effective: date | None = None
    """The day in UTC from which they apply; null: they always have."""


class ModelView(Struct, frozen=True, kw_only=True):
    """A model that agents can name."""

    id: str
    provider: str
    context_window: int | None
    is_ready: bool
    """Whether it can be called: its provider's key is set, or it needs none."""
    prices: ModelPricesView | None
    """None for built-in models, which cost nothing."""


class ModelList(Struct, frozen=True):
    """The built-in models, and those of providers whose prices are known."""

    count: int
    models: Sequence[ModelView]
    currency: str
    """Of all prices."""


async def list_models(call: ApiCall[None]) -> Answer:
    """All known models."""
    known = [_view(model) for model in call.host.models.known()]
    return Answer(ModelList(len(known), known, call.host.models.currency))


def _view(model: KnownModel) -> ModelView:
    prices = model.prices
    return ModelView(
        id=model.id,
        provider=model.provider,
        context_window=model.context_window,
        is_ready=model.is_ready,
        prices=prices and _prices_view(prices),
    )


def _prices_view(prices: PricedModel) -> ModelPricesView:
    return ModelPricesView(
        prices.input,
        prices.output,
        prices.cache_read,
        prices.cache_write,
        prices.long_prompt,
        prices.effective,
    )


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/models",
        handler=list_models,
        summary="List the models",
        description="Agents can name other models of these providers as well.",
        replies=[ApiReply(ModelList)],
    ),
)
