"""Plays the runs of an adapter as a handler: what they yield is streamed, asked and recorded.

A run is cut into segments at its checkpoints, and each segment is a stream of the turn. Segments that are in the log
come back from there; the framework is called for the first one that is not, with the states of all checkpoints before
it. So a crash repeats at most one segment, and an answer repeats none. Between tasks, a conversation is what its last
run ended with, kept as a value of the context.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from parley.adapters.adapter import Adapter, Checkpoint, End, Output, Pause, Piece, Progress, Question, Start
from parley.agents.agent import Agent
from parley.contents import Content
from parley.engine.runs.conversations import ConversationTooLargeError
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.tasks import TaskState

if TYPE_CHECKING:
    from parley.agents.turn import ReceivedMessage, Turn

logger = logging.getLogger(__name__)

TOO_LARGE: JsonValue = {"urn:parley:conversation:1": "too large"}
"""What is kept instead of a conversation that exceeds its limit: this task has its result, and the next is refused."""

SEPARATOR = "\n\n"
"""Between texts of different segments: what a model says before a tool call, and after it."""

USAGE_KEY = "usage"
"""The member of a task's metadata with the tokens that it took."""


def agent_of(adapter: Adapter, **settings: Any) -> Agent:
    """An agent that plays an adapter. `settings` are those of `Agent`, and replace what the adapter says of itself.

    `default_name` is for agents that have no name.
    """
    described = adapter.describe()
    defaults: dict[str, Any] = {"description": described.description, "output_modes": described.output_modes}
    name = settings.pop("name", None) or described.name
    default_name = settings.pop("default_name", "Agent")
    agent = Agent(name or default_name, **{**defaults, **settings})

    async def handle(turn: Turn) -> AsyncIterator[Content]:
        async with aclosing(play(adapter, turn)) as contents:
            async for content in contents:
                yield content

    agent.on_message(handle)
    for skill in {skill.id: skill for skill in described.skills}.values():
        declare = agent.skill(id=skill.id, name=skill.name, description=skill.description, tags=skill.tags)
        declare(handle)
    return agent


async def play(adapter: Adapter, turn: Turn) -> AsyncGenerator[Content]:
    """Work on the message of a turn; yields what goes into the response.

    Raises:
        LocalProtocolError: the adapter's run ended without saying how.
        Exception: what the framework raises.
    """
    conversation = await turn.context.conversation.load()
    if conversation == TOO_LARGE:
        await turn.reject("This conversation has become too large. Begin another one, with a new context.")
    run = _LiveRun(adapter, Start(turn=turn, conversation=conversation))
    has_spoken = False
    try:
        for number in count(1):
            last: Piece | None = None
            separator = SEPARATOR if has_spoken else ""
            async for last in turn.stream(f"run {number}", run.segment):
                match last:
                    case str() if last:
                        yield separator + last
                        separator, has_spoken = "", True
                    case Progress(text, metadata):
                        await turn.status(text, metadata=metadata)
                    case Output(parts, None):
                        yield cast("Content", parts)
                    case Output(parts, str(name)):
                        await turn.artifact(name).write(*parts)
                    case _:
                        pass
            match last:
                case Checkpoint(state):
                    run.continues_after(state)
                case Pause(questions, state):
                    await run.close()
                    run.continues_after(state, {question.id: await _answer(turn, question) for question in questions})
                case End():
                    await _finish(turn, last)
                    return
                case _:
                    raise LocalProtocolError(f"A run of {type(adapter).__name__} ended without saying how")
    finally:
        await run.close()


async def _answer(turn: Turn, question: Question) -> JsonValue:
    ask = turn.require_auth if question.needs_auth else turn.ask
    if question.form is not None:
        return await ask(question.text, form=question.form)
    return await _as_json(await ask(question.text))


async def _as_json(answer: ReceivedMessage) -> JsonValue:
    """An answer as JSON: its data, else its text; with files, an object with all of it."""
    if not answer.files:
        return answer.text if answer.data is None else answer.data
    files: list[JsonValue] = [
        {"name": file.name, "mediaType": file.media_type, "bytes": b64encode(await file.read()).decode()}
        for file in answer.files
    ]
    return {"text": answer.text, "data": answer.data, "files": files}


async def _finish(turn: Turn, end: End) -> None:
    """End the task as the framework did."""
    if end.usage:
        turn.annotate({USAGE_KEY: end.usage})
    if end.message or end.state is not TaskState.COMPLETED:
        await turn.end(end.state, cast("Content", end.message))


async def _keep(turn: Turn, conversation: JsonValue) -> None:
    try:
        await turn.context.conversation.save(conversation)
    except ConversationTooLargeError as error:
        logger.warning("Task %s: %s The next message of its conversation is rejected.", turn.task_id, error)
        await turn.context.conversation.save(TOO_LARGE)


class _LiveRun:
    """A run of the framework, which is called when the first segment is wanted that is not in the log."""

    def __init__(self, adapter: Adapter, start: Start) -> None:
        self._adapter = adapter
        self._start = start
        self._pieces: AsyncIterator[Piece] | None = None

    async def segment(self) -> AsyncIterator[Piece]:
        """The pieces up to the next checkpoint, pause or end."""
        if self._pieces is None:
            self._pieces = self._adapter.run(self._start)
        async for piece in self._pieces:
            if isinstance(piece, End) and piece.conversation is not None:
                # Before the end is recorded, and not in the record: it can be large, and is in the context.
                await _keep(self._start.turn, piece.conversation)
                piece = structs.replace(piece, conversation=None)
            yield piece
            if isinstance(piece, Checkpoint | Pause | End):
                return

    def continues_after(self, state: JsonValue, answers: dict[str, JsonValue] | None = None) -> None:
        """Note where the framework is to go on if it must be called again."""
        self._start = replace(self._start, states=(*self._start.states, state), answers=answers or {})

    async def close(self) -> None:
        """Stop the framework's run, if there is one."""
        pieces, self._pieces = self._pieces, None
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
