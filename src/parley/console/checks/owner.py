"""Which session or caller owns a check."""

from __future__ import annotations

from parley.console.backend import ConsoleCaller
from parley.console.sessions import Session


def check_owner(session: Session, caller: ConsoleCaller) -> str:
    """The session; for a program, which has none, the caller."""
    return session.id or f"program {caller.tenant} {caller.identity.name}"
