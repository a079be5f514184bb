"""What model calls cost: a table of prices as data (`prices.toml`), and the sum for the tokens of one call.

The cost of a model without a price is unknown, which is not zero. Built-in models and those of Ollama run on the host's
own machines and cost nothing per token. The operator's file adds models and replaces prices, from a day on if it says
so. All prices are in one currency: a file in another one than US dollars replaces the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from parley.host.models.endpoints import BUILTIN_PREFIX, canonical_name
from parley.host.models.model import TokenUsage

_FILE = Path(__file__).with_name("prices.toml")
_FREE = (f"{BUILTIN_PREFIX}/", "ollama/")
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""The date at the end of a name that stands for one state of a model: `claude-sonnet-5-5-20260901`."""

DEFAULT_CURRENCY = "USD"
MOST_PRICE = Decimal(10**9)
MOST_PLACES = 12
"""Digits of a price after the point."""

_MILLION = Decimal(1_000_000)


class PriceFileError(ValueError):
    """The file of prices cannot be read, or is invalid."""


class TokenPrices(Struct, frozen=True, forbid_unknown_fields=True):
    """What a million tokens of each kind cost."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write"):
            price: Decimal | None = getattr(self, name)
            if price is not None and not _is_price(price):
                text = f"{name} must be from 0 to {MOST_PRICE}, with at most {MOST_PLACES} digits after the point"
                raise ValueError(text)

    def cost_of(self, usage: TokenUsage) -> Decimal:
        """What a call costs. Cached tokens are part of the input tokens."""
        cached = usage.cache_read_tokens + usage.cache_create_tokens
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        cost = (
            max(usage.input_tokens - cached, 0) * self.input
            + usage.cache_read_tokens * read
            + usage.cache_create_tokens * write
            + usage.output_tokens * self.output
        )
        return cost / _MILLION

    def bound(self, *, input_tokens: int, output_tokens: int) -> Decimal:
        """What a call with so many tokens costs at most, however many of them are cached."""
        dearest = max([price for price in (self.input, self.cache_read, self.cache_write) if price is not None])
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION


def _is_price(price: Decimal) -> bool:
    exponent = price.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -MOST_PLACES and 0 <= price <= MOST_PRICE


class LongPromptPrices(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The prices of calls with more than `over` input tokens."""

    over: int


class PricedModel(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model of the table."""

    context_window: int | None = None
    """How many tokens fit into the model's context, if known."""
    long_prompt: LongPromptPrices | None = None
    effective: date | None = None
    """The day in UTC from which the prices apply; None: they always have."""

    def prices_for(self, usage: TokenUsage) -> TokenPrices:
        """The prices that apply to a call."""
        long = self.long_prompt
        return long if long is not None and usage.input_tokens > long.over else self

    def cost_bound(self, *, input_tokens: int, output_tokens: int) -> Decimal:
        """What a call with at most so many tokens costs at most."""
        long = self.long_prompt
        applicable: list[TokenPrices] = [self, long] if long is not None and input_tokens > long.over else [self]
        return max([prices.bound(input_tokens=input_tokens, output_tokens=output_tokens) for prices in applicable])


PricesOfModel: TypeAlias = Sequence[PricedModel]
"""The prices that a model has had and will have, by the days from which they apply."""


class PriceTable:
    """The prices of models by their names: `anthropic/claude-sonnet-5-5`."""

    def __init__(self, models: Mapping[str, PricesOfModel], *, currency: str = DEFAULT_CURRENCY) -> None:
        self.all_models = models
        self.currency = currency

    def models(self, day: date) -> Mapping[str, PricedModel]:
        """The prices on a day, by the names of the models."""
        found = {name: _on(day, prices) for name, prices in self.all_models.items()}
        return {name: priced for name, priced in found.items() if priced is not None}

    def cost_of(self, model: str, usage: TokenUsage, *, day: date) -> Decimal | None:
        """What a call on a day costs; None if the price is unknown."""
        name = canonical_name(model)
        if name.startswith(_FREE):
            return Decimal(0)
        priced = self._priced(name, day)
        return None if priced is None else priced.prices_for(usage).cost_of(usage)

    def cost_bound(self, model: str, *, input_tokens: int, output_tokens: int, day: date) -> Decimal | None:
        """What a call on a day with at most so many tokens costs at most; None if the price is unknown."""
        name = canonical_name(model)
        if name.startswith(_FREE):
            return Decimal(0)
        priced = self._priced(name, day)
        return None if priced is None else priced.cost_bound(input_tokens=input_tokens, output_tokens=output_tokens)

    def _priced(self, name: str, day: date) -> PricedModel | None:
        prices = self.all_models.get(name) or self.all_models.get(_SNAPSHOT.sub("", name))
        return None if prices is None else _on(day, prices)


def _on(day: date, prices: PricesOfModel) -> PricedModel | None:
    """The prices that apply on a day."""
    begun = [one for one in prices if one.effective is None or one.effective <= day]
    return begun[-1] if begun else None


# --- files ------------------------------------------------------------------------------------------------------------


def load_prices(file: Path | None = None) -> PriceTable:
    """The prices that Parley knows; a file replaces and adds models.

    Prices of the file that apply from a day on leave those that Parley knows for the days before.

    Raises:
        PriceFileError: the file cannot be read, or is invalid.
    """
    known = _read(_FILE)
    if file is None:
        return known
    given = _read(file)
    models = dict(known.all_models) if given.currency == known.currency else {}
    for name, prices in given.all_models.items():
        always = any(one.effective is None for one in prices)
        models[name] = prices if always else (*models.get(name, ()), *prices)
    return PriceTable(models, currency=given.currency)


def _read(file: Path) -> PriceTable:
    try:
        tables = msgspec.toml.decode(file.read_bytes(), type=dict[str, object])
    except OSError as error:
        raise PriceFileError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise PriceFileError(f"{file} is not a valid file of prices: {error}") from error
    currency = tables.pop("currency", DEFAULT_CURRENCY)
    if not (isinstance(currency, str) and re.fullmatch("[A-Z]{3}", currency)):
        raise PriceFileError(f"{file}: currency must be three capital letters, such as {DEFAULT_CURRENCY}")
    models = {canonical_name(name): _prices_in(file, name, value) for name, value in tables.items()}
    return PriceTable(models, currency=currency)


def _prices_in(file: Path, name: str, value: object) -> PricesOfModel:
    """The prices of one model: a table, or several with the days from which they apply."""
    tables = cast("list[object]", value) if isinstance(value, list) else [value]
    prices: list[PricedModel] = []
    for number, table in enumerate(tables):
        place = f'["{name}"]' if table is value else f'["{name}"][{number}]'
        try:
            prices.append(msgspec.convert(table, PricedModel))
        except msgspec.ValidationError as error:
            raise PriceFileError(f"{file}: {place}: {error}") from error
    days = [one.effective or date.min for one in prices]
    if len(set(days)) < len(days):
        raise PriceFileError(f'{file}: ["{name}"]: two tables apply from the same day')
    return sorted(prices, key=lambda one: one.effective or date.min)
