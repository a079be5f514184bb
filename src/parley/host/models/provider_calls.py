"""What is known of the calls of providers: how one failed, and how many there were of which kind.

The counts are for metrics. They are plain numbers that only the event loop changes.
"""

from __future__ import annotations

from msgspec import Struct, structs

from parley.host.models.model import ModelError, ModelFailure


class ProviderCallError(ModelError):
    """A provider refused a call or broke it off."""

    def __init__(
        self, message: str, kind: ModelFailure, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, kind)
        self.status = status
        """The HTTP status; None if there was no response, or the error came within a stream."""
        self.retry_after = retry_after
        """How many seconds the provider asks to wait; infinite if waiting does not help."""


class ProviderCounts(Struct):
    """How many calls of one provider there were. A retry is a call as well."""

    calls: int = 0
    retries: int = 0
    server_errors: int = 0
    """Responses with a status of 500 or more."""
    rate_limited: int = 0
    """Responses with the status 429."""
    circuit_opened: int = 0

    def snapshot(self) -> ProviderCounts:
        """A copy that does not change."""
        return structs.replace(self)

    def count_failure(self, error: ModelError) -> None:
        """Count an error by its status."""
        status = error.status if isinstance(error, ProviderCallError) else None
        if status is not None and status >= 500:
            self.server_errors += 1
        elif status == 429:
            self.rate_limited += 1
