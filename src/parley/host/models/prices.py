"""What model calls cost: a table of prices as data (`prices.toml`), and the sum for the tokens of one call.

The cost of a model without a price is unknown, which is not zero. Built-in models and those of Ollama run on the host's
own machines and cost nothing per token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec
from msgspec import Struct

from parley.host.models.endpoints import BUILTIN_PREFIX, canonical_name
from parley.host.models.model import TokenUsage

_FILE = Path(__file__).with_name("prices.toml")
_FREE = (f"{BUILTIN_PREFIX}/", "ollama/")
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""The date at the end of a name that stands for one state of a model: `claude-sonnet-5-5-20260901`."""

_MILLION = Decimal(1_000_000)


class PriceFileError(ValueError):
    """The file of prices cannot be read, or is invalid."""


class TokenPrices(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens of each kind."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        for price in (self.input, self.output, self.cache_read, self.cache_write):
            if price is not None and not (price.is_finite() and price >= 0):
                raise ValueError("a price must be zero or more")

    def cost_of(self, usage: TokenUsage) -> Decimal:
        """What a call costs. Cached tokens are part of the input tokens."""
        cached = usage.cache_read_tokens + usage.cache_create_tokens
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        dollars = (
            max(usage.input_tokens - cached, 0) * self.input
            + usage.cache_read_tokens * read
            + usage.cache_create_tokens * write
            + usage.output_tokens * self.output
        )
        return dollars / _MILLION


class LongPromptPrices(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The prices of calls with more than `over` input tokens."""

    over: int


class PricedModel(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model of the table."""

    context_window: int | None = None
    """How many tokens fit into the model's context, if known."""
    long_prompt: LongPromptPrices | None = None

    def prices_for(self, usage: TokenUsage) -> TokenPrices:
        """The prices that apply to a call."""
        long = self.long_prompt
        return long if long is not None and usage.input_tokens > long.over else self


class PriceTable:
    """The prices of models by their names: `anthropic/claude-sonnet-5-5`."""

    def __init__(self, models: Mapping[str, PricedModel]) -> None:
        self.models = models

    def cost_of(self, model: str, usage: TokenUsage) -> Decimal | None:
        """What a call costs in US dollars; None if the price is unknown."""
        name = canonical_name(model)
        if name.startswith(_FREE):
            return Decimal(0)
        priced = self.models.get(name) or self.models.get(_SNAPSHOT.sub("", name))
        return None if priced is None else priced.prices_for(usage).cost_of(usage)


def load_prices(file: Path | None = None) -> PriceTable:
    """The prices that Parley knows; a file replaces and adds models.

    Raises:
        PriceFileError: the file cannot be read, or is invalid.
    """
    return PriceTable(_read(_FILE) | (_read(file) if file is not None else {}))


def _read(file: Path) -> dict[str, PricedModel]:
    try:
        models = msgspec.toml.decode(file.read_bytes(), type=dict[str, PricedModel])
    except OSError as error:
        raise PriceFileError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, not TOML, or not such a table
        raise PriceFileError(f"{file} is not a valid file of prices: {error}") from error
    return {canonical_name(name): model for name, model in models.items()}
