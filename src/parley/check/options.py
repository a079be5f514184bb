"""The options of a check: what it sends, with which credentials, how long it waits and how much it asks."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.client.credentials.credentials import Credentials
from parley.client.discovery.signatures import SignaturePolicy
from parley.client.guard import Guard
from parley.client.transports.connections import Tls
from parley.client.transports.in_process import AsgiApp

ANSWERS_PER_ENDPOINT = 20
"""Answers of a slow agent that a check waits for: about as many as it requests from the agent itself."""

EXAMPLE_WEBHOOK = "https://example.com/parley-check"
"""The webhook to register unless the caller gives one: it is not a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The options of a check."""

    timeout: float = 30.0
    """Seconds to wait for any answer. Rules of a slower agent stay undecided."""
    max_requests: int = 150
    """Requests per endpoint; a whole run needs about ninety."""
    credentials: Credentials = field(default_factory=Credentials)
    """They are sent only to the origins that they are for, and are in no report."""
    tls: Tls | None = None
    """Trusted authorities, and the caller's certificate, which is shown only to the host that the caller named."""
    guard: Guard = field(default_factory=Guard)
    """Where cards may point."""
    signatures: SignaturePolicy = field(default_factory=SignaturePolicy)
    """Keys to verify the signatures of cards with."""
    text: str = "Hello"
    """The text of messages to the agent."""
    skills: tuple[str, ...] = ()
    """Skills to ask for, each in a run of its own; without any, the agent chooses."""
    made_by: str = "Parley"
    """The program that runs the check, and its version, for reports."""
    app: AsgiApp | None = None
    """An ASGI application that is called in process instead of the network; its gRPC endpoints are not checked."""
    webhook: str = EXAMPLE_WEBHOOK
    """A webhook to register for tasks that have ended or wait for input, so that it is never called."""

    @property
    def seconds_per_endpoint(self) -> float:
        """After which a check of an endpoint ends in any case: a server may answer for ever, a byte at a time."""
        return ANSWERS_PER_ENDPOINT * self.timeout

    @property
    def shows_certificate(self) -> bool:
        """Whether every connection to the named host shows the caller's certificate."""
        return self.tls is not None and self.tls.certificate is not None
