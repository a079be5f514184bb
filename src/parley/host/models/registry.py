"""Every model that agents can name: the built-in ones, and those of providers with retries and a circuit around them.

A name begins with its provider: `anthropic/claude-sonnet-5-5`. Whether a provider has such a model, only a call tells.
Circuits and counts belong to providers, so all models of one share them.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from parley.host.models.circuit import Circuit, CircuitModel, CircuitSettings
from parley.host.models.endpoints import (
    BUILTIN_PREFIX,
    OpenAiCompatible,
    canonical_name,
    providers_by_prefix,
    resolve_endpoint,
)
from parley.host.models.loading import LoadedModel, ProviderLoader, check_installed
from parley.host.models.model import Model, ModelError, ModelFailure, TokenUsage
from parley.host.models.prices import PricedModel, load_prices
from parley.host.models.provider_calls import ProviderCounts
from parley.host.models.retrying import ModelRetrySettings, RetryingModel

MODEL_VARIABLE = "PARLEY_MODEL"
OFFLINE_MODEL = f"{BUILTIN_PREFIX}/router"
MAX_CACHED = 1_000
"""How many models of providers are kept ready: tenants choose the names, so there may be any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRegistrySettings:
    """How models are found and called."""

    default_model: str | None = None
    """What `index` uses; None for the variable `PARLEY_MODEL`, or the built-in `parley/router`."""
    openai_compatible: tuple[OpenAiCompatible, ...] = ()
    prices_file: Path | None = None
    retries: ModelRetrySettings = field(default_factory=ModelRetrySettings)
    circuit: CircuitSettings = field(default_factory=CircuitSettings)
    connect_seconds: float = 10.0
    silence_seconds: float = 300.0
    """How long a provider may send nothing: models that reason are silent for minutes."""


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model as lists show it."""

    id: str
    provider: str
    context_window: int | None = None
    prices: PricedModel | None = None
    """None for built-in models, which cost nothing."""
    is_ready: bool
    """Whether it can be called: its provider's key is set, or it needs none."""


@dataclass(frozen=True, slots=True)
class _ProviderState:
    """What all models of a provider share."""

    circuit: Circuit
    counts: ProviderCounts


class ModelRegistry:
    """Models by their names.

    Raises:
        ValueError: the settings or the file of prices are invalid.
    """

    def __init__(
        self,
        settings: ModelRegistrySettings | None = None,
        *,
        builtin: Mapping[str, Model],
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self._settings = settings = settings or ModelRegistrySettings()
        self._builtin = builtin
        self._environ = environ
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._today = today
        self._providers = providers_by_prefix(settings.openai_compatible)
        self._prices = load_prices(settings.prices_file)
        self._loader = ProviderLoader(
            connect_seconds=settings.connect_seconds, silence_seconds=settings.silence_seconds
        )
        self._models: dict[str, Model] = {}
        self._states: dict[str, _ProviderState] = {}

    def model(self, name: str) -> Model:
        """The model with this name.

        Raises:
            ModelError: there is no such model or provider, the provider's key is missing, or the extra is.
        """
        if (builtin := self._builtin.get(name)) is not None:
            return builtin
        name = canonical_name(name)
        if (model := self._models.get(name)) is None:
            model = self._provider_model(name)
            if len(self._models) >= MAX_CACHED:
                del self._models[next(iter(self._models))]
            self._models[name] = model
        return model

    def default_model(self) -> str:
        """The name of the model that `index` uses."""
        return self._settings.default_model or self._environ.get(MODEL_VARIABLE) or OFFLINE_MODEL

    def known(self) -> list[KnownModel]:
        """The built-in models, and the models of providers whose prices are known. Others can be named as well."""
        found = [KnownModel(id=name, provider=BUILTIN_PREFIX, is_ready=True) for name in self._builtin]
        for name, priced in self._prices.models(self._today()).items():
            provider = self._providers.get(name.partition("/")[0])
            if provider is not None:
                is_ready = not provider.key_variables or provider.api_key(self._environ) is not None
                found.append(
                    KnownModel(
                        id=name,
                        provider=provider.prefix,
                        context_window=priced.context_window,
                        prices=priced,
                        is_ready=is_ready,
                    )
                )
        return found

    def cost_of(self, model: str, usage: TokenUsage) -> Decimal | None:
        """What a call costs today, in the host's currency; None if the price is unknown."""
        return self._prices.cost_of(model, usage, day=self._today())

    def cost_bound(self, model: str, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """What a call with at most so many tokens costs at most today; None if the price is unknown."""
        day = self._today()
        return self._prices.cost_bound(model, input_tokens=input_tokens, output_tokens=output_tokens, day=day)

    @property
    def currency(self) -> str:
        """The currency of all prices and costs, such as `USD`."""
        return self._prices.currency

    def provider_counts(self) -> dict[str, ProviderCounts]:
        """How many calls there were of each provider that was called."""
        return {provider: state.counts.snapshot() for provider, state in self._states.items()}

    async def close(self) -> None:
        """Close the connections to providers. Models must not be called any more."""
        self._models.clear()
        await self._loader.close()

    def _provider_model(self, name: str) -> Model:
        prefix, _, rest = name.partition("/")
        provider = self._providers.get(prefix)
        if prefix == BUILTIN_PREFIX:
            names = ", ".join(self._builtin)
            raise ModelError(f"There is no model {name!r}. Built in are: {names}.", ModelFailure.NOT_FOUND)
        if provider is None or not rest:
            prefixes = ", ".join(f"{known}/" for known in (BUILTIN_PREFIX, *self._providers))
            text = f"There is no model {name!r}. A name begins with one of {prefixes}."
            raise ModelError(text, ModelFailure.NOT_FOUND)
        endpoint = resolve_endpoint(provider, self._environ)
        check_installed()
        state = self._state(prefix)
        guarded = CircuitModel(LoadedModel(rest, endpoint, self._loader), state.circuit)
        return RetryingModel(guarded, self._settings.retries, counts=state.counts, sleep=self._sleep, draw=self._draw)

    def _state(self, provider: str) -> _ProviderState:
        if provider not in self._states:
            counts = ProviderCounts()
            circuit = Circuit(provider, self._settings.circuit, counts=counts, clock=self._clock)
            self._states[provider] = _ProviderState(circuit, counts)
        return self._states[provider]
