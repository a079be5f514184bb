"""How patient and how trusting a client is. Every number has its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. A blocking send waits for the agent's whole run, which is why `reply` is long."""

    connect: float = 10.0
    """TCP and TLS. Farther away than that nobody is."""
    reply: float = 600.0
    """From the request to the reply. Agents work for minutes; peers give up after five seconds."""
    read: float = 60.0
    """The same where nobody works for it: reading and listing tasks, webhooks, cards. Never longer than `reply`."""
    quiet: float = 90.0
    """Between two signs of life of a stream. Servers with heartbeats send one every 15 to 30 seconds."""
    card: float = 15.0
    """For a whole card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often what is safe is tried again, with pauses that double from `first_pause` to `longest_pause`."""

    attempts: int = 4
    first_pause: float = 0.2
    longest_pause: float = 5.0
    outage: float = 60.0
    """Seconds for which a stream that has begun is taken up again, however many attempts that takes: time enough for a
    container to start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of an agent's answers is taken in."""

    card_bytes: int = 1024 * 1024
    """The largest cards seen have 50 KB."""
    reply_bytes: int = 96 * 1024 * 1024
    """A task with all the artifacts that Parley's engine allows, in base64."""
    frame_bytes: int = 16 * 1024 * 1024
    """One event: a file of 10 MiB in base64, with room around it."""
    stream_bytes: int = 1024 * 1024 * 1024
    """One stream; an endless one ends here."""
