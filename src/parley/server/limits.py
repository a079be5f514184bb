"""Every bound of the server, with its default and the reason for the number."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.server.security.throttle import RateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """How much a caller may send, and how long it may keep a stream. What is refused gets an error that says why."""

    body_bytes: int = 24 * 1024 * 1024
    """A message of 16 MiB, the engine's limit, is a third longer in base64; the rest is room around it."""
    bodies_bytes: int = 512 * 1024 * 1024
    """All bodies that are being read and replies that are being written, together; those of one address may have a
    quarter. What comes or goes slowly is in memory for hours."""
    discarded_bytes: int = 64 * 1024 * 1024
    """How much of a body that is too long is read and dropped, so that its sender hears why. More is cut off."""
    json_containers: int = 250_000
    """Objects and arrays in one body. Two bytes spell one, and then cost a microsecond and a hundred bytes; this many
    are a table of as many rows."""
    parts: int = 10_000
    """Parts of one message. Each is checked, hashed, stored and sent back."""
    id_bytes: int = 1_024
    """A JSON-RPC id is repeated in every frame of a stream, ids of tasks and contexts in every event. Clients use
    numbers and UUIDs."""
    heartbeat_seconds: float = 15.0
    """Proxies close connections that are quiet for 30 to 60 seconds."""
    stalled_seconds: float = 60.0
    """How long a stream waits for its reader to take what was written. It may come back with its cursor."""
    idle_stream_seconds: float | None = 3_600.0
    """How long a stream without news is kept. Its reader is told to come back, and may at once."""
    rates: RateLimits = field(default_factory=RateLimits)
    """How often and how much at once callers may ask."""
