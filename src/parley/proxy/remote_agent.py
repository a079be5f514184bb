"""The agent behind the proxy, as the proxy's cards show it: its own card with other URLs."""

from __future__ import annotations

from msgspec import structs

from parley.agents.agent import Agent
from parley.protocol.cards import AgentCard, AgentInterface


class RemoteAgent(Agent):
    """An agent that runs elsewhere. It has a card, but no handlers.

    `protocol` is how it is called, such as `A2A 0.3 over JSONRPC`. `keeps_security` says whether callers authenticate
    at the agent; otherwise its security requirements are not shown to them.
    """

    def __init__(self, card: AgentCard, *, protocol: str, keeps_security: bool = True) -> None:
        super().__init__(
            card.name,
            description=card.description,
            version=card.version,
            input_modes=card.default_input_modes,
            output_modes=card.default_output_modes,
            streaming=bool(card.capabilities.streaming),
            extensions=card.capabilities.extensions,
        )
        self.protocol = protocol
        self.own_card = card
        """Its card as it has published it."""
        self._keeps_security = keeps_security
        self.remote_card = self.shown(card)

    def check(self) -> None:
        """Nothing: there are no handlers."""

    @property
    def has_private_skills(self) -> bool:
        """Whether the agent's card says that it has an extended card."""
        return bool(self.remote_card.capabilities.extended_card)

    def card(
        self,
        *interfaces: AgentInterface,
        push_notifications: bool = False,
        extended_card: bool = False,
        everything: bool = False,
    ) -> AgentCard:
        """The agent's card with other URLs."""
        capabilities = structs.replace(
            self.remote_card.capabilities,
            streaming=self.streaming,
            push_notifications=push_notifications,
            extended_card=extended_card or None,
        )
        return structs.replace(self.remote_card, interfaces=interfaces, capabilities=capabilities)

    def shown(self, card: AgentCard) -> AgentCard:
        """A card of the agent without its signatures, which would be invalid, and requirements that the proxy meets."""
        card = structs.replace(card, signatures=())
        if self._keeps_security:
            return card
        skills = tuple(structs.replace(skill, security=()) for skill in card.skills)
        return structs.replace(card, security_schemes={}, security=(), skills=skills)
