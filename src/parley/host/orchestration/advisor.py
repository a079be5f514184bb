"""The advisor of an agent: a second model that it may ask (`/advise`), or that checks what it is about to answer.

The gate answers with one word: CONTINUE lets the answer pass, REDIRECT sends the agent back with advice, and HALT fails
the task. Both are steps, so that a run that begins again hears the same.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from parley.host.models.closing import closing_stream
from parley.host.models.model import ModelMessage, ModelRequest, TokenUsage
from parley.host.orchestration.approval import approve_spend
from parley.host.orchestration.call_guard import ModelCallGuard
from parley.host.orchestration.turn_context import ToolResult, TurnContext, TurnFailedError

Verdict: TypeAlias = Literal["continue", "redirect", "halt"]

ADVICE_TOKENS = 1_024
PREVIEW_CHARACTERS = 160

CONSULT_PROMPT = (
    "You advise another agent. Answer its question briefly and concretely. You see nothing but the question."
)
GATE_PROMPT = (
    "You check what another agent is about to answer. Reply with one line: CONTINUE if the answer serves the request, "
    "REDIRECT: followed by what to do instead, or HALT: followed by the reason if the agent must not answer at all."
)

_VERDICT = re.compile(r"\s*(CONTINUE|REDIRECT|HALT)\b[:\s]*(.*)", re.IGNORECASE | re.DOTALL)


class GateDecision(Struct, frozen=True):
    """What the gate decided, and why."""

    verdict: Verdict
    text: str = ""
    is_malformed: bool = False


async def consult(context: TurnContext, question: str, step: str) -> ToolResult:
    """The advisor's answer to a question of the agent."""
    advisor = context.constitution.advisor
    if advisor is None or not advisor.model or advisor.mode == "off":
        return ToolResult("This agent has no advisor; its constitution can name one.", ok=False)
    result = await _ask(context, advisor.model, CONSULT_PROMPT, question, step)
    preview = result.body[:PREVIEW_CHARACTERS]
    context.narration.note("advisor", agent=context.agent_id, stream_id=0, kind="consult", preview=preview)
    return result


async def check_answer(context: TurnContext, answer: str, step: str) -> GateDecision:
    """What the gate says of an answer. Without a gate, every answer passes. Raises TurnFailedError."""
    advisor = context.constitution.advisor
    if advisor is None or advisor.mode != "gate" or not advisor.model:
        return GateDecision("continue")
    question = f"REQUEST:\n{context.query}\n\nANSWER:\n{answer}"
    result = await _ask(context, advisor.model, advisor.prompt or GATE_PROMPT, question, step)
    if result.error:  # the tenant may not call the gate, so it cannot pass
        raise TurnFailedError(result.body, result.error)
    return _read(result, halts=advisor.malformed_halts)


def _read(result: ToolResult, *, halts: bool) -> GateDecision:
    found = _VERDICT.match(result.body) if result.ok else None
    match found[1].upper() if found else "":
        case "CONTINUE":
            return GateDecision("continue")
        case "REDIRECT":
            return GateDecision("redirect", found[2].strip() if found else "")
        case "HALT":
            return GateDecision("halt", found[2].strip() if found else "")
        case _:
            return GateDecision("halt" if halts else "continue", "The advisor gave no verdict.", is_malformed=True)


async def _ask(context: TurnContext, model: str, system: str, question: str, step: str) -> ToolResult:
    """One answer of the advisor's model, as a step."""
    request = ModelRequest(
        agent_id=f"{context.agent_id}-advisor",
        system=system,
        messages=(ModelMessage("user", question),),
        query=question,
        max_tokens=ADVICE_TOKENS,
    )

    async def ask() -> ToolResult:
        text, usage = list[str](), TokenUsage()
        async with (
            ModelCallGuard(context, model, request, may_shorten=False) as call,
            closing_stream(context.services.models.model(model), call.request) as pieces,
        ):
            async for piece in pieces:
                call.has_answered = True
                if isinstance(piece, str):
                    text.append(piece)
                else:
                    usage = piece
        if not text:
            return ToolResult("The advisor gave no answer", ok=False, usage=usage)
        return ToolResult("".join(text).strip(), usage=usage)

    try:
        await approve_spend(context, model, request, step)
    except TurnFailedError as error:
        return ToolResult(error.message, ok=False, error=error.kind)
    result = await context.step(step, ask)
    if result.usage is not None:
        context.narration.count(result.usage)
        await context.count_call(model, result.usage)
    return result
