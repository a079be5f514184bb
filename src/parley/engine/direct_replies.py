"""Direct replies: agents that answer with messages and keep no tasks. The same message gets the same answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.program import Program
from parley.protocol.errors import InternalError, TaskNotFoundError
from parley.protocol.messages import Message
from parley.protocol.requests import SendMessageRequest

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)


async def reply_directly(engine: Engine, program: Program, request: SendMessageRequest, caller: Caller) -> Message:
    """What the agent answers to a message. Raises as `Intake.accept` does."""
    message = engine.intake.checked(program, request.message, caller)
    if message.task_id is not None:
        raise TaskNotFoundError.for_task(message.task_id)
    engine.runs.check_capacity(program.id)
    sends = engine.sends
    send = sends.key_of(message, program.id)
    record = await sends.find(caller.owner, send)
    if record is not None and record.reply is not None:
        return record.reply
    record = None
    try:
        reply = await _answer(engine, program, message)
        record = sends.record(reply=reply)
        await engine.store.sends.put(caller.owner, send, record)
        return reply
    finally:
        sends.resolve(caller.owner, send, record)


async def _answer(engine: Engine, program: Program, message: Message) -> Message:
    context_id = message.context_id or engine.new_id()
    try:
        async with engine.clock.timeout(engine.limits.run_seconds):
            reply = await program.reply(structs.replace(message, context_id=context_id))
    except Exception as exc:
        reference = engine.new_id()
        fields = {"context": context_id, "reference": reference}
        logger.exception("The agent failed to reply (reference %s)", reference, extra=fields)
        raise InternalError(f"The agent failed. Reference: {reference}") from exc
    return structs.replace(reply, message_id=reply.message_id or engine.new_id(), context_id=context_id)
