"""Every bound of a connection, with its default and the reason for the number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Timeouts and sizes of connections. A rate is an average over the window named before it."""

    handshake_seconds: float = 10.0
    """A TLS handshake takes two or three small packets each way, even over a satellite."""
    header_seconds: float = 10.0
    """From a request's first byte to the end of its headers, usually one packet. nginx allows 60, Apache 20."""
    idle_seconds: float = 75.0
    """Between requests. Longer than the 60 of most load balancers, so that they close first and lose no request."""
    body_seconds: float = 30.0
    """The window over which the rate of a body is measured."""
    body_bytes_per_second: float = 512.0
    """The slowest mobile networks are faster, and an attacker cannot hold a connection for free."""
    write_seconds: float = 75.0
    """The window over which the rate of a reading client is measured. Streams have a shorter timeout of their own."""
    write_bytes_per_second: float = 512.0
    """As for bodies."""
    linger_seconds: float = 5.0
    """How long the rest of a refused request is read and discarded. Closing at once could destroy the reply."""
    head_bytes: int = 32 * 1024
    """Request line and headers. Bearer tokens of 8 KiB exist; nginx accepts 32 KiB in all."""
    headers: int = 100
    """The limit of Apache. Browsers behind proxies send about thirty."""
    pipelined: int = 16
    """Requests that wait for earlier replies of their connection. Only attackers and benchmarks use pipelining."""
    connections: int = 12_000
    """In total: the 10,000 streams that the server allows, and 2,000 for other requests."""
    connections_per_address: int = 4_096
    """A whole company may share one address. All addresses of an IPv6 /64 network count as one."""
    check_seconds: float = 1.0
    """How often deadlines are checked, and so how exact they are."""
