"""Limits on webhook calls, and the rule by which owners share them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    """Limits on webhook calls: in total, per owner and per host."""

    max_calls: int = 128
    """Calls under way. They cost a socket each and wait most of their time. One owner has half of them at most."""
    max_calls_per_host: int = 16
    """Calls of one host under way, so that a slow one is not flooded. One owner has half of them at most."""
    attempts: int = 15
    """Calls for one event. With the pauses below, half an hour to an hour: longer than a deployment, not for ever."""
    first_pause: float = 1.0
    """Seconds before the second attempt; each further pause is twice as long; up to half of it is left to jitter."""
    longest_pause: float = 600.0
    """No pause is longer, even if the webhook asks for it."""
    turn_events: int = 20
    """Events told in one turn, before other webhooks of the same owner or host get theirs."""
    turn_seconds: float = 1.0
    """A turn that has taken so long ends with its next answer, however many events are left."""
    in_memory: int = 10_000
    """Webhooks that are behind and in memory, at some 500 bytes each; one owner has half of them at most. Others wait
    in the store."""

    @property
    def probes(self) -> int:
        """Calls under way to hosts that did not answer before."""
        return max(1, self.max_calls // 4)

    def retry_pause(self, attempt: int, jitter: float) -> float:
        """The seconds before the next attempt (exponential backoff); `jitter` is between 0 and 1."""
        longest = min(self.first_pause * 2.0 ** min(attempt - 1, 64), self.longest_pause)
        return longest * (0.5 + jitter / 2)


def has_share(held: int, free: int) -> bool:
    """Whether an owner that holds some of a resource may take one more while so much is free.

    These are the dynamic thresholds of shared-memory switches (Choudhury and Hahne, 1998): one owner takes half, the
    next half of the rest; with n owners that want all they can get, each ends with 1/(n+1), and as much stays free.
    """
    return held < free
