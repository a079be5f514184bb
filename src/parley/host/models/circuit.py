"""A circuit per provider: after some failures in a row, calls fail at once for a while instead of waiting for another.

Only failures of the provider count: a 5xx, no connection, a stream that breaks. A rate limit, a bad key or an invalid
request says nothing about its health, and would let one tenant cut off a provider for all others.

    closed --some failures in a row--> open --after a while--> one trial call --its first text--> closed
                                         ^------------------- it fails ------'
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from parley.host.models.closing import closing_stream
from parley.host.models.model import Model, ModelError, ModelFailure, ModelRequest, Piece
from parley.host.models.provider_calls import ProviderCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitSettings:
    """When a circuit opens, and for how long."""

    failures: int = 5
    open_seconds: float = 30.0


class Circuit:
    """Whether a provider is called. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        provider: str,
        settings: CircuitSettings,
        *,
        counts: ProviderCounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._settings = settings
        self._counts = counts
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._has_trial = False

    def admit(self) -> bool:
        """Let a call begin; True if it is a trial, which `end_trial` must end.

        Raises:
            ModelError: the circuit is open.
        """
        is_trial = self._opened_at is not None
        if self._opened_at is not None:
            is_over = self._clock() - self._opened_at >= self._settings.open_seconds
            if self._has_trial or not is_over:
                text = f"{self._provider} failed {self._failures} times in a row. Calls to it are paused."
                raise ModelError(text, ModelFailure.CIRCUIT_OPEN)
            self._has_trial = True
        self._counts.calls += 1
        return is_trial

    def answered(self) -> None:
        """Close the circuit: the provider answers. The failures stay until an answer is complete."""
        self._opened_at = None
        self._has_trial = False

    def completed(self) -> None:
        """Close the circuit and forget the failures."""
        self.answered()
        self._failures = 0

    def failed(self, error: ModelError, *, is_trial: bool) -> None:
        """Count a failure, which may open the circuit."""
        self._counts.count_failure(error)
        if error.kind is not ModelFailure.PROVIDER_ERROR:
            return
        self._failures += 1
        # A call that began before the circuit opened must not keep it open for longer.
        if self._failures >= self._settings.failures and (self._opened_at is None or is_trial):
            self._opened_at = self._clock()
            self._counts.circuit_opened += 1

    def end_trial(self) -> None:
        """Let another trial begin, unless this one has closed the circuit."""
        self._has_trial = False


class CircuitModel:
    """A model whose provider is called only while its circuit is closed."""

    def __init__(self, model: Model, circuit: Circuit) -> None:
        self._model = model
        self._circuit = circuit

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        """The stream of the model.

        Raises:
            ModelError: the circuit is open, or the model fails.
        """
        is_trial = self._circuit.admit()
        has_answered = False
        try:
            async with closing_stream(self._model, request) as pieces:
                async for piece in pieces:
                    if not has_answered:
                        has_answered = True
                        is_trial = False
                        self._circuit.answered()
                    yield piece
            self._circuit.completed()
        except ModelError as error:
            self._circuit.failed(error, is_trial=is_trial)
            raise
        finally:
            if is_trial:
                self._circuit.end_trial()
