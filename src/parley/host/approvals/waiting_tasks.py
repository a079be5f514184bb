"""The tasks that wait for approvals: what their logs say, and messages of the host to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from parley.agents.elsewhere import asked_elsewhere, id_in_name, question_name
from parley.engine.caller import Caller
from parley.engine.endings import end_task
from parley.engine.engine import Engine
from parley.engine.reading.views import fold_stored
from parley.engine.runs.journal import Journal
from parley.host.approvals.admission import NotWaitingError, request_in
from parley.host.approvals.decisions import outcome_in
from parley.host.approvals.outcomes import WITHDRAWN
from parley.host.data.approvals import ApprovalOutcome, ApprovalRequest
from parley.host.origin import host_caller
from parley.protocol.errors import TaskFinishedError, TaskNotFoundError
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.stores.interface import ConflictError, TaskHead, TaskKey

POLL_SECONDS = 0.1
"""Between two looks at a task that another process works on."""


def key_of(tenant: str, task_id: str) -> TaskKey:
    """A task of a tenant."""
    return TaskKey(host_caller(tenant).owner, task_id)


class WaitingTasks:
    """The tasks of an engine, which may be made later than this."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine_of = engine

    @property
    def engine(self) -> Engine:
        """The engine."""
        return self._engine_of()

    async def head(self, tenant: str, task_id: str) -> TaskHead | None:
        """What is known of a task without its events; None if it is gone."""
        return await self.engine.store.tasks.head(key_of(tenant, task_id))

    async def outcome(self, tenant: str, request: ApprovalRequest) -> ApprovalOutcome | None:
        """How an approval ended, by the log of its task; None if it has not.

        A task has withdrawn it that has ended or is gone, or that waits for something else: a message has interrupted
        it before it waited.
        """
        head = await self.head(tenant, request.request_id)
        if head is None:
            return WITHDRAWN
        journal = Journal.read(await self.engine.views.events(head.key))
        name = question_name(request.id)
        for answer in journal.answers_to(name):
            outcome = outcome_in(answer, request.id)
            if outcome is not None:
                return outcome
        waits_for_another = head.state is TaskState.INPUT_REQUIRED and journal.last_question != name
        return WITHDRAWN if is_terminal(head.state) or waits_for_another else None

    async def request(self, key: TaskKey) -> ApprovalRequest | None:
        """The request that a task waited for last; None if there was none, or if it belongs to another task."""
        journal = Journal.read(await self.engine.views.events(key))
        approval_id = id_in_name(journal.last_question)
        return None if approval_id is None else request_in(journal, approval_id)

    async def asked(self, key: TaskKey) -> tuple[str, str] | None:
        """The approval that a task waits for now, and the task that it belongs to; None if it waits for none."""
        (stored,) = await self.engine.store.tasks.read_many([key], artifacts=False)
        if stored is None or stored.head.state is not TaskState.INPUT_REQUIRED:
            return None
        return asked_elsewhere(fold_stored(stored).status)

    async def send(self, tenant: str, message: Message) -> bool:
        """Whether a task has taken a message of the host as the answer that it waits for."""
        head = await self.head(tenant, message.task_id or "")
        if head is None:
            return False
        request = SendMessageRequest(message, SendConfiguration(return_immediately=True))
        owner = head.key.owner
        try:
            caller = Caller(owner.name, owner.tenant, version=head.created_in)
            await self.engine.agent(head.agent).send_message(request, caller)
        except (NotWaitingError, TaskFinishedError, TaskNotFoundError):
            return False
        return True

    async def until_parked(self, tenant: str, task_id: str, *, seconds: float) -> None:
        """Wait a while for the run of a task to end."""
        run = self.engine.runs.find(key_of(tenant, task_id))
        if run is None:
            await self.engine.clock.sleep(min(POLL_SECONDS, seconds))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await run.wait_for_end()

    async def cancel_without_agent(self, tenant: str, task_id: str) -> bool:
        """Cancel a task that waits and whose agent was deleted; False if its agent is there.

        An agent that all tenants share has no tenant in its id. The operator may give it again, so its tasks wait.
        """
        head = await self.head(tenant, task_id)
        if head is None or "/" not in head.agent or self.engine.find_program(head.agent) is not None:
            return False
        if head.state is TaskState.INPUT_REQUIRED:
            with suppress(ConflictError):  # it was decided just now, or canceled
                await end_task(self.engine, head, TaskState.CANCELED, "The agent was deleted.")
        return True
