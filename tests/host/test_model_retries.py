"""Which failed calls of a model are repeated, and after which pauses."""

import math
from collections.abc import AsyncGenerator, Sequence

import pytest

from parley.host.models.model import ModelError, ModelFailure, Piece, TokenUsage
from parley.host.models.provider_calls import ProviderCallError, ProviderCounts
from parley.host.models.retrying import ModelRetrySettings, RetryingModel
from tests.host.scripted_model import REQUEST, ScriptedModel, failure

pytestmark = pytest.mark.anyio


class Retried:
    """A scripted model with retries, whose pauses are written down instead of waited for. Jitter adds a quarter."""

    def __init__(self, *calls: Sequence[Piece | ModelError]) -> None:
        self.model = ScriptedModel(*calls)
        self.pauses: list[float] = []
        self.counts = ProviderCounts()

    def call(self) -> AsyncGenerator[Piece]:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        settings = ModelRetrySettings()
        model = RetryingModel(self.model, settings, counts=self.counts, sleep=sleep, draw=lambda: 0.5)
        return model.stream(REQUEST)


def asked_to_wait(seconds: float) -> ModelError:
    return ProviderCallError("Busy.", ModelFailure.RATE_LIMITED, status=429, retry_after=seconds)


async def test_the_third_attempt_is_the_last() -> None:
    retried = Retried([failure()], [failure(ModelFailure.RATE_LIMITED)], [failure()], ["too late"])
    with pytest.raises(ModelError):
        await anext(retried.call())
    assert retried.pauses == [1.25, 2.5]
    assert retried.counts.retries == 2
    assert len(retried.model.calls) == 1


@pytest.mark.parametrize(("asked", "pauses"), [(0.2, [1.25]), (5, [5]), (20, [20])])
async def test_the_provider_decides_the_pause_if_it_asks_for_a_longer_one(asked: float, pauses: list[float]) -> None:
    retried = Retried([asked_to_wait(asked)], ["fine", TokenUsage(output_tokens=1)])
    assert [piece async for piece in retried.call()] == ["fine", TokenUsage(output_tokens=1)]
    assert retried.pauses == pauses


@pytest.mark.parametrize(
    "error",
    [asked_to_wait(20.1), asked_to_wait(math.inf)]
    + [failure(kind) for kind in ModelFailure if kind not in ("rate_limited", "provider_error")],
)
async def test_an_error_that_waiting_does_not_cure_is_raised_at_once(error: ModelError) -> None:
    retried = Retried([error], ["never"])
    with pytest.raises(ModelError) as raised:
        await anext(retried.call())
    assert (raised.value, retried.pauses) == (error, [])


async def test_nothing_is_repeated_after_the_first_text() -> None:
    retried = Retried(["Hel", failure()], ["Hello"])
    stream = retried.call()
    assert await anext(stream) == "Hel"
    with pytest.raises(ModelError):
        await anext(stream)
    assert (retried.pauses, retried.counts.retries) == ([], 0)
