"""The desk where approvals are requested, decided, settled and withdrawn.

The log of a task decides: a decision counts when it is in the log as the answer to the question, and of several that
come at once the store takes one. Records and waiting tasks follow, and each of these steps can be repeated: by the run
that the decision has continued, by the caller that has decided, by a timer, and at the start of a host.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine

from parley.agents.elsewhere import id_in_name
from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.host.access.principal import Principal, principal_of
from parley.host.access.scopes import Scope
from parley.host.approval_rules import Verdict
from parley.host.approvals.admission import NotWaitingError
from parley.host.approvals.decisions import check_may_decide, outcome_by, read_decision
from parley.host.approvals.outcomes import HOST_NAME, DecidedError, decided_text, outcome_of, telling, waking
from parley.host.approvals.waiting_tasks import WaitingTasks, key_of
from parley.host.data.approvals import Approval, ApprovalOutcome, ApprovalRequest, Approvals
from parley.protocol.errors import ParleyError, UnavailableError
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey

logger = logging.getLogger(__name__)

PARKING_SECONDS = 10.0
"""How long a decision waits for the task, whose request is in the inbox a moment before the task waits for it."""

MOST_REMEMBERED = 1_000
"""Decided approvals that are kept in memory."""


class ApprovalDesk:
    """The approvals of all tasks of an engine, which may be made after the desk."""

    def __init__(self, engine: Callable[[], Engine], approvals: Approvals) -> None:
        self.approvals = approvals
        self.tasks = WaitingTasks(engine)
        self.on_timer: Callable[[], None] = lambda: None
        """Called when a timer was set."""
        self._decided: OrderedDict[TaskKey, Approval] = OrderedDict()
        """The last ones, to tell those who decide too late."""

    # --- what runs do -------------------------------------------------------------------------------------------------

    async def request(self, tenant: str, request: ApprovalRequest) -> None:
        """Put a request into the inbox, before its task waits."""
        await self.approvals.request(tenant, request)
        self.on_timer()

    async def settle(self, tenant: str, request: ApprovalRequest, outcome: ApprovalOutcome) -> Approval:
        """Keep the outcome that the log of a task holds, and wake the tasks that wait with it."""
        approval = await self.approvals.settle(tenant, request, outcome)
        self._decided[key_of(tenant, request.request_id)] = approval
        if len(self._decided) > MOST_REMEMBERED:
            self._decided.popitem(last=False)
        await _logged(self.wake(tenant, request, outcome))
        return approval

    def check_undecided(self, tenant: str, task_id: str) -> None:
        """Refuse a decision for a task at work whose last approval is decided. Raises NotWaitingError."""
        key = key_of(tenant, task_id)
        approval, run = self._decided.get(key), self.tasks.engine.runs.find(key)
        if approval is not None:
            raise NotWaitingError(decided_text(approval))
        if run is not None and id_in_name(run.journal.last_question) is not None:  # decided, and not settled yet
            raise NotWaitingError("The approval is decided already, and the task goes on")

    # --- decisions ----------------------------------------------------------------------------------------------------

    async def decide(
        self, tenant: str, approval_id: str, verdict: Verdict, *, principal: Principal, comment: str = ""
    ) -> Approval:
        """Decide about an approval.

        Raises:
            ApprovalNotFoundError: the tenant has none with this id.
            PermissionDeniedError: the principal may not decide about it.
            DecidedError: it is decided, expired or withdrawn already.
            UnavailableError: its task does not wait yet.
        """
        approval = await self.approvals.get(tenant, approval_id)
        check_may_decide(approval.request, principal)
        approval = await self.refreshed(tenant, approval)
        if approval.state != "pending":
            raise DecidedError(approval)
        return await self._tell(tenant, approval.request, outcome_by(verdict, principal.name, comment))

    async def decide_for(self, message: Message, caller: Caller) -> Message | None:
        """Decide with a message to a task that waits with another one. Returns what continues the former.

        None if the message goes to the task itself: it waits for its own approval, or for none.

        Raises:
            PermissionDeniedError: the sender may not decide about it.
            InvalidParamsError: the message is not a decision.
            NotWaitingError: it is decided already.
        """
        if message.task_id is None or Scope.APPROVE not in caller.scopes:
            return None
        asked = await self.tasks.asked(TaskKey(caller.owner, message.task_id))
        if asked is None or asked[1] == message.task_id:
            return None
        tenant, approval_id = caller.tenant, asked[0]
        principal = principal_of(tenant, caller.scopes, caller.claims)
        check_may_decide((await self.approvals.get(tenant, approval_id)).request, principal)
        verdict, comment = read_decision(message)
        try:
            decided = await self.decide(tenant, approval_id, verdict, principal=principal, comment=comment)
        except DecidedError as error:
            raise NotWaitingError(error.message) from None
        return waking(message.task_id, decided.request, outcome_of(decided))

    async def expire(self, tenant: str, approval_id: str) -> None:
        """Let the default of an approval count, if it is not decided. Raises as `decide`."""
        approval = await self.refreshed(tenant, await self.approvals.get(tenant, approval_id))
        if approval.state == "pending":
            await self._tell(
                tenant, approval.request, ApprovalOutcome(approval.request.default, HOST_NAME, "", "expired")
            )

    async def _tell(self, tenant: str, request: ApprovalRequest, outcome: ApprovalOutcome) -> Approval:
        """Send an outcome to the task that waits for it; it counts if it is the answer in the log then."""
        clock, task_id = self.tasks.engine.clock, request.request_id
        message = telling(self.tasks.engine.new_id(), task_id, request.id, outcome)
        deadline = clock.monotonic() + PARKING_SECONDS
        while not await self.tasks.send(tenant, message):
            found = await self.tasks.outcome(tenant, request)
            if found is not None:
                raise DecidedError(await self.settle(tenant, request, found))
            left = deadline - clock.monotonic()
            if left <= 0:
                raise UnavailableError("The task does not wait for this approval yet; try again in a moment")
            await self.tasks.until_parked(tenant, task_id, seconds=left)
        return await self.settle(tenant, request, outcome)

    # --- what follows from the log ------------------------------------------------------------------------------------

    async def refreshed(self, tenant: str, approval: Approval) -> Approval:
        """An approval as the log of its task has it now. A task that waits has settled everything before that."""
        if approval.state != "pending":
            return approval
        head = await self.tasks.head(tenant, approval.request.request_id)
        if head is not None and head.state is TaskState.INPUT_REQUIRED:
            return approval
        outcome = await self.tasks.outcome(tenant, approval.request)
        return approval if outcome is None else await self.settle(tenant, approval.request, outcome)

    async def wake(self, tenant: str, request: ApprovalRequest, outcome: ApprovalOutcome) -> bool:
        """Continue the tasks that wait with the task of an approval; False if one is still at work.

        Each of them looks at the task that it has delegated to, and waits again if it must.
        """
        are_done = True
        for link in reversed(request.chain):
            head = await self.tasks.head(tenant, link.request_id)
            if head is None or is_terminal(head.state):
                continue
            if head.state is not TaskState.INPUT_REQUIRED:
                are_done = False
            elif (asked := await self.tasks.asked(head.key)) is not None and asked[0] == request.id:
                await self.tasks.send(tenant, waking(link.request_id, request, outcome))
        return are_done

    async def check_waiting(self, key: TaskKey) -> None:
        """Wake a task again that waits with another one, if the decision came before it waited."""
        asked = await self.tasks.asked(key)
        if asked is None or asked[1] == key.task_id:
            return
        approval_id, tenant = asked[0], key.owner.tenant
        approval = await self.refreshed(tenant, await self.approvals.get(tenant, approval_id))
        if approval.state != "pending":
            await self.wake(tenant, approval.request, outcome_of(approval))

    async def check_ended(self, key: TaskKey) -> None:
        """Withdraw what a task waited for that was canceled."""
        request = await self.tasks.request(key)
        if request is not None:
            outcome = await self.tasks.outcome(key.owner.tenant, request)
            if outcome is not None:
                await self.settle(key.owner.tenant, request, outcome)

    async def check_agents(self, tenant: str) -> None:
        """Cancel the tasks of a tenant that wait for approval, and whose agent was deleted."""
        after: tuple[int, str] | None = None
        while page := await self.approvals.list(tenant, is_pending=True, after=after):
            for approval in page:
                await self.check_agent(tenant, approval)
            after = page[-1].sort, page[-1].request.id

    async def check_agent(self, tenant: str, approval: Approval) -> None:
        """The same for one approval."""
        if await self.tasks.cancel_without_agent(tenant, approval.request.request_id):
            await self.refreshed(tenant, approval)

    # --- in the background --------------------------------------------------------------------------------------------

    def task_waits(self, key: TaskKey) -> None:
        """Look at a task that waits for input now: what it waits for may have come a moment before."""
        self.tasks.engine.in_background(_logged(self.check_waiting(key)))

    def task_released(self, key: TaskKey) -> None:
        """Withdraw what a task waited for that has ended without a run."""
        self.tasks.engine.in_background(_logged(self.check_ended(key)))

    def agent_deleted(self, tenant: str) -> None:
        """Cancel the tasks of a tenant that wait for approval, and whose agent was deleted."""
        self.tasks.engine.in_background(_logged(self.check_agents(tenant)))


async def _logged(work: Coroutine[None, None, object]) -> None:
    """Do something that a timer or the next start of the host does again if it fails."""
    try:
        await work
    except ParleyError as error:
        logger.warning("An approval could not be followed now: %s", error)
