"""Timeouts, retries and bounds of a client, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. A blocking send waits for the agent's whole run, which is why `reply` is long."""

    connect: float = 10.0
    """TCP and TLS handshakes, to any place on earth."""
    reply: float = 600.0
    """From the request to the reply. Agents work for minutes; other clients give up after five seconds."""
    read: float = 60.0
    """The same for calls that start no work: reading tasks, webhooks and cards. Never longer than `reply`."""
    quiet: float = 90.0
    """Silence of a stream. Servers with heartbeats send one every 15 to 30 seconds."""
    card: float = 15.0
    """For a whole card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often safe calls are repeated, with pauses that double from `first_pause` to `longest_pause`."""

    attempts: int = 4
    first_pause: float = 0.2
    longest_pause: float = 5.0
    outage: float = 60.0
    """Seconds for which a broken stream is reconnected, with any number of attempts: enough to restart a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How large an agent's answers may be."""

    card_bytes: int = 1024 * 1024
    """The largest cards seen have 50 KB."""
    reply_bytes: int = 96 * 1024 * 1024
    """A task with the largest artifacts that Parley's engine allows, in base64."""
    frame_bytes: int = 16 * 1024 * 1024
    """One event: a file of 10 MiB in base64, and some more."""
    stream_bytes: int = 1024 * 1024 * 1024
    """One stream, which may never end otherwise."""
