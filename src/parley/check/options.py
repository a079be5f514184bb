"""How a check behaves: what it says, how it proves who it is, how long it waits and when it has enough."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.client.credentials.credentials import Credentials
from parley.client.discovery.signatures import SignaturePolicy
from parley.client.guard import Guard
from parley.client.transports.connections import Tls

ANSWERS_PER_PLACE = 20
"""How many answers of a slow agent a place is worth: a whole check asks the agent itself about as often."""


EXAMPLE_WEBHOOK = "https://example.com/parley-check"
"""The webhook to register unless the caller has one: it is not a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the check behaves."""

    timeout: float = 30.0
    """Seconds to wait for any answer. Agents that are slower leave their rules undecided."""
    max_requests: int = 150
    """Requests per place; a whole run needs about seventy."""
    credentials: Credentials = field(default_factory=Credentials)
    """What the caller can prove. They go to the origins that they are for, and into no report."""
    tls: Tls | None = None
    """Whom to trust, and the caller's certificate, which only the host that the caller named gets to see."""
    guard: Guard = field(default_factory=Guard)
    """Where cards may point."""
    signatures: SignaturePolicy = field(default_factory=SignaturePolicy)
    """Keys to verify the signatures of cards with."""
    text: str = "Hello"
    """What the agent is told."""
    skills: tuple[str, ...] = ()
    """Skills to ask for, each in a visit of its own; none leaves the choice to the agent."""
    made_by: str = "Parley"
    """The program that checks, and its version, for reports."""
    webhook: str = EXAMPLE_WEBHOOK
    """A webhook to register where it is not called: at tasks that have ended, or that wait for their caller."""

    @property
    def seconds_per_place(self) -> float:
        """After which a place is left, whatever it still says: a server may answer for ever, a byte at a time."""
        return ANSWERS_PER_PLACE * self.timeout

    @property
    def shows_certificate(self) -> bool:
        """Whether every connection to the named host proves who the caller is."""
        return self.tls is not None and self.tls.certificate is not None
