"""An agent made of a constitution: the same handler for all of them, and a card by the documented table."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from parley.agents.agent import Agent
from parley.agents.handlers import Handler
from parley.agents.turn import Turn, run_of
from parley.host.agent_cards import card_of
from parley.host.constitution import Constitution, read_constitution, render
from parley.host.orchestration.services import HostServices
from parley.host.orchestration.turn_loop import work
from parley.host.origin import origin_of
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentInterface
from parley.protocol.jsonvalue import JsonObject

if TYPE_CHECKING:
    from parley.host.hosted_program import HostedProgram

OUTPUT_MODES = ("text/plain", "application/json")


class ConstitutionAgent(Agent):
    """One agent of a tenant. `takes_files` is a setting of the tenant, which the card shows."""

    def __init__(
        self, constitution: Constitution, services: HostServices, *, version: str, takes_files: bool = False
    ) -> None:
        fields = card_of(constitution, version=version)
        super().__init__(
            fields.name,
            id=constitution.id,
            description=fields.description,
            version=fields.version,
            output_modes=OUTPUT_MODES,
        )
        self.constitution = constitution
        self.services = services
        self._takes_files = takes_files
        self._skills.set_on_message(WORK)

    def card(
        self,
        *interfaces: AgentInterface,
        push_notifications: bool = False,
        extended_card: bool = False,
        everything: bool = False,
    ) -> AgentCard:
        """The card that derives from the constitution."""
        return AgentCard(
            name=self.name,
            description=self.description,
            version=self.version,
            interfaces=interfaces,
            capabilities=AgentCapabilities(
                streaming=True, push_notifications=push_notifications, state_transition_history=False
            ),
            skills=card_of(self.constitution, version=self.version).skills,
            default_input_modes=("text/plain", "application/json", "*/*") if self._takes_files else ("text/plain",),
            default_output_modes=self.output_modes,
        )


async def _work(turn: Turn) -> None:
    """Answer a message as the agent that its program names, or as one that the message itself defines."""
    program: HostedProgram = run_of(turn).program  # pyright: ignore[reportAssignmentType] a host has no others
    agent = program.agent
    assert isinstance(agent, ConstitutionAgent)
    defined = origin_of(turn.message).agent_def
    if defined is None:  # a run that begins again is the same agent, whatever has become of it since
        kept = run_of(turn).steps.value("constitution", lambda: render(agent.constitution))
        defined = cast("JsonObject", kept)
    await work(turn, read_constitution(defined), agent.services)


WORK = Handler(_work, may_reply=False)
"""One for all agents: there may be ten thousand."""
