"""The registry of a host: what tenants register is checked, kept, and given to their agents like other remote agents.

A card whose signature was verified must stay signed: from then on, a card without a valid signature is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace

from msgspec import Struct, structs

from parley.client.discovery.catalog_reader import catalog_url
from parley.engine.clock import Clock
from parley.host.data.catalog_sources import CatalogSource, CatalogSources
from parley.host.data.registered_agents import CardSummary, RegisteredAgent, RegisteredAgents, SignatureRule
from parley.host.data.registry_checks import CheckOutcome, ClaimedCheck, RegistryCheck, RegistryChecks
from parley.host.registry.card_inspection import CardRefusedError, SignatureRefusedError, changes_between, inspect_card
from parley.host.registry.source_reading import SourceContents, SourceUnreadableError, read_source
from parley.host.registry.timing import CheckTiming
from parley.host.remote.config import RemoteAgentConfig
from parley.host.remote.roster import roster_entry
from parley.network.urls import host_of
from parley.protocol.cards import AgentCard, AgentSkill

READ_AT_ONCE = 4
"""Catalogues that are read at the same time: each may have megabytes."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


class NewAgent(Struct, frozen=True):
    """An agent that a tenant registers. Without a name it gets that of its card."""

    url: str
    name: str | None = None
    description: str | None = None
    token: str | None = None
    signatures: SignatureRule = SignatureRule()


class Registry:
    """The registered agents and catalogues of all tenants."""

    def __init__(
        self,
        agents: RegisteredAgents,
        sources: CatalogSources,
        checks: RegistryChecks,
        *,
        allowed_hosts: tuple[str, ...],
        clock: Clock,
        timing: CheckTiming | None = None,
    ) -> None:
        """`allowed_hosts` may have private addresses, and need no TLS."""
        self.agents = agents
        self.sources = sources
        self.checks = checks
        self.timing = timing or CheckTiming()
        self._allowed_hosts = allowed_hosts
        self._clock = clock
        self._reading = asyncio.Semaphore(READ_AT_ONCE)

    # --- agents -------------------------------------------------------------------------------------------------------

    async def inspect(self, new: NewAgent) -> RegisteredAgent:
        """An agent to register, with its card, which was fetched and accepted.

        Raises:
            CardRefusedError: the card cannot be fetched, is not signed as demanded, or the agent cannot be called.
        """
        config = _config("new", new.url, new.token, new.signatures, new.description)
        card = await inspect_card(config, allowed_hosts=self._allowed_hosts)
        name = new.name or name_from(card.name) or name_from(host_of(new.url)) or "agent"
        return RegisteredAgent(name, new.url, card, new.signatures, new.token is not None, 0, 0, new.description)

    async def add(self, tenant_id: str, agent: RegisteredAgent, *, token: str | None, actor: str) -> RegisteredAgent:
        """Register an inspected agent. Raises as `RegisteredAgents.add` does."""
        due = self._clock.now() + self.timing.pause("agent", 0)
        return await self.agents.add(tenant_id, agent, token=token, actor=actor, next_check=due)

    async def configs(self, tenant_id: str) -> Mapping[str, RemoteAgentConfig]:
        """The registered agents of a tenant, as its other remote agents are configured."""
        return {agent.name: await self._config_of(tenant_id, agent) for agent in await self.agents.list(tenant_id)}

    async def check_agent(self, tenant_id: str, name: str, *, accept_by: str | None = None) -> RegistryCheck | None:
        """Check an agent now; a changed card is accepted if `accept_by`, the name of a principal, is given.

        None: another process checks it now.

        Raises:
            RegisteredAgentNotFoundError: the tenant has no such agent.
        """
        await self.agents.get(tenant_id, name)
        claimed = await self.checks.claim(tenant_id, "agent", name)
        return None if claimed is None else await self.run_check(claimed, accept_by=accept_by)

    async def _config_of(self, tenant_id: str, agent: RegisteredAgent) -> RemoteAgentConfig:
        token = await self.agents.token(tenant_id, agent.name) if agent.has_token else None
        config = _config(agent.name, agent.url, token, _rule_after(agent), agent.description)
        return replace(config, roster_entry=roster_entry(config, _accepted_card(agent.card)))

    async def _inspect_again(self, tenant_id: str, agent: RegisteredAgent) -> CardSummary:
        config = await self._config_of(tenant_id, agent)
        return await inspect_card(config, allowed_hosts=self._allowed_hosts)

    # --- catalogues ---------------------------------------------------------------------------------------------------

    async def add_source(
        self, tenant_id: str, url: str, *, name: str | None, token: str | None, actor: str
    ) -> CatalogSource:
        """Add a catalogue.

        Raises:
            SourceUnreadableError: it cannot be read.
            AlreadyExistsError, LimitReachedError: the name is taken, or the tenant has too many.
        """
        contents = await self._read(url, token)
        source = CatalogSource(
            name or name_from(host_of(catalog_url(url))) or "catalog",
            catalog_url(url),
            token is not None,
            0,
            entry_count=len(contents.entries),
            digest=contents.digest,
            problems=contents.problems,
            is_complete=contents.is_complete,
        )
        due = self._clock.now() + self.timing.pause("source", 0)
        return await self.sources.add(tenant_id, source, contents.entries, token=token, actor=actor, next_check=due)

    async def check_source(self, tenant_id: str, name: str) -> RegistryCheck | None:
        """Read a catalogue again now. None: another process reads it now. Raises CatalogSourceNotFoundError."""
        await self.sources.get(tenant_id, name)
        claimed = await self.checks.claim(tenant_id, "source", name)
        return None if claimed is None else await self.run_check(claimed)

    async def _read(self, url: str, token: str | None) -> SourceContents:
        async with self._reading:
            return await read_source(url, token, allowed_hosts=self._allowed_hosts)

    async def _refresh_source(self, tenant_id: str, source: CatalogSource) -> None:
        token = await self.sources.token(tenant_id, source.name) if source.has_token else None
        contents = await self._read(source.url, token)
        found = structs.replace(
            source,
            entry_count=len(contents.entries),
            digest=contents.digest,
            problems=contents.problems,
            is_complete=contents.is_complete,
        )
        await self.sources.refresh(tenant_id, found, contents.entries)

    # --- checks -------------------------------------------------------------------------------------------------------

    async def run_check(self, claimed: ClaimedCheck, *, accept_by: str | None = None) -> RegistryCheck | None:
        """Make a claimed check; None if what it is about was removed. Raises NotFoundError for the same reason."""
        last = claimed.last
        if last.kind == "agent":
            outcome = await self._check_agent(last.tenant, last.name, accept_by)
        else:
            outcome = await self._check_source(last.tenant, last.name)
        failures = last.failures + 1 if outcome.state == "unreachable" else 0
        due = self._clock.now() + self.timing.pause(last.kind, failures)
        return await self.checks.finish(claimed, outcome, due=due)

    async def postpone(self, claimed: ClaimedCheck) -> None:
        """Leave a claimed check for the next interval."""
        last = claimed.last
        due = self._clock.now() + self.timing.pause(last.kind, 0)
        await self.checks.finish(claimed, CheckOutcome(last.state, last.reason), due=due)

    async def _check_agent(self, tenant_id: str, name: str, accept_by: str | None) -> CheckOutcome:
        agent = await self.agents.get(tenant_id, name)
        try:
            found = await self._inspect_again(tenant_id, agent)
        except SignatureRefusedError as error:
            return CheckOutcome("signature_invalid", error.message)
        except CardRefusedError as error:
            return CheckOutcome("unreachable", error.message)
        changes = changes_between(agent.card, found)
        if changes and accept_by is not None:
            await self.agents.accept(tenant_id, name, found, actor=accept_by)
        return CheckOutcome("card_changed", changes) if changes and accept_by is None else CheckOutcome("healthy")

    async def _check_source(self, tenant_id: str, name: str) -> CheckOutcome:
        source = await self.sources.get(tenant_id, name)
        try:
            await self._refresh_source(tenant_id, source)
        except SourceUnreadableError as error:
            return CheckOutcome("unreachable", error.message)
        return CheckOutcome("healthy")


def name_from(text: str) -> str:
    """A name for `/a2a call` from other text: `"Trip planner"` → `"trip-planner"`."""
    return _NOT_IN_NAMES.sub("-", text[:100].lower()).strip("-_")[:64]


def _rule_after(agent: RegisteredAgent) -> SignatureRule:
    """The rule for later cards of an agent: one that was verified must not lose its signature."""
    return structs.replace(agent.signatures, mode="required") if agent.card.is_verified else agent.signatures


def _accepted_card(summary: CardSummary) -> AgentCard:
    """What models are told of a card: what was accepted, and not what it may have become."""
    skills = [AgentSkill(one.id, one.name, one.description, one.tags, one.examples) for one in summary.skills]
    return AgentCard(summary.name, summary.description, summary.version, (), skills=tuple(skills))


def _config(name: str, url: str, token: str | None, rule: SignatureRule, description: str | None) -> RemoteAgentConfig:
    return RemoteAgentConfig(
        name, url, token, description=description, signature_mode=rule.mode, trusted_keys=rule.jwks
    )
