"""What is looked up in the store before a message is taken, where other processes of the host may know more.

The rules themselves do not wait (`HostedProgram`, `busy_rules`, `quotas`): they look at what this process knows. So
this runs before them, and only in a store that is shared. A message that another process takes between this look and
the rules is not seen: two messages that are not to wait may then both be taken, and the second one waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.agents.elsewhere import id_in_name
from parley.engine.caller import Caller
from parley.engine.runs.journal import Journal
from parley.engine.store_errors import translated
from parley.host.approvals.admission import NotWaitingError, may_be_decision
from parley.host.busy_rules import check_conversation_takes_elsewhere
from parley.host.hosted_program import HostedProgram
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Message
from parley.stores.interface import TaskKey

if TYPE_CHECKING:
    from parley.host.host import Host


class AdmissionElsewhere:
    """Looks at messages for a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def is_needed(self) -> bool:
        """Whether there may be other processes."""
        return self._host.store.is_shared

    async def check(self, program_id: str, message: Message, caller: Caller) -> None:
        """Learn what other processes have counted, and refuse what is not to wait for their work.

        Raises:
            TaskBusyError: a request of the conversation is at work in another process, and the message is not to wait.
            NotWaitingError: it is a decision for a task at work in another process, whose approval is decided.
        """
        if self.is_needed:
            with translated:
                await self._check(program_id, message, caller)

    async def _check(self, program_id: str, message: Message, caller: Caller) -> None:
        host = self._host
        tenant, program = host.tenant(caller.tenant), host.engine.find_program(program_id)
        if tenant is not None:
            await host.tokens_left(tenant)
        if may_be_decision(message, caller):
            await self._check_undecided(TaskKey(caller.owner, message.task_id or ""))
        if isinstance(program, HostedProgram):
            await check_conversation_takes_elsewhere(program, message, caller, host.turns.conversations)

    async def _check_undecided(self, key: TaskKey) -> None:
        engine = self._host.engine
        head = None if engine.runs.find(key) is not None else await engine.store.tasks.head(key)
        if head is None or ends_stream(head.state):
            return
        journal = Journal.read(await engine.views.events(key))
        if id_in_name(journal.last_question) is not None:
            raise NotWaitingError("The approval is decided already, and the task goes on")
