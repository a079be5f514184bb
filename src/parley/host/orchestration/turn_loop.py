"""The work of an agent that a constitution describes: model calls and commands, until the model needs no more results.

A turn answers the message that began its task, and then those that came meanwhile, before the task completes. A message
that interrupts ends the answer at hand, and what was said of it stays. `turn_opening` finds out what the model is told
first, `model_caller` makes the calls, `reply_text` shows what is said, and `later_messages` knows what came meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from parley.agents.delegation.delegation import depth_of
from parley.agents.turn import Turn, delegations_of, run_of
from parley.host.commands.framing import ResultBlock, frame_results
from parley.host.commands.syntax import parse_commands
from parley.host.constitution import Constitution
from parley.host.lineage import known_lineage
from parley.host.models.model import CommandResult, ModelError, ModelMessage
from parley.host.orchestration.call_guard import charge_uncounted
from parley.host.orchestration.command_runner import run_command
from parley.host.orchestration.later_messages import InterruptedByMessageError, Interruption, LaterMessages
from parley.host.orchestration.model_caller import ModelCaller
from parley.host.orchestration.narration import TENANT_DISABLED, UNAUTHORIZED, RunNarration
from parley.host.orchestration.prompt import message_text
from parley.host.orchestration.reply_text import ReplyText
from parley.host.orchestration.services import HostServices
from parley.host.orchestration.turn_context import TurnContext, TurnFailedError
from parley.host.orchestration.turn_opening import prepare
from parley.host.origin import origin_of
from parley.host.when_busy import WhenBusy
from parley.protocol.messages import Message, Role, TextPart

MOST_MODEL_CALLS = 6
"""Of one answer. The commands of the last one are not run, because no call would read their results."""

INTERRUPTED_NOTE = "[The next message interrupted your reply, which the user saw up to this point.]"


async def work(turn: Turn, constitution: Constitution, services: HostServices) -> NoReturn:
    """Answer the message of a turn, and those that come meanwhile. It ends the task."""
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
        lineage=known_lineage(run).with_budget(turn.task_id, constitution.budget),
    )
    failure: ModelError | TurnFailedError | None = None
    try:
        await _TurnLoop(context).run()
    except (ModelError, TurnFailedError) as error:
        failure = error
    except BaseException:
        charge_uncounted(context)
        raise
    if failure is not None:
        narration.failed(failure.message, failure.kind)
        await turn.fail(Message(f"{turn.task_id}-err", Role.AGENT, (TextPart(failure.message),)))
    reply = narration.reply
    await turn.complete(*([Message(f"{turn.task_id}-r", Role.AGENT, (TextPart(reply),))] if reply else []))


class _TurnLoop:
    """The answers of one turn."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._narration = context.narration
        self._text = ReplyText(context)
        self._model = ModelCaller(context, self._text)
        self._later = LaterMessages(run_of(context.turn), WhenBusy(context.constitution.when_busy))
        self._call = 0
        """The number of the model call at hand, counted over all answers."""
        self._reply = ""
        """What the model has replied in this call, if it has ended."""
        self._blocks: list[ResultBlock] = []
        """The results of the commands that were run after it."""

    async def run(self) -> None:
        """Answer until there are no more messages. Raises ModelError or TurnFailedError."""
        await prepare(self._context, self._model)
        self._narration.began()
        answer = 1
        await self._answer()
        # When there are no more, the task ends before anything else can happen: no message comes in between.
        while messages := self._later.read(answer + 1):
            answer += 1
            self._begin_answer(answer, messages)
            await self._answer()

    def _begin_answer(self, number: int, messages: list[Message]) -> None:
        """Begin the answer to messages that came meanwhile. It may use as many commands as the first one."""
        context, model = self._context, self._model
        context.query = "\n\n".join([message_text(message.parts) for message in messages])
        context.commands = 0
        context.used.clear()
        model.results, model.last_results = [], 0
        model.tell_user_message(context.query)
        self._text.begin_answer()
        ids = [message.message_id for message in messages]
        self._narration.note("answer_start", agent=context.agent_id, stream_id=0, answer=number, message_ids=[*ids])

    # --- one answer ---------------------------------------------------------------------------------------------------

    async def _answer(self) -> None:
        """Call the model until it asks for nothing more, or a message interrupts."""
        for left in reversed(range(MOST_MODEL_CALLS)):
            self._call += 1
            interruption = await self._repeat_interruption()
            if interruption is None:
                try:
                    if await self._step(is_last=left == 0):
                        return
                except InterruptedByMessageError:
                    interruption = await self._interrupt()
            if interruption is not None:
                self._go_on_after(interruption)
                return
        await self._text.release()
        if not self._narration.reply:
            await self._narration.text(f"I have no answer after {MOST_MODEL_CALLS} steps.")

    async def _step(self, *, is_last: bool) -> bool:
        """One model call and its commands. Whether its reply is the answer.

        Raises:
            ModelError, TurnFailedError: the turn cannot go on.
            InterruptedByMessageError: a message interrupts.
        """
        context, number, later = self._context, self._call, self._later
        self._reply, self._blocks = "", []
        self._text.begin_call(number)
        reply = self._reply = await later.interruptible(f"model call {number}", partial(self._model.call, number))
        commands = parse_commands(reply)
        if commands and not is_last:
            for place, command in enumerate(commands, 1):
                step = f"call {number} command {place}"
                self._blocks.append(await later.interruptible(step, partial(run_command, context, command, step)))
            self._read_results()
            return False
        if commands:
            text = f"The agent still used commands in its {MOST_MODEL_CALLS}th model call, which is the last of a turn."
            self._narration.note("escalation", agent=context.agent_id, stream_id=0, reason=text)
        check = partial(self._text.may_pass, number, reply, self._model.messages, is_last=is_last)
        may_pass = await later.interruptible(f"gate {number}", check)
        if may_pass:
            self._model.messages.append(ModelMessage("assistant", reply))
        return may_pass and not commands

    def _read_results(self) -> None:
        """Give the results of commands to the model's next call."""
        model = self._model
        model.messages += self._told_results()
        results = [result for block in self._blocks for result in _as_results(block)]
        model.results += results
        model.last_results = len(results)

    def _told_results(self) -> list[ModelMessage]:
        return [ModelMessage("assistant", self._reply), ModelMessage("user", frame_results(self._blocks))]

    # --- interruptions ------------------------------------------------------------------------------------------------

    async def _interrupt(self) -> Interruption:
        """End the answer at hand, and keep where that was."""
        said = "".join(self._text.shown) + "".join(self._narration.text_left_over())
        await self._text.interrupt()
        told = self._told_results() if self._blocks else [ModelMessage("assistant", said)] if said else []
        position, counted = self._narration.position(), self._context.calls_counted
        interruption = Interruption(tuple(self._text.shown), tuple(told), position, counted)
        self._later.record_interruption(self._call, interruption)
        return interruption

    async def _repeat_interruption(self) -> Interruption | None:
        """Tell again what an earlier run told of this call until it was interrupted; None if it was not."""
        interruption = self._later.recorded_interruption(self._call)
        if interruption is not None:
            await self._text.repeat(interruption.shown)
            self._narration.skip_to(interruption.position)
        return interruption

    def _go_on_after(self, interruption: Interruption) -> None:
        """Go on with what the model is told of an answer that was interrupted."""
        context = self._context
        delegations_of(context.turn).cancel_named(f"call {self._call} command ")
        context.calls_counted = interruption.calls_counted
        self._model.messages += interruption.context
        if interruption.context:
            self._model.tell_user_message(INTERRUPTED_NOTE)
        self._narration.note("interrupted", agent=context.agent_id, stream_id=0, call=self._call)


def _as_results(block: ResultBlock) -> list[CommandResult]:
    """A result as the built-in models read it; the agents of a `/parallel` each have their own."""
    if block.children:
        return [
            CommandResult("agent", child.agent_id, child.body, child.status.value == "ok") for child in block.children
        ]
    return [CommandResult(block.command.name, block.command.args, block.body, block.status.value == "ok")]
