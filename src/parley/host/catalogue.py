"""Which agents a tenant has: the master, those that it stored, and agents of Python that the operator gave it.

Each is a program of the engine. A name means the tenant's own agent first, and then one that all tenants share. Nothing
here is stored: the catalogue is made of the stored agents at the start, and follows their changes, also those that
other processes on the same store make (`changes_elsewhere`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from parley.agents.agent import Agent
from parley.engine.engine import Engine
from parley.engine.operations import AgentOperations
from parley.host.a2a.cards import HostedCards
from parley.host.a2a.documented_shapes import Admission, HostedOperations
from parley.host.a2a.draft_operations import DraftOperations
from parley.host.a2a.site import HostedSite
from parley.host.constitution import INDEX, Constitution, is_agent_id
from parley.host.data.access_tokens import AccessTokens
from parley.host.data.agent_drafts import AgentDraft
from parley.host.data.agents import StoredAgent
from parley.host.data.tenant import Tenant, TenantSettings
from parley.host.hosted_program import HostedProgram, TenantRules
from parley.host.models.model import RosterEntry
from parley.host.orchestration.constitution_agent import ConstitutionAgent
from parley.host.orchestration.services import HostServices
from parley.server.app_resources import AppResources
from parley.server.service import Service

MOST_SITES = 1_000
"""Agents whose URL spaces are kept ready; making one takes some ten microseconds."""


@dataclass(frozen=True, slots=True)
class GivenAgent:
    """An agent of Python, for one tenant or, if that is None, for all."""

    agent: Agent
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent of a tenant, since when it is as it is, and what the tenant has stored, if it has stored it."""

    agent: Agent
    since: datetime
    stored: StoredAgent | None = None
    is_shared: bool = False


@dataclass(slots=True)
class _CataloguedAgent:
    program: HostedProgram
    since: datetime
    stored: StoredAgent | None = None


class Catalogue:
    """The agents of all tenants, as programs of an engine."""

    def __init__(
        self,
        engine: Engine,
        services: HostServices,
        rules: TenantRules,
        shared: Callable[[], AppResources],
        given: Iterable[GivenAgent] = (),
        *,
        tokens: AccessTokens,
        admission: Admission,
    ) -> None:
        """Raises ValueError if two given agents have one id, or an id that URLs and commands cannot hold."""
        self._engine = engine
        self._services = services
        self._rules = rules
        self._shared = shared
        self._tokens = tokens
        self._admission = admission
        self._of_tenant: dict[str, dict[str, _CataloguedAgent]] = {}
        self._of_all: dict[str, _CataloguedAgent] = {}
        self._settings: dict[str, TenantSettings] = {}
        """What the agents of each tenant were made with."""
        self._rosters: dict[str, tuple[RosterEntry, ...]] = {}
        self._sites: OrderedDict[tuple[str, str], HostedSite] = OrderedDict()
        self._given_to: dict[str, list[Agent]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.changes = 0
        """How often agents were put or removed."""
        for one in given:
            _check_given(one.agent)
            if one.tenant_id is None:
                self._put_shared(one.agent)
            else:
                self._given_to.setdefault(one.tenant_id, []).append(one.agent)

    # --- changes ------------------------------------------------------------------------------------------------------

    def put_tenant(self, tenant: Tenant) -> None:
        """Give a tenant its master and what the operator gave it; again when its settings have changed."""
        if self._settings.get(tenant.id) == tenant.settings:
            return
        self._settings[tenant.id] = tenant.settings
        self._put_constitution(tenant.id, INDEX, version=INDEX.id)
        own = self._of_tenant[tenant.id]
        for agent in self._given_to.get(tenant.id, ()):
            if agent.id not in own or own[agent.id].stored is None:  # what a tenant has stored is there
                self._put(tenant.id, agent)
        for entry in tuple(self._of_tenant[tenant.id].values()):
            if entry.stored is not None:
                self.put(entry.stored)

    def put(self, stored: StoredAgent) -> None:
        """Add an agent that a tenant has stored, or replace it. Runs keep the one that they began with.

        What is older than the agent that is known is ignored: changes may be followed in another order than they were
        made in.
        """
        known = self._of_tenant.get(stored.tenant, {}).get(stored.id)
        if known is not None and known.stored is not None and known.stored.order > stored.order:
            return
        since = datetime.fromtimestamp(stored.updated_at, UTC)
        entry = self._put_constitution(
            stored.tenant, stored.live, version=str(stored.updated_at), number=stored.live_version, since=since
        )
        entry.stored = stored

    def remove(self, tenant_id: str, agent_id: str) -> None:
        """Remove an agent that a tenant has deleted."""
        entry = self._of_tenant.get(tenant_id, {}).pop(agent_id, None)
        if entry is not None:
            self._engine.remove(entry.program.id)
            self._forget(tenant_id)

    def _put_constitution(
        self,
        tenant_id: str,
        constitution: Constitution,
        *,
        version: str,
        number: int = 0,
        since: datetime | None = None,
    ) -> _CataloguedAgent:
        agent = self._make_agent(tenant_id, constitution, version=version, number=number)
        return self._put(tenant_id, agent, since)

    def _make_agent(
        self, tenant_id: str, constitution: Constitution, *, version: str, number: int
    ) -> ConstitutionAgent:
        takes_files = self._settings.get(tenant_id, TenantSettings()).file_parts
        return ConstitutionAgent(constitution, self._services, version=version, number=number, takes_files=takes_files)

    def _put(self, tenant_id: str, agent: Agent, since: datetime | None = None) -> _CataloguedAgent:
        program = HostedProgram(f"{tenant_id}/{agent.id}", agent, self._rules)
        entries = self._of_tenant.setdefault(tenant_id, {})
        (self._engine.replace if agent.id in entries else self._engine.add)(program)
        entry = entries[agent.id] = _CataloguedAgent(program, since or datetime.now(UTC).replace(microsecond=0))
        self._forget(tenant_id)
        return entry

    def _put_shared(self, agent: Agent) -> None:
        program = HostedProgram(agent.id, agent, self._rules)
        self._engine.add(program)
        self._of_all[agent.id] = _CataloguedAgent(program, datetime.now(UTC).replace(microsecond=0))

    def _forget(self, tenant_id: str) -> None:
        self.changes += 1
        self._rosters.pop(tenant_id, None)
        for listener in self._listeners:
            listener(tenant_id)
        for key in [key for key in self._sites if key[0] == tenant_id]:
            del self._sites[key]

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call a function with the id of every tenant whose agents are changed."""
        self._listeners.append(listener)

    # --- lookups ------------------------------------------------------------------------------------------------------

    def program_id(self, tenant_id: str, name: str) -> str | None:
        """The engine's id of the agent that a name means to a tenant."""
        entry = self._find(tenant_id, name)
        return None if entry is None else entry.program.id

    def stored(self, tenant_id: str) -> Mapping[str, StoredAgent]:
        """The agents that a tenant has stored, as they are known here, by their ids."""
        own = self._of_tenant.get(tenant_id, {})
        return {name: entry.stored for name, entry in own.items() if entry.stored is not None}

    def agents(self, tenant_id: str) -> Sequence[Agent]:
        """All agents of a tenant: the master first, then its own, then those that all tenants share."""
        own = self._of_tenant.get(tenant_id, {})
        shared = [entry for name, entry in self._of_all.items() if name not in own]
        return [entry.program.agent for entry in (*own.values(), *shared)]

    def all(self, tenant_id: str) -> Sequence[FoundAgent]:
        """The same agents, with what is known of each."""
        own = self._of_tenant.get(tenant_id, {})
        shared = [_found(entry, is_shared=True) for name, entry in self._of_all.items() if name not in own]
        return [*[_found(entry) for entry in own.values()], *shared]

    def find(self, tenant_id: str, name: str) -> FoundAgent | None:
        """The agent that a name means to a tenant."""
        entry = self._of_tenant.get(tenant_id, {}).get(name)
        return self.find_shared(name) if entry is None else _found(entry)

    def find_shared(self, name: str) -> FoundAgent | None:
        """The agent of this name that all tenants share."""
        entry = self._of_all.get(name)
        return None if entry is None else _found(entry, is_shared=True)

    def roster(self, tenant_id: str) -> tuple[RosterEntry, ...]:
        """The agents that others may call, without the master."""
        roster = self._rosters.get(tenant_id)
        if roster is None:
            callable_agents = [agent for agent in self.agents(tenant_id) if agent.id != INDEX.id]
            roster = self._rosters[tenant_id] = tuple(map(_roster_entry, callable_agents))
        return roster

    def site(self, tenant: Tenant, name: str) -> HostedSite | None:
        """The URL space of the agent that a name means to a tenant."""
        key = (tenant.id, name)
        site = self._sites.get(key)
        if site is None:
            entry = self._find(tenant.id, name)
            if entry is None:
                return None
            site = self._sites[key] = self._make_site(tenant, name, entry)
            if len(self._sites) > MOST_SITES:
                self._sites.popitem(last=False)
        else:
            self._sites.move_to_end(key)
        return site

    def draft_site(self, tenant: Tenant, draft: AgentDraft) -> HostedSite | None:
        """The URL space of a draft, for its author; None if the agent is gone. Its card names no gRPC server."""
        entry = self._find(tenant.id, draft.constitution.id)
        if entry is None:
            return None
        number, since = draft.base_version, datetime.fromtimestamp(draft.updated_at, UTC)
        agent = self._make_agent(tenant.id, draft.constitution, version=f"draft {draft.updated_at}", number=number)
        shared, takes_webhooks = self._shared(), tenant.settings.push_notifications
        cards = HostedCards(agent, shared, since=since, agent_id=None, takes_webhooks=takes_webhooks)
        operations = DraftOperations(self._engine, entry.program.id, draft.author)
        return HostedSite(Service(agent, self._hosted(operations, agent.id), cards, shared))

    def _find(self, tenant_id: str, name: str) -> _CataloguedAgent | None:
        return self._of_tenant.get(tenant_id, {}).get(name) or self._of_all.get(name)

    def _make_site(self, tenant: Tenant, name: str, entry: _CataloguedAgent) -> HostedSite:
        shared, agent = self._shared(), entry.program.agent
        takes_webhooks = tenant.settings.push_notifications
        cards = HostedCards(agent, shared, since=entry.since, agent_id=name, takes_webhooks=takes_webhooks)
        return HostedSite(Service(agent, self._hosted(self._engine.agent(entry.program.id), name), cards, shared))

    def _hosted(self, operations: AgentOperations, name: str) -> HostedOperations:
        return HostedOperations(operations, name, self._services.approvals, self._tokens, self._admission)


def _found(entry: _CataloguedAgent, *, is_shared: bool = False) -> FoundAgent:
    return FoundAgent(entry.program.agent, entry.since, entry.stored, is_shared)


def _roster_entry(agent: Agent) -> RosterEntry:
    if isinstance(agent, ConstitutionAgent):
        constitution = agent.constitution
        return RosterEntry(constitution.id, agent.name, agent.description, examples=constitution.examples)
    skills = agent.card(everything=False).skills
    described = tuple([f"{skill.name}: {skill.description} {' '.join(skill.tags)}" for skill in skills])
    examples = tuple([example for skill in skills for example in skill.examples])
    return RosterEntry(agent.id, agent.name, agent.description, described, examples)


def _check_given(agent: Agent) -> None:
    agent.check()
    if agent.id == INDEX.id or not is_agent_id(agent.id):
        raise ValueError(
            f"The agent {agent.name!r} has the id {agent.id!r}. In a host, an id has 1 to 64 letters, digits, hyphens "
            f"and underscores, and {INDEX.id!r} is the master's."
        )
