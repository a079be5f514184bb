"""Which tasks a caller of the console may see, and what they are called.

A task that is not there and one that belongs to others look the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.console.api.errors import ConsoleError
from parley.console.backend import ConsoleBackend, ConsoleCaller, OwnAgent, OwnerFilter
from parley.engine.engine import Engine
from parley.safe_text import printable_line
from parley.stores.interface import Store, TaskHead

MOST_ID = 1_000
"""Characters of an id that can be a task's; longer ones are not looked for."""


@dataclass(frozen=True, slots=True)
class TaskAccess:
    """The tasks of one caller."""

    backend: ConsoleBackend
    caller: ConsoleCaller

    @property
    def engine(self) -> Engine:
        """The engine with the tasks. Raises ConsoleError if this server has none."""
        engine = self.backend.engine
        if engine is None:
            raise ConsoleError("unsupported", "This server keeps no tasks")
        return engine

    @property
    def store(self) -> Store:
        """The store with the tasks. Raises ConsoleError if this server has none."""
        return self.engine.store

    def owners(self, tenant: str | None = None) -> OwnerFilter | None:
        """Whose tasks may be seen, of one tenant if one is named; None if that tenant may not be seen.

        Raises:
            PermissionDeniedError: the caller may see no tasks at all.
        """
        self.backend.require(self.caller, "read")
        return self.backend.owners(self.caller).within(tenant)

    async def find(self, task_id: str, *, agent: str = "", tenant: str | None = None) -> TaskHead:
        """A task by its id, of an agent and a tenant if they are named.

        Raises:
            ConsoleError, PermissionDeniedError: the caller may see no such task.
        """
        owners = self.owners(tenant)
        if owners is not None and 0 < len(task_id) <= MOST_ID and "\0" not in task_id:
            for head in await self.store.tasks.find(task_id, tenant=owners.tenant, name=owners.name):
                if not agent or self.agent_id(head) == agent:
                    return head
        raise ConsoleError("not_found", f"There is no task {printable_line(task_id)[:100]}")

    def agent_of(self, head: TaskHead) -> OwnAgent | None:
        """The agent of a task; None if it is not served any more."""
        return self.backend.agent_of_program(head.agent, head.key.owner.tenant)

    def agent_id(self, head: TaskHead) -> str:
        """The id of a task's agent as callers know it."""
        agent = self.agent_of(head)
        return head.agent.rpartition("/")[2] if agent is None else agent.id

    def program_of(self, agent: str) -> str | None:
        """The id by which the store knows an agent; None if only the tasks themselves can tell."""
        found = self.backend.find_agent(self.caller, agent)
        return None if found is None else found.program_id
