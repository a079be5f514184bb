"""What holds for messages while there is other work: what the agent does by default, and which ones are refused."""

from __future__ import annotations

from typing import Protocol

from parley.agents.agent import Agent
from parley.agents.delegation.delegation import depth_of
from parley.agents.elsewhere import id_in_name
from parley.engine.caller import Caller
from parley.engine.runs.run import Run
from parley.host.conversation_turns import ConversationTurns, conversation_key
from parley.host.orchestration.constitution_agent import ConstitutionAgent
from parley.host.origin import origin_of
from parley.host.priorities import LEVELS, NORMAL, current_priority, priority_of
from parley.host.turns import Turns
from parley.host.when_busy import WhenBusy, when_busy_of
from parley.protocol.errors import TaskBusyError
from parley.protocol.messages import Message
from parley.server.security.throttle import too_many


class BusyProgram(Protocol):
    """What works on messages."""

    id: str
    agent: Agent


MOST_LATER_MESSAGES = 1_000
"""To one task while it is at work: more than an agent can answer, and all of them are in memory."""


def check_members(message: Message) -> None:
    """Check what a message says of its priority and of other work. Raises InvalidParamsError."""
    when_busy_of(message, WhenBusy.QUEUE)
    priority_of(message)


def check_task_takes(agent: Agent, message: Message) -> None:
    """Refuse a message to a task that is at work, unless it is to wait or to interrupt.

    Raises:
        TaskBusyError: the message, or else its agent, wants that; or it wants to interrupt an agent of Python.
    """
    wanted, task_id = when_busy_of(message, _when_busy(agent, message)), message.task_id or ""
    if wanted is WhenBusy.REFUSE:
        raise TaskBusyError.for_task(task_id)
    if wanted is WhenBusy.INTERRUPT and not isinstance(agent, ConstitutionAgent):
        raise TaskBusyError.for_task(task_id, f"The task {task_id} is at work, and its agent cannot be interrupted")


def check_not_flooded(turns: Turns, message: Message, caller: Caller) -> None:
    """Refuse more messages to a task at work than are kept in memory for it. Raises RateLimitedError."""
    entry = turns.entry(caller.tenant, message.task_id or "")
    if entry is not None and len(entry.run.journal.later_messages) >= MOST_LATER_MESSAGES:
        raise too_many("messages to this task", 1)


def check_conversation_takes(
    agent: Agent, message: Message, caller: Caller, *, program_id: str, conversations: ConversationTurns
) -> None:
    """Refuse a message that begins a request, and is not to wait, while another one of its conversation is at work.

    Raises:
        TaskBusyError: there is another one.
    """
    if message.context_id is None or depth_of(message):
        return
    if when_busy_of(message, _when_busy(agent, message)) is WhenBusy.REFUSE:
        busy = conversations.busy_task(conversation_key(caller.owner, program_id, message.context_id))
        if busy is not None:
            raise TaskBusyError.for_task(busy, f"The task {busy} of this conversation is at work")


async def check_conversation_takes_elsewhere(
    program: BusyProgram, message: Message, caller: Caller, conversations: ConversationTurns
) -> None:
    """The same about requests in other processes of the host.

    Raises:
        TaskBusyError: there is another one.
        StoreError: that cannot be looked up now.
    """
    if message.context_id is None or depth_of(message):
        return
    if when_busy_of(message, _when_busy(program.agent, message)) is WhenBusy.REFUSE:
        busy = await conversations.busy_elsewhere(conversation_key(caller.owner, program.id, message.context_id))
        if busy is None or busy == message.task_id or await conversations.was_sent(caller.owner, program.id, message):
            return
        raise TaskBusyError.for_task(busy, f"The task {busy} of this conversation is at work")


def interrupts(agent: Agent, run: Run) -> bool:
    """Whether a run cancels other work of its conversation. One that an approver lets go on does not."""
    if id_in_name(run.journal.question_just_answered) is not None:
        return False
    newest = run.journal.messages[-1]
    return when_busy_of(newest, _when_busy(agent, run.message)) is WhenBusy.INTERRUPT


def priority_level(agent: Agent, run: Run) -> int:
    """How urgent a run is."""
    return current_priority(run, default_priority(agent, run.message))


def _when_busy(agent: Agent, message: Message) -> WhenBusy:
    """What an agent does by default, or one that the message itself defines."""
    defined = origin_of(message).agent_def
    if defined is not None:
        return WhenBusy(str(defined.get("when_busy", WhenBusy.QUEUE)))
    return WhenBusy(agent.constitution.when_busy) if isinstance(agent, ConstitutionAgent) else WhenBusy.QUEUE


def default_priority(agent: Agent, message: Message) -> int:
    """How urgent a message is that says nothing of it."""
    defined = origin_of(message).agent_def
    if defined is not None:
        return LEVELS[str(defined.get("priority", "normal"))]
    return LEVELS[agent.constitution.priority] if isinstance(agent, ConstitutionAgent) else NORMAL
