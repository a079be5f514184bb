"""An agent made of a constitution: the same handler for all of them, and a card by the documented table."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from parley.agents.agent import Agent
from parley.agents.handlers import Handler
from parley.agents.turn import Turn, run_of
from parley.host.agent_cards import card_of
from parley.host.constitution import Constitution, read_constitution, render
from parley.host.orchestration.narration import PREFIX, failure_metadata
from parley.host.orchestration.services import HostServices
from parley.host.orchestration.turn_loop import work
from parley.host.origin import origin_of
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentInterface
from parley.protocol.jsonvalue import JsonObject

if TYPE_CHECKING:
    from parley.host.hosted_program import HostedProgram

CONSTITUTION = "constitution"
"""The step of a task that holds the constitution that it began with."""

VERSION = "agent_version"
"""The member of that step which holds the number of the version; of a draft, the one that it was made from."""

NO_DRAFT = "The draft was deleted before this task began."

OUTPUT_MODES = ("text/plain", "application/json")


class ConstitutionAgent(Agent):
    """One agent of a tenant. `takes_files` is a setting of the tenant, which the card shows.

    `version` is what the card says, and `number` counts the versions of the constitution; 0 for one that has none.
    """

    def __init__(
        self,
        constitution: Constitution,
        services: HostServices,
        *,
        version: str,
        number: int = 0,
        takes_files: bool = False,
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
        self.number = number
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
    origin, steps = origin_of(turn.message), run_of(turn).steps
    if origin.agent_def is not None:
        defined = origin.agent_def
    elif origin.draft_of:
        defined = await _drafted(turn, agent, origin.draft_of)
    else:  # a run that begins again is the same agent, whatever has become of it since
        kept = steps.value(CONSTITUTION, lambda: _numbered(agent.constitution, agent.number))
        defined = cast("JsonObject", kept)
    number = defined.get(VERSION)
    if isinstance(number, int) and origin.agent_def is None:
        turn.annotate({f"{PREFIX}agent_version": number, **({f"{PREFIX}draft": True} if origin.draft_of else {})})
    await work(turn, read_constitution(defined), agent.services)


async def _drafted(turn: Turn, agent: ConstitutionAgent, author: str) -> JsonObject:
    """The draft of an author as it was when the task began."""

    async def read() -> JsonObject:
        draft = await agent.services.agents.drafts.find(turn.caller.tenant, agent.id, author)
        return {} if draft is None else _numbered(draft.constitution, draft.base_version)

    kept = cast("JsonObject", await run_of(turn).steps.take(CONSTITUTION, read))
    if not kept:
        turn.annotate(failure_metadata(NO_DRAFT, "not_found"))
        await turn.fail(NO_DRAFT)
    return kept


def _numbered(constitution: Constitution, number: int) -> JsonObject:
    return {**render(constitution), **({VERSION: number} if number else {})}


WORK = Handler(_work, may_reply=False)
"""One for all agents: there may be ten thousand."""
