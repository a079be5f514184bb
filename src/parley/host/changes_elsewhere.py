"""What a host does about changes that another process has made: each function reads what this one keeps in memory.

The changes are those of `data.change_notes.NOTED`. Each function may be called at any time, and again: it compares what
is stored with what is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from parley.host.change_follower import Follow
from parley.host.data import keys
from parley.host.data.agents import AgentNotFoundError, StoredAgent

if TYPE_CHECKING:
    from parley.host.host import Host


def followers_of(host: Host) -> Mapping[str, Follow]:
    """The functions that follow changes of other processes, by collection."""
    changes = ChangesElsewhere(host)
    return {
        keys.TENANTS: changes.follow_tenant,
        keys.AGENTS: changes.follow_agents,
        keys.STOPS: changes.follow_stops,
        keys.ACCESS_TOKENS: changes.follow_access,
        keys.SERVICE_ACCOUNTS: changes.follow_access,
        keys.TENANT_ROLES: changes.follow_access,
        keys.BUDGETS: changes.follow_budgets,
        keys.MCP_SERVERS: changes.follow_mcp_servers,
        keys.PUBLIC_AGENTS: changes.follow_public_agents,
    }


class ChangesElsewhere:
    """Follows the changes of other processes. All of its functions raise StoreError."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def follow_tenant(self, tenant_id: str) -> None:
        """Read a tenant. All of a new one is read, because it may have been imported."""
        tenants = self._host.tenants
        is_new = not tenants.has(tenant_id)
        await tenants.refresh(tenant_id)
        if is_new and tenants.has(tenant_id):
            await self._host.learn_tenant(tenant_id)

    async def follow_agents(self, tenant_id: str) -> None:
        """Read the agents of a tenant; new messages go to what they are now, and the work of deleted ones stops."""
        catalogue = self._host.catalogue
        while True:
            known, changes = catalogue.stored(tenant_id), catalogue.changes
            found = await self._stored_agents(tenant_id)
            for agent_id in known.keys() - found.keys():  # it may have moved in the list while the list was read
                agent = await self._stored_agent(tenant_id, agent_id)
                if agent is not None:
                    found[agent_id] = agent
            if catalogue.changes == changes:
                break  # otherwise this process has changed agents meanwhile, and they may be in what was read or not
        for agent_id, agent in found.items():
            before = known.get(agent_id)
            if before is None or before.order < agent.order:
                catalogue.put(agent)
        for agent_id in known.keys() - found.keys():
            self._host.remove_agent(tenant_id, agent_id)

    async def _stored_agents(self, tenant_id: str) -> dict[str, StoredAgent]:
        found: dict[str, StoredAgent] = {}
        last: StoredAgent | None = None
        while page := await self._host.agents.list(tenant_id, after=last):
            found |= {agent.id: agent for agent in page}
            last = page[-1]
        return found

    async def _stored_agent(self, tenant_id: str, agent_id: str) -> StoredAgent | None:
        try:
            return await self._host.agents.get(tenant_id, agent_id)
        except AgentNotFoundError:
            return None

    async def follow_stops(self, tenant_id: str) -> None:
        """Read all stops: there are few. Work that is stopped ends."""
        await self._host.stops.refresh()

    async def follow_access(self, tenant_id: str) -> None:
        """Look up every token again: one was revoked, or a role or an account was changed."""
        self._host.access_tokens.forget()

    async def follow_budgets(self, tenant_id: str) -> None:
        """Read the budgets of a tenant."""
        await self._host.budgets.policies.refresh(tenant_id)

    async def follow_mcp_servers(self, tenant_id: str) -> None:
        """Close the connections to servers that a tenant has changed or removed."""
        tenant = self._host.tenant(tenant_id)
        if tenant is not None:
            await self._host.mcp.drop_outdated(tenant)

    async def follow_public_agents(self, tenant_id: str) -> None:
        """Read which agents are public for the next caller."""
        self._host.public_agents.read_again()
