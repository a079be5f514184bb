"""How a handler ends with a message: its task is completed, rejected or failed, or there is a reply and no task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from msgspec import structs

from parley.agents.handlers import Say
from parley.contents import InvalidContentError, parts_of
from parley.engine.runs.run import Run, Stopped
from parley.protocol.messages import Message, Role
from parley.protocol.tasks import TaskState


async def end_with(run: Run, state: TaskState, contents: tuple[Any, ...]) -> NoReturn:
    """Put the task into a final state with a message, and end the handler. Raises Stopped."""
    await run.end(state, message_of(run, contents))
    raise Stopped


async def reply_with(run: Run, contents: tuple[Any, ...]) -> NoReturn:
    """Answer with a message instead of a task, and end the handler; a task that exists is completed with it.

    Raises:
        Stopped: the message was answered.
        InvalidContentError: there is nothing to say.
    """
    message = message_of(run, contents)
    if message is None:
        raise InvalidContentError("A direct reply cannot be empty")
    await run.reply(message)
    raise Stopped


async def reply_with_all(run: Run, handle: Callable[[Say], Awaitable[None]]) -> NoReturn:
    """Answer with all that a function returns or yields, or with the message that it ends with.

    Raises: as `reply_with`.
    """
    contents: list[Any] = []

    async def say(result: object) -> bool:
        if isinstance(result, Message):
            contents[:] = [result]
            return True
        contents.extend(parts_of(result))
        return False

    await handle(say)
    await reply_with(run, tuple(contents))


def message_of(run: Run, contents: tuple[Any, ...]) -> Message | None:
    """The message that carries contents, or None if there are none.

    A message of the author's own keeps its id, metadata, extensions and references; its role, task and context are the
    task's.

    Raises:
        InvalidContentError: A2A cannot carry such contents, or the message has no parts.
    """
    if len(contents) == 1 and isinstance(contents[0], Message):
        message = contents[0]
        if not message.parts:
            raise InvalidContentError("A message needs at least one part")
        return structs.replace(
            message,
            message_id=message.message_id or run.engine.new_id(),
            role=Role.AGENT,
            context_id=run.context_id,
            task_id=run.key.task_id,
        )
    parts = parts_of(contents)
    return run.agent_message(parts) if parts else None
