"""When a provider that fails is left alone, and when it is tried again."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from parley.host.models.circuit import Circuit, CircuitModel, CircuitSettings
from parley.host.models.model import ModelError, ModelFailure, ModelRequest, Piece
from parley.host.models.provider_calls import ProviderCounts
from tests.host.scripted_model import REQUEST, ScriptedModel, failure

pytestmark = pytest.mark.anyio

FAILS = [failure(status=500)]
WORKS = ["fine"]


class SilentModel:
    """Never answers."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        self.called.set()
        await asyncio.Event().wait()
        yield ""


class Provider:
    """A scripted provider behind a circuit that opens after 3 failures, for 30 seconds of a clock that tests turn."""

    def __init__(self, *calls: Sequence[Piece | ModelError]) -> None:
        self.now = 1_000.0
        self.counts = ProviderCounts()
        circuit = Circuit("openai", CircuitSettings(failures=3), counts=self.counts, clock=lambda: self.now)
        self._model = CircuitModel(ScriptedModel(*calls), circuit)

    def call(self) -> AsyncGenerator[Piece]:
        return self._model.stream(REQUEST)

    async def outcomes(self, count: int) -> list[str]:
        """How some calls end, one after the other: with their text, or the kind of their error."""
        ends: list[str] = []
        for _ in range(count):
            try:
                ends.append("".join([str(piece) async for piece in self.call()]))
            except ModelError as error:
                ends.append(error.kind)
        return ends


async def test_failures_in_a_row_open_the_circuit_and_a_trial_that_works_closes_it() -> None:
    provider = Provider(FAILS, FAILS, FAILS, WORKS, FAILS)
    assert await provider.outcomes(4) == ["provider_error"] * 3 + ["circuit_open"]
    provider.now += 29.9
    assert await provider.outcomes(1) == ["circuit_open"]
    provider.now += 0.1
    assert await provider.outcomes(2) == ["fine", "provider_error"]
    assert provider.counts == ProviderCounts(calls=5, server_errors=4, circuit_opened=1)


async def test_a_trial_that_fails_opens_the_circuit_again() -> None:
    provider = Provider(FAILS, FAILS, FAILS, FAILS, WORKS)
    await provider.outcomes(3)
    provider.now += 30
    assert await provider.outcomes(2) == ["provider_error", "circuit_open"]
    provider.now += 30
    assert await provider.outcomes(1) == ["fine"]
    assert provider.counts.circuit_opened == 2


async def test_a_call_that_works_forgets_the_failures_before_it() -> None:
    provider = Provider(FAILS, FAILS, WORKS, FAILS, FAILS, WORKS)
    assert "circuit_open" not in await provider.outcomes(6)


@pytest.mark.parametrize("kind", [kind for kind in ModelFailure if kind is not ModelFailure.PROVIDER_ERROR])
async def test_only_failures_of_the_provider_count(kind: ModelFailure) -> None:
    provider = Provider(*[[failure(kind, status=429)]] * 5, WORKS)
    assert await provider.outcomes(6) == [kind] * 5 + ["fine"]
    assert provider.counts == ProviderCounts(calls=6, rate_limited=5)


async def test_others_wait_for_the_trial_only_until_its_first_text() -> None:
    provider = Provider(FAILS, FAILS, FAILS, ["fi", "ne"], WORKS)
    await provider.outcomes(3)
    provider.now += 30
    trial = provider.call()
    assert await anext(trial) == "fi"
    assert await provider.outcomes(1) == ["fine"]
    await trial.aclose()


async def test_only_one_trial_runs_at_a_time_and_one_that_is_given_up_lets_another_begin() -> None:
    silent = SilentModel()
    circuit = Circuit("openai", CircuitSettings(failures=1, open_seconds=0), counts=ProviderCounts())
    circuit.failed(failure(), is_trial=False)
    trial = CircuitModel(silent, circuit).stream(REQUEST)
    waiting = asyncio.ensure_future(anext(trial))
    await silent.called.wait()
    with pytest.raises(ModelError, match="paused"):
        circuit.admit()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert circuit.admit()


async def test_a_call_from_before_the_circuit_opened_does_not_keep_it_open() -> None:
    provider = Provider(["late", failure()], FAILS, FAILS, FAILS, WORKS)
    early = provider.call()
    assert await anext(early) == "late"
    await provider.outcomes(3)
    provider.now += 29
    with pytest.raises(ModelError):
        await anext(early)
    provider.now += 1
    assert await provider.outcomes(1) == ["fine"]
