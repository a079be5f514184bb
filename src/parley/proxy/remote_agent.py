"""An agent elsewhere, as the server's cards show it: what its own card says, at other addresses."""

from __future__ import annotations

from msgspec import structs

from parley.agents.agent import Agent
from parley.protocol.cards import AgentCard, AgentInterface


class RemoteAgent(Agent):
    """An agent whose work is done elsewhere. It has a card and no handlers.

    `spoken` is how it is called, such as `A2A 0.3 over JSONRPC`. `keeps_security` says whether callers prove to the
    agent itself who they are; otherwise its demands are not theirs.
    """

    def __init__(self, card: AgentCard, *, spoken: str, keeps_security: bool = True) -> None:
        super().__init__(
            card.name,
            description=card.description,
            version=card.version,
            input_modes=card.default_input_modes,
            output_modes=card.default_output_modes,
            streaming=bool(card.capabilities.streaming),
            extensions=card.capabilities.extensions,
        )
        self.spoken = spoken
        self._keeps_security = keeps_security
        self.remote_card = self.shown(card)

    def check(self) -> None:
        """Nothing: the handlers are elsewhere."""

    @property
    def has_private_skills(self) -> bool:
        """Whether the agent says that it has an extended card."""
        return bool(self.remote_card.capabilities.extended_card)

    def card(
        self,
        *interfaces: AgentInterface,
        push_notifications: bool = False,
        extended_card: bool = False,
        everything: bool = False,
    ) -> AgentCard:
        """The agent's card with other addresses; what it says of the agent stays as it is."""
        capabilities = structs.replace(
            self.remote_card.capabilities,
            streaming=self.streaming,
            push_notifications=push_notifications,
            extended_card=extended_card or None,
        )
        return structs.replace(self.remote_card, interfaces=interfaces, capabilities=capabilities)

    def shown(self, card: AgentCard) -> AgentCard:
        """A card of the agent without what is not true here: signatures of other bytes, and demands that are met."""
        card = structs.replace(card, signatures=())
        if self._keeps_security:
            return card
        skills = tuple(structs.replace(skill, security=()) for skill in card.skills)
        return structs.replace(card, security_schemes={}, security=(), skills=skills)
