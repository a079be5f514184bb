"""What a turn begins with: what was said before, which agents and tools there are, and the message to answer."""

from __future__ import annotations

from collections.abc import Sequence

from parley.host.commands.capabilities import is_allowed
from parley.host.models.builtin.matching import best_match
from parley.host.models.model import ModelMessage, RosterEntry
from parley.host.orchestration.model_caller import ModelCaller
from parley.host.orchestration.prompt import first_message
from parley.host.orchestration.sub_agents import MASTER
from parley.host.orchestration.turn_context import MOST_DEPTH, TurnContext


async def prepare(context: TurnContext, model: ModelCaller) -> None:
    """Find out which agents and tools may be called and what was said before, and tell the model."""
    services, origin, query, tenant = context.services, context.origin, context.query, context.tenant
    if origin.conversation and not origin.delegated_by:

        async def history() -> list[ModelMessage]:
            return list(await services.history(tenant.id, origin.conversation, before=context.turn.task_id))

        model.messages += await context.turn.step("history", history)
    if _may_delegate(context):
        model.roster = services.roster(tenant.id)
        if is_allowed(context.constitution.capabilities, "a2a"):
            model.roster += await services.remote.entries(tenant)
    await model.find_tools()
    _note_intent(context, model.roster)
    model.tell_user_message(first_message(query, origin, context.depth, model.roster))


def _may_delegate(context: TurnContext) -> bool:
    """Whether the model is told of other agents: `index` always is, others if they are made for it."""
    capabilities = context.constitution.capabilities
    is_made_for_it = bool(capabilities) and (is_allowed(capabilities, "agent") or is_allowed(capabilities, "a2a"))
    return context.depth < MOST_DEPTH and (context.agent_id == MASTER or is_made_for_it)


def _note_intent(context: TurnContext, roster: Sequence[RosterEntry]) -> None:
    """Tell readers which agent the request looks like; the agent itself decides."""
    if context.depth > 0 or context.constitution.intent.mode == "off" or not roster:
        return
    found = best_match(context.query, roster)
    entry, confidence = found if found is not None else (None, 0.0)
    context.narration.note_once(
        "intent",
        kind="delegate" if entry is not None else "chat",
        confidence=round(confidence, 3),
        source="heuristic",
        target_agent=entry.id if entry is not None else "",
        applied=False,
        requested_agent=context.agent_id,
        applied_agent=context.agent_id,
        todo_seed_count=0,
        plan_seed_count=0,
    )
