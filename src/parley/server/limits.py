"""Every bound of the server, with its default and the reason for the number."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.server.security.throttle import RateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """How much a caller may send, and how long a stream may last. An error names the limit."""

    body_bytes: int = 24 * 1024 * 1024
    """A message of 16 MiB, the engine's limit, is a third longer in base64; the rest is for the fields around it."""
    bodies_bytes: int = 512 * 1024 * 1024
    """All long bodies that are being read and written, in total; one address may use a quarter of it. A slow client
    keeps a body in memory for hours."""
    discarded_bytes: int = 64 * 1024 * 1024
    """How much of a body that is too long is read and discarded, so that the client reads the error."""
    json_containers: int = 250_000
    """Objects and arrays in one body. Each takes only two bytes, but a microsecond and 100 bytes of memory.
    The limit allows a table of as many rows."""
    parts: int = 10_000
    """Parts of one message. Each is validated, hashed, stored and sent back."""
    id_characters: int = 1_024
    """Of one id or tenant. Every frame of a stream repeats the JSON-RPC id, every event the task id and context id.
    Clients use numbers and UUIDs."""
    heartbeat_seconds: float = 15.0
    """Proxies close connections that are idle for 30 to 60 seconds."""
    stalled_seconds: float = 60.0
    """How long a stream waits for its reader to read what was written. The reader can resume with its cursor."""
    idle_stream_seconds: float | None = 3_600.0
    """How long a stream without events is kept. Its reader is told to subscribe again, and may do so at once."""
    rates: RateLimits = field(default_factory=RateLimits)
    """How many requests and streams a caller may have."""
