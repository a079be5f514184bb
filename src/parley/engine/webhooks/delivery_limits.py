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
    attempts: int = 200
    """Calls for one event. With the pauses below, `retry_for` ends first: this is a bound for shorter pauses."""
    retry_for: float = 3 * 86_400.0
    """Seconds from the first failure of an event until its webhook is paused: longer than a weekend."""
    paused_for: float = 7 * 86_400.0
    """Seconds until a paused webhook gets one more attempt. If that fails, its events are given up. 0: there is no
    pause, and they are given up at once."""
    first_pause: float = 1.0
    """Seconds before the second attempt; each further pause is twice as long; up to half of it is left to jitter."""
    longest_pause: float = 3_600.0
    """No pause between two attempts is longer, even if the webhook asks for it."""
    turn_events: int = 20
    """Events sent in one turn, before other webhooks of the same owner or host get theirs."""
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
