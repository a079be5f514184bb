"""The work of an agent that a constitution describes: model calls and commands, until the model needs no more results.

Each model call is a stream that is recorded when it has ended; while it lasts, its text reaches the readers as it
comes, without the lines that are commands. A run that begins again gets finished calls from the log. One that was cut
off is made again, and what it says then replaces what it had said.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from parley.agents.delegation.delegation import depth_of
from parley.agents.turn import Turn, run_of
from parley.host.commands.capabilities import is_allowed
from parley.host.commands.framing import ResultBlock, frame_results
from parley.host.commands.syntax import parse_commands
from parley.host.commands.visible_text import VisibleText
from parley.host.constitution import Constitution
from parley.host.models.builtin.matching import best_match
from parley.host.models.closing import closing_stream
from parley.host.models.model import (
    CommandResult,
    ModelError,
    ModelMessage,
    ModelRequest,
    RosterEntry,
    TokenUsage,
)
from parley.host.orchestration.advisor import check_answer
from parley.host.orchestration.command_runner import run_command
from parley.host.orchestration.narration import PREFIX, TENANT_DISABLED, UNAUTHORIZED, RunNarration
from parley.host.orchestration.prompt import first_message, message_text, system_prompt
from parley.host.orchestration.services import HostServices
from parley.host.orchestration.sub_agents import MASTER
from parley.host.orchestration.turn_context import MOST_DEPTH, TurnContext, TurnFailedError
from parley.host.origin import origin_of
from parley.protocol.messages import Message, Role, TextPart

MOST_MODEL_CALLS = 6
"""Of one turn. The commands of the last one are not run, because no call would read their results."""


async def work(turn: Turn, constitution: Constitution, services: HostServices) -> NoReturn:
    """Answer the message of a turn. It ends the task."""
    run, tenant_id = run_of(turn), turn.caller.tenant
    depth, origin = depth_of(turn.message), origin_of(turn.message)
    narration = RunNarration(run, constitution.id, depth)
    tenant = services.tenant(tenant_id)
    if tenant is None:
        narration.failed(TENANT_DISABLED, UNAUTHORIZED)
        await turn.fail(TENANT_DISABLED)
    context = TurnContext(
        turn=turn,
        constitution=constitution,
        tenant=tenant,
        origin=origin,
        depth=depth,
        narration=narration,
        services=services,
        query=message_text(turn.parts),
    )
    failure: ModelError | TurnFailedError | None = None
    try:
        await _TurnLoop(context).run()
    except (ModelError, TurnFailedError) as error:
        failure = error
    if failure is not None:
        narration.failed(failure.message, failure.kind)
        await turn.fail(Message(f"{turn.task_id}-err", Role.AGENT, (TextPart(failure.message),)))
    reply = narration.reply
    await turn.complete(*([Message(f"{turn.task_id}-r", Role.AGENT, (TextPart(reply),))] if reply else []))


class _TurnLoop:
    """The model calls of one turn."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._narration = context.narration
        constitution, models = context.constitution, context.services.models
        self._model_name = constitution.model or models.default_model()
        self._model = models.model(self._model_name)
        advisor = constitution.advisor
        self._redirects = advisor.max_redirects if advisor is not None and advisor.mode == "gate" else 0
        self._holds_text = advisor is not None and advisor.mode == "gate"
        """Whether text waits until the gate has let it pass."""
        self._held: list[str] = []
        self._messages: list[ModelMessage] = []
        self._results: list[CommandResult] = []
        self._last_results = 0
        self._roster: tuple[RosterEntry, ...] = ()

    async def run(self) -> None:
        """Call the model until it asks for nothing more. Raises ModelError or TurnFailedError."""
        context, narration = self._context, self._narration
        await self._prepare()
        narration.began()
        for number in range(1, MOST_MODEL_CALLS + 1):
            reply = await self._call_model(number)
            commands = parse_commands(reply)
            if not commands:
                if await self._may_pass(number, reply):
                    return
            elif number == MOST_MODEL_CALLS:
                reason = f"The agent still used commands in its {number}th model call, which is the last of a turn."
                narration.note("escalation", agent=context.agent_id, stream_id=0, reason=reason)
                await self._may_pass(number, reply)
            else:
                blocks = [
                    await run_command(context, command, f"call {number} command {place}")
                    for place, command in enumerate(commands, 1)
                ]
                self._read_results(reply, blocks)
        await self._release()
        if not narration.reply:
            await narration.text(f"I have no answer after {MOST_MODEL_CALLS} steps.")

    async def _prepare(self) -> None:
        """Find out which agents may be called and what was said before."""
        context, services = self._context, self._context.services
        origin, query, tenant = context.origin, context.query, context.tenant
        if origin.conversation and not origin.delegated_by:

            async def history() -> list[ModelMessage]:
                return list(await services.history(tenant.id, origin.conversation, before=context.turn.task_id))

            self._messages += await context.turn.step("history", history)
        if self._may_delegate():
            self._roster = services.roster(tenant.id)
            if is_allowed(context.constitution.capabilities, "a2a"):
                self._roster += await services.remote.entries(tenant)
        self._note_intent()
        self._messages.append(ModelMessage("user", first_message(query, origin, context.depth, self._roster)))

    def _may_delegate(self) -> bool:
        """Whether the model is told of other agents: `index` always is, others if they are made for it."""
        context, capabilities = self._context, self._context.constitution.capabilities
        is_made_for_it = bool(capabilities) and (is_allowed(capabilities, "agent") or is_allowed(capabilities, "a2a"))
        return context.depth < MOST_DEPTH and (context.agent_id == MASTER or is_made_for_it)

    def _note_intent(self) -> None:
        """Tell readers which agent the request looks like; the agent itself decides."""
        context = self._context
        if context.depth > 0 or context.constitution.intent.mode == "off" or not self._roster:
            return
        found = best_match(context.query, self._roster)
        entry, confidence = found if found is not None else (None, 0.0)
        self._narration.note_once(
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

    # --- one model call -----------------------------------------------------------------------------------------------

    async def _call_model(self, number: int) -> str:
        """What the model replies. Its text is told as it comes."""
        context = self._context
        request = self._request()

        # Without annotations: they would be evaluated for every call, to convert pieces that are JSON anyway.
        async def source():
            context.check_may_call()
            async with closing_stream(self._model, request) as pieces:
                async for piece in pieces:
                    yield piece if isinstance(piece, str) else msgspec.to_builtins(piece)

        visible, raw, usage = VisibleText(), list[str](), TokenUsage()
        is_first = number > 1
        async for piece in context.turn.stream(f"model call {number}", source):
            if not isinstance(piece, str):
                usage = msgspec.convert(piece, TokenUsage)
                continue
            raw.append(piece)
            shown = visible.feed(piece)
            if shown and is_first:
                shown, is_first = self._separated(shown), False
            await self._tell(shown)
        rest = visible.flush()
        await self._tell(self._separated(rest) if rest and is_first else rest)
        self._narration.model_called(self._model_name, usage)
        await context.count_call(self._model_name, usage)
        return "".join(raw)

    def _request(self) -> ModelRequest:
        context, constitution = self._context, self._context.constitution
        return ModelRequest(
            agent_id=constitution.id,
            system=system_prompt(constitution, today=context.services.now_text()),
            messages=tuple(self._messages),
            query=context.query,
            roster=self._roster,
            results=tuple(self._results),
            last_results=self._last_results,
            max_tokens=constitution.max_tokens,
            temperature=constitution.temperature,
        )

    def _read_results(self, reply: str, blocks: list[ResultBlock]) -> None:
        """Give the results of commands to the model's next call."""
        self._messages += [ModelMessage("assistant", reply), ModelMessage("user", frame_results(blocks))]
        results = [result for block in blocks for result in _as_results(block)]
        self._results += results
        self._last_results = len(results)

    # --- text ---------------------------------------------------------------------------------------------------------

    def _separated(self, text: str) -> str:
        """The first text of a later call, on a line of its own."""
        said = self._narration.reply + "".join(self._held)
        return text if not said or said.endswith("\n\n") else f"\n{text}" if said.endswith("\n") else f"\n\n{text}"

    async def _tell(self, text: str) -> None:
        if self._holds_text:
            self._held.append(text)
        else:
            await self._narration.text(text)

    async def _release(self) -> None:
        held, self._held = "".join(self._held), []
        await self._narration.text(held)

    async def _may_pass(self, number: int, reply: str) -> bool:
        """Whether an answer is the last one; a gate may want another. Raises TurnFailedError if it stops the agent."""
        if not self._holds_text:
            return True
        context = self._context
        decision = await check_answer(context, "".join(self._held), f"gate {number}")
        kind = decision.verdict
        if kind == "redirect" and (self._redirects == 0 or number == MOST_MODEL_CALLS):
            kind = "budget"
        about = {"detail": decision.text} if decision.text else {}
        flag = {"malformed": True} if decision.is_malformed else {}
        context.narration.note("advisor", agent=context.agent_id, stream_id=0, kind=f"gate_{kind}", **about, **flag)
        if kind == "halt":
            raise TurnFailedError(f"The advisor stopped the agent: {decision.text}", "advisor_halt")
        if kind == "redirect":
            self._redirects -= 1
            self._held.clear()
            advice = f"[ADVISOR]\n{decision.text}\n[END ADVISOR]\nAnswer the request again."
            self._messages += [ModelMessage("assistant", reply), ModelMessage("user", advice)]
            return False
        context.turn.annotate({f"{PREFIX}gate_approved": kind == "continue"})
        await self._release()
        return True


def _as_results(block: ResultBlock) -> list[CommandResult]:
    """A result as the built-in models read it; the agents of a `/parallel` each have their own."""
    if block.children:
        return [
            CommandResult("agent", child.agent_id, child.body, child.status.value == "ok") for child in block.children
        ]
    return [CommandResult(block.command.name, block.command.args, block.body, block.status.value == "ok")]
