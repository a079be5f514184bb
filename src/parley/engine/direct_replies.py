"""Direct replies: messages that are answered with a message, without a task. The same message gets the same answer.

A run whose program may reply begins without a task. It creates its task when it needs one, or ends with a reply; until
then nothing of it is stored, and a crash leaves nothing behind. In a shared store a worker first records that it is at
work on the message; others then wait for it, or for its death.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.engine.caller import Caller
from parley.engine.program import Program
from parley.protocol.errors import TaskNotFoundError
from parley.protocol.messages import Message
from parley.protocol.requests import SendMessageRequest
from parley.protocol.versions import Version
from parley.stores.interface import Owner, SendKey, SendRecord, StoreError

if TYPE_CHECKING:
    from parley.engine.engine import Engine
    from parley.engine.runs.run import Run


def may_reply(program: Program, request: SendMessageRequest, caller: Caller) -> bool:
    """Whether a message may be answered without a task.

    Not if the sender wants a task to look at later, or speaks 0.1, which has tasks only.

    Raises:
        TaskNotFoundError: the message is for a task, and the agent keeps none.
    """
    message, configuration = request.message, request.configuration
    if message.task_id is not None:
        if program.replies_directly:
            raise TaskNotFoundError.for_task(message.task_id)
        return False
    if program.replies_directly:
        return True
    if not program.may_reply(message, caller):  # first, because few do
        return False
    is_waiting = not configuration.return_immediately and configuration.push_config is None
    return is_waiting and caller.version is not Version.V0_1


async def find_send(engine: Engine, owner: Owner, send: SendKey) -> SendRecord | None:
    """What became of a message, as `Sends.find`; if another worker is at work on its reply, after that."""
    while True:
        record = await engine.sends.find(owner, send)
        if record is None or not record.holder or record.task_id is not None or record.reply is not None:
            return record
        if not await engine.claims.may_be_alive(record.holder):
            return record  # its worker has died
        await engine.clock.sleep(engine.limits.poll_seconds)


def claims_messages(engine: Engine) -> bool:
    """Whether a worker must record that it is at work on a reply, because another one may get the same message."""
    return engine.store.is_shared and engine.limits.idempotency_seconds > 0


async def claim_message(engine: Engine, owner: Owner, send: SendKey, *, former: str) -> str:
    """Record that this worker is at work on the reply to a message; `former` is the dead one that was, or empty.

    Return the worker that the store has at work on it now, or an empty text.

    Raises:
        RepeatedSendError: another worker was faster.
    """
    if not claims_messages(engine):
        return ""
    claim = engine.sends.record(holder=engine.lease.worker)
    try:
        await engine.store.sends.put(owner, send, claim, since=engine.sends.since(), holder=former)
    except asyncio.CancelledError:  # its caller has disconnected, and the claim may be stored
        withdraw_claim(engine, owner, send)
        raise
    return engine.lease.worker


def withdraw_claim(engine: Engine, owner: Owner, send: SendKey) -> None:
    """Let other workers try to answer a message that this one could not answer."""
    if claims_messages(engine):
        engine.in_background(_withdraw(engine, owner, send))


async def _withdraw(engine: Engine, owner: Owner, send: SendKey) -> None:
    with suppress(StoreError):  # others then try when this worker has ended
        await engine.sends.expire(owner, send, holder=engine.lease.worker)


async def store_reply(engine: Engine, owner: Owner, send: SendKey, reply: Message) -> SendRecord:
    """Store what a message was answered with, and return its record.

    Raises:
        RepeatedSendError: another worker has taken the message over.
        StoreError: the store refused.
    """
    record = engine.sends.record(reply=reply)
    since = engine.sends.since() if claims_messages(engine) else None
    await engine.store.sends.put(owner, send, record, since=since, holder=engine.lease.worker)
    return record


async def wait_for_decision(run: Run, decision: asyncio.Future[None], seconds: float | None) -> bool:
    """Wait until a run has a task or a reply; if that takes too long, it gets a task, and this returns False.

    Raises:
        AbandonedError: another worker has taken the message over.
        A2AError: the run ended without either.
    """
    done, _ = await asyncio.wait({decision}, timeout=None if run.program.replies_directly else seconds)
    if not done:
        run.need_task()
    if run.direct_reply is None:
        if run.failure is not None:
            raise run.failure
        if claims_messages(run.engine):
            await run.settle()
    return bool(done)
