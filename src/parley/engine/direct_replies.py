"""Direct replies: agents that answer with messages and keep no tasks. The same message gets the same answer.

In a shared store a worker first records that it is at work on the reply; others then wait for it, or for its death.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.program import Program
from parley.protocol.errors import InternalError, TaskNotFoundError
from parley.protocol.messages import Message
from parley.protocol.requests import SendMessageRequest
from parley.stores.interface import Owner, RepeatedSendError, SendKey, StoreError

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)


async def reply_directly(engine: Engine, program: Program, request: SendMessageRequest, caller: Caller) -> Message:
    """What the agent answers to a message. Raises as `Intake.accept` does."""
    message = engine.intake.checked(program, request.message, caller)
    if message.task_id is not None:
        raise TaskNotFoundError.for_task(message.task_id)
    engine.runs.check_capacity(program.id)
    owner, send = caller.owner, engine.sends.key_of(message, program.id)
    while True:
        record = await engine.sends.find(owner, send)
        if record is not None and record.reply is not None:
            return record.reply
        if record is not None and record.task_id is not None:  # of the program that this one replaced
            await engine.sends.expire(owner, send)
            continue
        if record is not None and record.holder in await engine.store.leases.live():
            await engine.clock.sleep(engine.limits.poll_seconds)  # another worker is at work on the reply
            continue
        try:
            return await _answer_once(engine, program, message, caller, send, former=record.holder if record else "")
        except RepeatedSendError:
            continue


async def _answer_once(
    engine: Engine, program: Program, message: Message, caller: Caller, send: SendKey, *, former: str
) -> Message:
    """Answer a message that no live worker is answering; `former` is the dead one that began, or empty.

    Raises:
        RepeatedSendError: another worker was faster.
    """
    owner, sends, worker, record = caller.owner, engine.sends, engine.lease.worker, None
    is_shared = engine.store.is_shared and engine.limits.idempotency_seconds > 0
    since = sends.since() if is_shared else None
    try:
        if is_shared:
            await engine.store.sends.put(owner, send, sends.record(holder=worker), since=since, holder=former)
        reply = await _answer(engine, program, message, caller)
        answered = sends.record(reply=reply)
        await engine.store.sends.put(owner, send, answered, since=since, holder=worker)
        record = answered
        return reply
    except RepeatedSendError:
        raise
    except BaseException:
        if is_shared:
            engine.in_background(_let_others_try(engine, owner, send))
        raise
    finally:
        sends.resolve(owner, send, record)


async def _let_others_try(engine: Engine, owner: Owner, send: SendKey) -> None:
    with suppress(StoreError):  # others then try when this worker has ended
        await engine.sends.expire(owner, send, holder=engine.lease.worker)


async def _answer(engine: Engine, program: Program, message: Message, caller: Caller) -> Message:
    context_id = message.context_id or engine.new_id()
    try:
        async with engine.clock.timeout(engine.limits.run_seconds):
            reply = await program.reply(structs.replace(message, context_id=context_id), caller, engine.files)
    except Exception as exc:
        reference = engine.new_id()
        fields = {"context": context_id, "reference": reference}
        logger.exception("The agent failed to reply (reference %s)", reference, extra=fields)
        raise InternalError(f"The agent failed. Reference: {reference}") from exc
    return structs.replace(reply, message_id=reply.message_id or engine.new_id(), context_id=context_id)
