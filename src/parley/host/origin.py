"""Where a run comes from: A2A or the native API, and in which conversation. It travels in the metadata of the message.

Only the host writes it: a message from outside that has it is refused by `HostedProgram.admit`. So it is known after a
restart as well, and the agents that a run delegates to inherit it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from parley.engine.caller import Caller
from parley.host.budget_limits import BudgetLimit
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message

ORIGIN = "urn:parley:host-origin:1"
"""The member of a message's metadata."""

EXTERNAL = "urn:parley:host-external"
"""The claim of callers whose messages come from outside the host."""

Surface: TypeAlias = Literal["a2a", "orchestrate", "chat", "messages", "schedule"]


class RequestBudget(Struct, frozen=True, array_like=True):
    """The budget of a task and of everything that is delegated from it."""

    task_id: str
    limit: BudgetLimit


class RunOrigin(Struct, frozen=True, omit_defaults=True):
    """Where a run comes from."""

    surface: Surface = "a2a"
    conversation: int = 0
    """The conversation that the run belongs to; 0 if there is none."""
    channel: str = ""
    original_query: str = ""
    """What the user asked, if the message is something else that was made of it."""
    delegated_by: str = ""
    """The agent that delegated it."""
    agent_def: JsonObject | None = None
    """The constitution of an agent that exists for this run only."""
    draft_of: str = ""
    """The principal whose draft of the agent works; empty: the agent itself."""
    principal: str = ""
    """The name of the principal that began the request; empty if its message came over A2A."""
    request_id: str = ""
    """The task of the request that this was delegated for; empty for the request itself."""
    budgets: tuple[RequestBudget, ...] = ()
    """The budgets of the tasks that it was delegated from."""

    @property
    def is_persistent(self) -> bool:
        """Whether commands may keep files: in conversations of the native API."""
        return self.surface != "a2a" and self.conversation > 0


def origin_of(message: Message) -> RunOrigin:
    """The origin of a message that was admitted."""
    value = message.metadata.get(ORIGIN)
    return RunOrigin() if value is None else msgspec.convert(value, RunOrigin)


def metadata_of(origin: RunOrigin) -> JsonObject:
    """The metadata of a message of this origin."""
    return {ORIGIN: msgspec.to_builtins(origin)}


def owner_name(tenant_id: str) -> str:
    """The name that owns the tasks of a tenant, whichever of its tokens was used."""
    return f"bearer:{tenant_id}"


def host_caller(tenant_id: str) -> Caller:
    """The host itself, which acts for a tenant."""
    return Caller(owner_name(tenant_id), tenant_id)
