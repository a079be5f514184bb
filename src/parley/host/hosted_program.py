"""An agent as a host runs it: any agent, with the rules of the tenant whose message it works on.

The same class serves constitutions and agents of Python, so that no rule depends on how an agent is written: what a
message may hold, how much a tenant may do, whether its agents may ask questions, and whose turn it is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from msgspec import structs

from parley.agents.agent import Agent
from parley.agents.delegation.delegation import depth_of
from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.engine.program import OnDivergence, Recovery
from parley.engine.runs.journal import Journal
from parley.engine.runs.run import Run
from parley.host.access.principal import PRINCIPAL, require_scope
from parley.host.access.scopes import Scope
from parley.host.approvals.admission import admit_answer, admit_to_running, is_free, may_be_decision
from parley.host.approvals.decisions import OUTCOME
from parley.host.budget_limits import BUDGET, budget_of
from parley.host.busy_rules import (
    check_conversation_takes,
    check_members,
    check_not_flooded,
    check_task_takes,
    interrupts,
    priority_level,
)
from parley.host.data.conversations import CONTEXT_PREFIX
from parley.host.data.stops import AgentStoppedError, Stop
from parley.host.data.tenant import Tenant
from parley.host.draft_access import check_author, names_itself, names_own_draft
from parley.host.lineage import lineage_of
from parley.host.orchestration.constitution_agent import ConstitutionAgent
from parley.host.orchestration.narration import TENANT_DISABLED, UNAUTHORIZED, failure_metadata, stop_metadata
from parley.host.origin import EXTERNAL, ORIGIN
from parley.host.turns import Turns
from parley.protocol.errors import ContentTypeNotSupportedError, InvalidParamsError
from parley.protocol.messages import Message, TextPart
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey


class TenantRules(Protocol):
    """What a program asks its host."""

    turns: Turns
    """Whose turn it is."""

    def at_work_from_outside(self, key: TaskKey) -> AbstractContextManager[None]:
        """A block in which a run is at work that came from outside, whatever its message says."""
        ...

    def tenant(self, tenant_id: str) -> Tenant | None:
        """A tenant; None if it was disabled or never was."""
        ...

    def check_undecided(self, tenant_id: str, task_id: str) -> None:
        """Refuse a decision for a task whose approval is decided. Raises NotWaitingError, which says by whom."""
        ...

    def task_waits(self, key: TaskKey) -> None:
        """Look at a task that waits for input now."""
        ...

    def task_released(self, key: TaskKey) -> None:
        """Look at a task that has ended without a run."""
        ...

    def check_quotas(self, tenant: Tenant) -> None:
        """Count one more request of a tenant. Raises RateLimitedError."""
        ...

    def check_message_quotas(self, tenant: Tenant) -> None:
        """Count one more message of a tenant to a task that is at work. Raises RateLimitedError."""
        ...

    def check_budgets(self, tenant: Tenant, agent_id: str) -> None:
        """Refuse a request if the budget of the tenant or the agent is used up. Raises RateLimitedError."""
        ...

    def stop_of(self, tenant_id: str, agent_id: str) -> Stop | None:
        """Why an agent of a tenant is stopped; None if it is not."""
        ...


class HostedProgram:
    """One agent of one tenant, or of all tenants; `id` is the engine's name for it."""

    __slots__ = ("_rules", "agent", "id")

    def __init__(self, id: str, agent: Agent, rules: TenantRules) -> None:
        self.id = id
        self.agent = agent
        self._rules = rules

    @property
    def recovery(self) -> Recovery:
        """As the agent says."""
        return self.agent.recovery

    @property
    def run_attempts(self) -> int:
        """As the agent says."""
        return self.agent.run_attempts

    @property
    def on_divergence(self) -> OnDivergence:
        """As the agent says."""
        return self.agent.on_divergence

    @property
    def waits_for_turn(self) -> bool:
        """Always: tenants take turns."""
        return True

    @property
    def replies_directly(self) -> bool:
        """Never: a host keeps a task of every message."""
        return False

    def may_reply(self, message: Message, caller: Caller) -> bool:
        """Never: see `replies_directly`."""
        return False

    # --- before a run -------------------------------------------------------------------------------------------------

    def admit(self, message: Message, caller: Caller) -> None:
        """Refuse messages that pretend to come from the host, and parts that the tenant does not take.

        Raises: as `Agent.admit`, and AgentStoppedError.
        """
        if EXTERNAL in caller.claims:
            self._admit_from_outside(message, caller)
        budget_of(message)
        check_members(message)
        self._check_stopped(caller)
        if not may_be_decision(message, caller):
            self.agent.admit(message, caller)

    def _admit_from_outside(self, message: Message, caller: Caller) -> None:
        is_own = names_own_draft(message, caller) or names_itself(message, caller)
        if ORIGIN in message.metadata and not is_own:
            raise InvalidParamsError("This member is reserved", path=f"$.message.metadata['{ORIGIN}']")
        if OUTCOME in message.metadata:
            raise InvalidParamsError("This member is reserved", path=f"$.message.metadata['{OUTCOME}']")
        is_new = message.task_id is None  # otherwise the context must be that of the task
        if is_new:
            require_scope(caller, Scope.CALL)
        if not is_new and BUDGET in message.metadata:
            text = "Only the first message of a task can set its budget"
            raise InvalidParamsError(text, path=f"$.message.metadata['{BUDGET}']")
        if is_new and message.context_id is not None and message.context_id.startswith(CONTEXT_PREFIX):
            raise InvalidParamsError(f"A context id must not begin with {CONTEXT_PREFIX}", path="$.message.contextId")
        if all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts):
            raise InvalidParamsError("The message has no text", path="$.message.parts")
        tenant = self._rules.tenant(caller.tenant)
        if (tenant is not None and tenant.settings.file_parts) or may_be_decision(message, caller):
            return
        self._check_text(message)

    def _check_text(self, message: Message) -> None:
        for number, part in enumerate(message.parts):
            if not isinstance(part, TextPart):
                raise ContentTypeNotSupportedError(
                    "This agent takes text parts only", path=f"$.message.parts[{number}]"
                )

    def admit_to_task(self, journal: Journal, caller: Caller) -> None:
        """Refuse callers that may not use what works on the task.

        Raises: as `Agent.admit_to_task`, AgentStoppedError, and PermissionDeniedError for the draft of another caller.
        """
        self._check_stopped(caller)
        check_author(journal, caller)
        self.agent.admit_to_task(journal, caller)

    def admit_answer(self, journal: Journal, caller: Caller) -> None:
        """Refuse all but decisions of approvers for a task that waits for approval.

        Raises: as `admission.admit_answer`, and as `admit`.
        """
        if not admit_answer(journal, caller):
            self._admit_late(journal.messages[-1], caller)

    def admit_while_running(self, message: Message, caller: Caller) -> None:
        """Refuse decisions about what is decided, and messages that are not to wait; count the others.

        Raises: as `admission.admit_to_running`, as `admit` and `check_task_takes`, and RateLimitedError.
        """
        if may_be_decision(message, caller):
            self._rules.check_undecided(caller.tenant, message.task_id or "")
        admit_to_running(message, caller)
        self._admit_late(message, caller)
        check_task_takes(self.agent, message)
        check_not_flooded(self._rules.turns, message, caller)
        tenant = self._rules.tenant(caller.tenant)
        if tenant is not None and (EXTERNAL in caller.claims or PRINCIPAL in caller.claims):
            self._rules.check_message_quotas(tenant)

    def _admit_late(self, message: Message, caller: Caller) -> None:
        """Look at what `admit` has let pass, in a message that turns out not to be a decision."""
        if may_be_decision(message, caller):
            tenant = self._rules.tenant(caller.tenant)
            if tenant is None or not tenant.settings.file_parts:
                self._check_text(message)
            self.agent.admit(message, caller)

    def check_room(self, message: Message, caller: Caller) -> None:
        """Count a request of the tenant, but not what its agents delegate to one another.

        Raises: RateLimitedError, AgentStoppedError for an agent that was stopped while a message was looked at, and
            TaskBusyError.
        """
        self._check_stopped(caller)
        if is_free(message, caller):
            return
        conversations = self._rules.turns.conversations
        check_conversation_takes(self.agent, message, caller, program_id=self.id, conversations=conversations)
        tenant = self._rules.tenant(caller.tenant)
        if tenant is not None and (EXTERNAL in caller.claims or depth_of(message) == 0):
            self._rules.check_budgets(tenant, self.agent.id)
            self._rules.check_quotas(tenant)

    def _check_stopped(self, caller: Caller) -> None:
        stop = self._rules.stop_of(caller.tenant, self.agent.id)
        if stop is not None:
            raise AgentStoppedError(stop)

    # --- a run --------------------------------------------------------------------------------------------------------

    async def run(self, run: Run) -> None:
        """Work on a task when it is its turn."""
        stop = self._rules.stop_of(run.key.owner.tenant, self.agent.id)
        if stop is not None:  # it was at work when the host crashed
            await self._fail_stopped(run, stop)
            return
        tenant = self._rules.tenant(run.key.owner.tenant)
        run.may_ask = tenant is not None and tenant.settings.input_required
        depth, is_from_outside = depth_of(run.message), EXTERNAL in run.caller.claims
        # What it delegates comes from the host, and is part of the same request.
        lineage = lineage_of(run)
        run.caller = structs.replace(run.caller, claims=lineage.claims)
        turn = self._rules.turns.taken(
            run,
            priority=priority_level(self.agent, run),
            principal=lineage.principal,
            interrupts=interrupts(self.agent, run),
        )
        with self._rules.at_work_from_outside(run.key) if is_from_outside else nullcontext():
            async with turn:
                await self._run(run, depth)

    async def _run(self, run: Run, depth: int) -> None:
        if not isinstance(self.agent, ConstitutionAgent):  # which checks and tells more than that
            if self._rules.tenant(run.key.owner.tenant) is None:
                run.final_metadata = failure_metadata(TENANT_DISABLED, UNAUTHORIZED)
                await run.fail(TENANT_DISABLED)
                return
            run.emissions.note("stream_start", {"agent": self.agent.id, "stream_id": 0, "depth": depth})
        try:
            await self.agent.run(run)
        finally:
            if run.state is TaskState.INPUT_REQUIRED:
                self._rules.task_waits(run.key)

    async def _fail_stopped(self, run: Run, stop: Stop) -> None:
        run.final_metadata = {**run.final_metadata, **stop_metadata(stop)}
        await run.fail(stop.text)
        run.engine.in_background(self.release(run.engine, run.key))

    async def release(self, engine: Engine, key: TaskKey) -> None:
        """Cancel what a task has begun elsewhere, and withdraw what it waited for."""
        self._rules.task_released(key)
        await self.agent.release(engine, key)
