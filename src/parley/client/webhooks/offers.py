"""Which proofs an agent offers to webhooks, as its card declares with an extension, and which of them is strongest.

A card that is not Parley's declares nothing: such an agent repeats a token or credentials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parley.protocol.cards import AgentCard
from parley.protocol.extensions import WEBHOOK_AUTH

JWT = "JWT"
HMAC = "HMAC"


@dataclass(frozen=True, slots=True)
class WebhookOffer:
    """The schemes that an agent offers, in lower case, and where its keys are."""

    schemes: frozenset[str] = frozenset()
    jwks: str | None = None
    issuer: str | None = None

    def has(self, scheme: str) -> bool:
        """Whether a scheme is offered."""
        return scheme.lower() in self.schemes

    def strongest(self, may_fetch: Callable[[str], bool]) -> str | None:
        """JWT if its keys can be fetched, else HMAC, else None: a token."""
        if self.has(JWT) and self.jwks and self.issuer and may_fetch(self.jwks):
            return JWT
        return HMAC if self.has(HMAC) else None


def webhook_offer(card: AgentCard) -> WebhookOffer:
    """What a card offers; nothing if it does not say, or not as the extension has it."""
    for extension in card.capabilities.extensions:
        if extension.uri == WEBHOOK_AUTH:
            schemes, jwks, issuer = (extension.params.get(name) for name in ("schemes", "jwks", "issuer"))
            return WebhookOffer(
                frozenset(name.lower() for name in schemes if isinstance(name, str))
                if isinstance(schemes, list)
                else frozenset(),
                jwks if isinstance(jwks, str) else None,
                issuer if isinstance(issuer, str) else None,
            )
    return WebhookOffer()
