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
from parley.host.data.conversations import CONTEXT_PREFIX
from parley.host.data.tenant import Tenant
from parley.host.fair_gate import FairGate
from parley.host.orchestration.constitution_agent import ConstitutionAgent
from parley.host.orchestration.narration import TENANT_DISABLED, UNAUTHORIZED, failure_metadata
from parley.host.origin import EXTERNAL, ORIGIN
from parley.protocol.errors import ContentTypeNotSupportedError, InvalidParamsError
from parley.protocol.messages import Message, TextPart
from parley.stores.interface import TaskKey


class TenantRules(Protocol):
    """What a program asks its host."""

    def gate(self, depth: int) -> FairGate:
        """Lets a number of runs through at a time, of those that are so deep in a chain of delegations."""
        ...

    def at_work_from_outside(self, key: TaskKey) -> AbstractContextManager[None]:
        """A block in which a run is at work that came from outside, whatever its message says."""
        ...

    def tenant(self, tenant_id: str) -> Tenant | None:
        """A tenant; None if it was disabled or never was."""
        ...

    def check_quotas(self, tenant: Tenant) -> None:
        """Count one more request of a tenant. Raises RateLimitedError."""
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
    def replies_directly(self) -> bool:
        """Never: a host keeps a task of every message."""
        return False

    def may_reply(self, message: Message, caller: Caller) -> bool:
        """Never: see `replies_directly`."""
        return False

    # --- before a run -------------------------------------------------------------------------------------------------

    def admit(self, message: Message, caller: Caller) -> None:
        """Refuse messages that pretend to come from the host, and parts that the tenant does not take.

        Raises: as `Agent.admit`.
        """
        if EXTERNAL in caller.claims:
            self._admit_from_outside(message, caller)
        self.agent.admit(message, caller)

    def _admit_from_outside(self, message: Message, caller: Caller) -> None:
        if ORIGIN in message.metadata:
            raise InvalidParamsError("This member is reserved", path=f"$.message.metadata['{ORIGIN}']")
        is_new = message.task_id is None  # otherwise the context must be that of the task
        if is_new and message.context_id is not None and message.context_id.startswith(CONTEXT_PREFIX):
            raise InvalidParamsError(f"A context id must not begin with {CONTEXT_PREFIX}", path="$.message.contextId")
        if all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts):
            raise InvalidParamsError("The message has no text", path="$.message.parts")
        tenant = self._rules.tenant(caller.tenant)
        if tenant is not None and tenant.settings.file_parts:
            return
        for number, part in enumerate(message.parts):
            if not isinstance(part, TextPart):
                raise ContentTypeNotSupportedError(
                    "This agent takes text parts only", path=f"$.message.parts[{number}]"
                )

    def admit_to_task(self, journal: Journal, caller: Caller) -> None:
        """Refuse callers that may not use what works on the task. Raises as `Agent.admit_to_task`."""
        self.agent.admit_to_task(journal, caller)

    def check_room(self, message: Message, caller: Caller) -> None:
        """Count a request of the tenant, but not what its agents delegate to one another. Raises RateLimitedError."""
        tenant = self._rules.tenant(caller.tenant)
        if tenant is not None and (EXTERNAL in caller.claims or depth_of(message) == 0):
            self._rules.check_quotas(tenant)

    # --- a run --------------------------------------------------------------------------------------------------------

    async def run(self, run: Run) -> None:
        """Work on a task when it is the tenant's turn.

        Runs wait for those that they delegate to. So each depth has a gate of its own: the deepest ones always go on.
        """
        tenant = self._rules.tenant(run.key.owner.tenant)
        run.may_ask = tenant is not None and tenant.settings.input_required
        depth, is_from_outside = depth_of(run.message), EXTERNAL in run.caller.claims
        run.caller = structs.replace(run.caller, claims={})  # what it delegates comes from the host
        gate, tenant_id = self._rules.gate(depth), run.key.owner.tenant
        run.is_queued = not gate.has_room(tenant_id)  # a crash while it waits is not its fault
        with self._rules.at_work_from_outside(run.key) if is_from_outside else nullcontext():
            async with gate.entered(tenant_id):
                run.is_queued = False
                await self._run(run, depth)

    async def _run(self, run: Run, depth: int) -> None:
        if not isinstance(self.agent, ConstitutionAgent):  # which checks and tells more than that
            if self._rules.tenant(run.key.owner.tenant) is None:
                run.final_metadata = failure_metadata(TENANT_DISABLED, UNAUTHORIZED)
                await run.fail(TENANT_DISABLED)
                return
            run.emissions.note("stream_start", {"agent": self.agent.id, "stream_id": 0, "depth": depth})
        await self.agent.run(run)

    async def release(self, engine: Engine, key: TaskKey) -> None:
        """Cancel what a task has begun elsewhere."""
        await self.agent.release(engine, key)
