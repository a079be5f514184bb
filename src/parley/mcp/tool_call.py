"""One call of an agent's tool: a message to the agent, its progress, its questions, and its answer as the result.

A question of the agent becomes an elicitation, if the client can ask its user; the answer goes to the same task. A
client of 2026-07-28 gets the question as an interim result and calls again with the answer. A call that is canceled
cancels the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import CallToolResult, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from parley.client.client import Client
from parley.client.errors import StreamTruncatedError
from parley.client.reply import Reply, Update
from parley.contents import Content
from parley.mcp.arguments import InvalidArgumentError, ToolArguments
from parley.mcp.input_state import InputState
from parley.mcp.progress import ProgressReporter
from parley.mcp.questions import ANSWER, ElicitedQuestion, InvalidAnswerContentError, is_for_caller, question_in
from parley.mcp.results import error_result, result_of
from parley.protocol.errors import ParleyError
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task

logger = logging.getLogger(__name__)

MAX_QUESTIONS = 20
"""Questions that are elicited in one call. After them, the next one is a result."""

ELICITATION_SECONDS = 3_600.0
"""How long a user may take to answer. Then the question is the result, and the task goes on waiting."""

CANCEL_SECONDS = 10.0
"""For the cancellation of a task whose call was canceled."""

LINKS_SINCE = "2025-06-18"
"""The first version of MCP with links to resources in results."""


class ToolCall:
    """One call. `task_id` is known from the agent's first answer on."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], client: Client, progress: ProgressReporter) -> None:
        self._ctx = ctx
        self._client = client
        self._progress = progress
        self.task_id: str | None = None
        self._is_over = False
        self._is_known = asyncio.Event()
        """Set when the agent has answered the message, so that its task is known if there is one."""
        self._reading: asyncio.Task[Reply] | None = None

    async def run(self, arguments: ToolArguments) -> CallToolResult | InputRequiredResult:
        """Send the message, and follow the task to its end or to a question that remains.

        Raises:
            ParleyError: the agent refuses, or cannot be reached.
        """
        task: Task | None = None
        if arguments.task_id is not None:
            known = await self._client.get(arguments.task_id)
            self.task_id = arguments.task_id
            if not arguments.contents:
                return await self._settle(await self._awaited(known))
            task = known.task
        reply = await self._send(*arguments.contents, task=task, context=arguments.context_id, skill=arguments.skill)
        return await self._settle(reply)

    async def resume(self, state: InputState, answer: ElicitResult | None) -> CallToolResult | InputRequiredResult:
        """Go on with a task whose question was an interim result, with the user's answer.

        Raises: as `run`.
        """
        reply = await self._client.get(state.task_id)
        self.task_id = state.task_id
        if is_for_caller(reply) and _question_id(reply) == state.question_id:
            if answer is None:
                return self._ask_by_result(reply, question_in(reply))
            answered = await self._apply(answer, reply, question_in(reply))
            if isinstance(answered, CallToolResult):
                return answered
            reply = answered
        return await self._settle(await self._awaited(reply))  # another call may have answered

    async def _awaited(self, reply: Reply) -> Reply:
        """The task when it is not at work any more."""
        if reply.is_finished or reply.needs_input or self.task_id is None:
            return reply
        return await self._follow(self._client.subscribe(self.task_id))

    async def abandon(self, *, cancel: bool) -> None:
        """Stop following the task, because the call was canceled; with `cancel`, cancel the task too."""
        reading = self._reading
        if cancel:
            with anyio.move_on_after(CANCEL_SECONDS):
                await self._cancel_task(reading)
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _cancel_task(self, reading: asyncio.Task[Reply] | None) -> None:
        if reading is not None and self.task_id is None:  # the message is on its way: its task must be canceled too
            known = asyncio.ensure_future(self._is_known.wait())
            await asyncio.wait({known, reading}, return_when=asyncio.FIRST_COMPLETED)
            known.cancel()
        if self.task_id is None or self._is_over:
            return
        try:
            await self._client.cancel(self.task_id)
        except ParleyError as error:
            logger.info("The task of a canceled call was not canceled: %s", error)

    # --- the task -----------------------------------------------------------------------------------------------------

    async def _send(
        self,
        *contents: Content,
        task: Task | None,
        context: str | None = None,
        skill: str | None = None,
        message_id: str | None = None,
    ) -> Reply:
        stream = self._client.stream(*contents, task=task, context=context, skill=skill, message_id=message_id)
        return await self._follow(stream)

    async def _follow(self, updates: AsyncGenerator[Update]) -> Reply:
        """The answer at the end of a stream. Reading goes on for a moment if the call is canceled; see `abandon`."""
        self._is_over = False
        self._reading = asyncio.create_task(self._read(updates))
        reply = await asyncio.shield(self._reading)
        self._reading = None
        return reply

    async def _read(self, updates: AsyncGenerator[Update]) -> Reply:
        content: Task | Message | None = None
        last: Update | None = None
        async with aclosing(updates):
            async for last in updates:
                self.task_id = last.seen.task_id or self.task_id
                self._is_over = is_terminal(last.state)
                self._is_known.set()
                self._progress.add(last)
        if last is not None:
            content = last.task or (last.event if isinstance(last.event, Message) else None)
        if content is None:
            raise StreamTruncatedError("The agent said nothing", task_id=self.task_id)
        return Reply(self._client, content)

    # --- questions ----------------------------------------------------------------------------------------------------

    async def _settle(self, reply: Reply) -> CallToolResult | InputRequiredResult:
        """The result of a task that is not at work; questions are asked and answered first, where that is possible."""
        asked = 0
        while is_for_caller(reply) and self._can_elicit() and asked < MAX_QUESTIONS:
            question = question_in(reply)
            if self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return self._ask_by_result(reply, question)
            answer = await self._elicit(question)
            if answer is None:
                break
            try:
                answered = await self._apply(answer, reply, question)
            except InvalidArgumentError as error:  # the client did not check the form: its user sees why, once more
                return error_result(f"The answer was not accepted: {error}", task_id=self.task_id)
            if isinstance(answered, CallToolResult):
                return answered
            reply = answered
            asked += 1
        return result_of(reply, links=is_version_at_least(self._ctx.protocol_version, LINKS_SINCE))

    def _can_elicit(self) -> bool:
        """Whether the client says that it can show forms. Before 2025-11-25, elicitation has no other mode."""
        capabilities = self._ctx.session.client_capabilities
        mode = capabilities.elicitation if capabilities is not None else None
        return mode is not None and (mode.form is not None or mode.url is None)

    async def _elicit(self, question: ElicitedQuestion) -> ElicitResult | None:
        """The user's answer; None if there is none in time, or no way to ask."""
        try:
            async with asyncio.timeout(ELICITATION_SECONDS):
                return await self._ctx.session.elicit_form(question.text, question.schema, self._ctx.request_id)
        except (TimeoutError, NoBackChannelError):
            return None
        except MCPError as error:  # the client fails to ask: the caller can still answer with another call
            logger.info("The client answers an elicitation with an error: %s", error)
            return None

    def _ask_by_result(self, reply: Reply, question: ElicitedQuestion) -> InputRequiredResult:
        form = ElicitRequestFormParams(message=question.text, requested_schema=question.schema)
        state = InputState(self.task_id or "", _question_id(reply))
        return InputRequiredResult(input_requests={ANSWER: ElicitRequest(params=form)}, request_state=state.text)

    async def _apply(self, answer: ElicitResult, reply: Reply, question: ElicitedQuestion) -> Reply | CallToolResult:
        """Send the user's answer to the task. A user who declines cancels it; one who only looks away leaves it."""
        if answer.action == "decline" and reply.task is not None:
            await self._client.cancel(reply.task)
            self._is_over = True
            return error_result("The user declined to answer, and the task was canceled.")
        if answer.action != "accept":
            return result_of(reply, links=is_version_at_least(self._ctx.protocol_version, LINKS_SINCE))
        try:
            content = question.answer(answer.content)
        except InvalidAnswerContentError as error:
            raise InvalidArgumentError(f"$.params.inputResponses.{ANSWER}.content", str(error)) from None
        # The same answer to the same question has the same id, so that a repeated request answers it once.
        name = f"urn:parley:mcp:{self.task_id}:{_question_id(reply)}"
        return await self._send(content, task=reply.task, message_id=str(uuid5(NAMESPACE_URL, name)))


def _question_id(reply: Reply) -> str:
    """What tells a question of a task from the next one: the id of its message, or when it was asked."""
    task = reply.task
    if task is None:
        return ""
    asked = task.status.message
    if asked is not None and asked.message_id:
        return asked.message_id
    return task.status.timestamp.isoformat() if task.status.timestamp else ""
