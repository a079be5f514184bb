"""The settings of a console, and where there is one: on loopback, or behind the server's own authentication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ConsoleMode: TypeAlias = Literal["auto", "on", "off"]
"""Whether a server has a console. `auto`: on loopback, and elsewhere if callers must log in."""


class ConsoleRefusedError(ValueError):
    """A console without a login would be reachable from other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """How a console behaves."""

    is_loopback: bool = True
    """Whether only this machine can reach the server."""
    heartbeat_seconds: float = 15.0
    """After how much silence a stream has a comment."""
    stalled_seconds: float = 60.0
    """After how long a page that takes nothing loses its stream."""
    recheck_seconds: float = 1.0
    """How old the authentication of a stream may be when it is given more data."""
    pages: int = 1_000
    """Open streams of all pages; one caller may have a quarter of them."""
    pages_of_session: int = 20
    """Open streams of one session: windows and tabs of one browser."""
    channels: int = 32
    """Open channels of one page."""
    agents: tuple[str, ...] = ()
    """URLs of agents elsewhere, or of catalogues, that every session has; `parley console URL…` names them."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that sessions may call whatever their addresses, and without TLS; `.example.com` allows all below it."""


def has_console(mode: ConsoleMode, *, is_loopback: bool, has_authentication: bool) -> bool:
    """Whether a server has a console.

    Raises:
        ConsoleRefusedError: it is on, but other machines could use it without a login.
    """
    if mode == "off":
        return False
    if is_loopback or has_authentication:
        return True
    if mode == "on":
        raise ConsoleRefusedError(
            "The console needs a login where other machines can reach it, because it calls agents for its users. "
            "Configure authentication with --auth, or listen on 127.0.0.1 only, without a public URL, "
            "other host names and trusted proxies."
        )
    return False
