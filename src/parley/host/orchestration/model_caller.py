"""One model call of a turn: what the model is asked, and its reply, whose text is told as it comes.

A call is a stream that is recorded when it has ended. A run that begins again gets finished calls from the log. One
that was cut off is made again, and what it says then replaces what it had said.
"""

from __future__ import annotations

import msgspec

from parley.host.commands.visible_text import VisibleText
from parley.host.models.closing import closing_stream
from parley.host.models.endpoints import BUILTIN_PREFIX
from parley.host.models.model import CommandResult, ModelMessage, ModelRequest, ModelTool, RosterEntry, TokenUsage
from parley.host.orchestration.approval import approve_spend
from parley.host.orchestration.call_guard import ModelCallGuard
from parley.host.orchestration.mcp_tools import model_tools
from parley.host.orchestration.prompt import system_prompt
from parley.host.orchestration.reply_text import ReplyText
from parley.host.orchestration.turn_context import TurnContext

LOWERED = "lowered_max_tokens"
"""The member of a stream's first piece that says to how many tokens a budget has lowered the answer."""


class ModelCaller:
    """The model of one turn, and all that it is told."""

    def __init__(self, context: TurnContext, text: ReplyText) -> None:
        self._context = context
        self._text = text
        models = context.services.models
        self._model_name = context.constitution.model or models.default_model()
        self._model = models.model(self._model_name)
        self.messages: list[ModelMessage] = []
        self.results: list[CommandResult] = []
        """The results of all commands of the present answer."""
        self.last_results = 0
        """How many of them belong to the last reply."""
        self.roster: tuple[RosterEntry, ...] = ()
        self.tools: tuple[ModelTool, ...] = ()
        """The functions that the model may call."""

    async def find_tools(self) -> None:
        """Find out which functions the model may call. The built-in models call none."""
        if not self._model_name.startswith(f"{BUILTIN_PREFIX}/"):
            self.tools = await model_tools(self._context)

    async def call(self, number: int) -> str:
        """What the model replies. Its text is told as it comes, without the lines that are commands."""
        context = self._context
        request = self._request()
        await approve_spend(context, self._model_name, request, f"model call {number}")

        # Without annotations: they would be evaluated for every call, to convert pieces that are JSON anyway.
        async def source():
            async with ModelCallGuard(context, self._model_name, request) as call:
                if call.lowered_to is not None:
                    yield {LOWERED: call.lowered_to}
                async with closing_stream(self._model, call.request) as pieces:
                    async for piece in pieces:
                        call.has_answered = True
                        yield piece if isinstance(piece, str) else msgspec.to_builtins(piece)

        visible, raw, usage, lowered_to = VisibleText(), list[str](), TokenUsage(), None
        async for piece in context.turn.stream(f"model call {number}", source):
            if isinstance(piece, str):
                raw.append(piece)
                await self._text.tell(visible.feed(piece))
            elif LOWERED in piece:
                lowered_to = piece[LOWERED]
            else:
                usage = msgspec.convert(piece, TokenUsage)
        await self._text.tell(visible.flush())
        if lowered_to is not None:
            context.narration.note("budget", agent=context.agent_id, stream_id=0, max_tokens=lowered_to)
        context.narration.model_called(self._model_name, usage)
        await context.count_call(self._model_name, usage)
        return "".join(raw)

    def _request(self) -> ModelRequest:
        context, constitution = self._context, self._context.constitution
        return ModelRequest(
            agent_id=constitution.id,
            system=system_prompt(constitution, today=context.services.now_text()),
            messages=tuple(self.messages),
            query=context.query,
            roster=self.roster,
            results=tuple(self.results),
            last_results=self.last_results,
            max_tokens=constitution.max_tokens,
            temperature=constitution.temperature,
            tools=self.tools,
        )

    def tell_user_message(self, text: str) -> None:
        """Add what the user said. Two messages of the user in a row become one, as providers want it."""
        if self.messages and self.messages[-1].role == "user":
            text = f"{self.messages.pop().text}\n\n{text}"
        self.messages.append(ModelMessage("user", text))
