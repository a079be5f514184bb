"""The remote agents that a tenant may call: as lines for its models, with their cards, and with clients to call them.

Cards are looked up all at once and for a short time. An agent whose card is not there by then is listed without it.
Clients are given to `turn.delegate`, which opens them once for all turns and closes them when the engine stops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from parley.client.client import Client
from parley.client.discovery.card_cache import CardCache
from parley.host.models.model import RosterEntry
from parley.host.remote.client import remote_client
from parley.host.remote.config import RemoteAgentConfig, RemoteAgents
from parley.host.remote.known_card import KnownCard
from parley.protocol.cards import AgentCard, AgentSkill
from parley.protocol.errors import ParleyError
from parley.safe_text import printable_line

WAIT_SECONDS = 2.0
"""How long a turn waits for cards. Agents nearby answer in a tenth of that."""

MOST_SKILLS = 5
"""Skills of one agent that models are told of."""

MOST_CHARACTERS = 300
"""Of a description, a skill or an example: cards may hold far more, and each turn of a model pays for it."""

MOST_KNOWN = 2_000
"""Cards that are remembered; tenants register and remove agents."""

CARD_UNAVAILABLE = "(card unavailable)"


class UnknownRemoteAgentError(ParleyError):
    """The tenant may not call a remote agent of this name."""


class TenantIdentity(Protocol):
    """What the list of remote agents knows a tenant by."""

    @property
    def id(self) -> str | int:
        """Its id, a number."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...


class RegisteredRemotes(Protocol):
    """The remote agents that tenants have registered themselves."""

    async def configs(self, tenant_id: str) -> Mapping[str, RemoteAgentConfig]:
        """Those of a tenant, by their names."""
        ...


class RemoteRoster:
    """The remote agents of all tenants. Tenants to which the same agent is listed share its card and its client."""

    def __init__(
        self,
        agents: RemoteAgents,
        registered: RegisteredRemotes | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """`agents` are those that the operator lists; one of the same name that a tenant registered is hidden."""
        self._agents = agents
        self._registered = registered
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._cards = CardCache(clock=clock)
        self._known: dict[RemoteAgentConfig, KnownCard] = {}

    async def entries(self, tenant: TenantIdentity) -> tuple[RosterEntry, ...]:
        """The agents that a tenant may call, as models are told of them, in the order of the file."""
        agents = await self._of(tenant)
        known = {name: self._known_card(agent) for name, agent in agents.items() if agent.roster_entry is None}
        if lookups := [lookup for card in known.values() if (lookup := card.refresh()) is not None]:
            await asyncio.wait(lookups, timeout=self._wait_seconds)
        return tuple([agent.roster_entry or roster_entry(agent, known[name].card) for name, agent in agents.items()])

    async def card(self, tenant: TenantIdentity, name: str) -> AgentCard:
        """The card of an agent.

        Raises:
            UnknownRemoteAgentError: the tenant has no such agent.
            CardUnavailableError: it has no card, cannot be reached or must not be called.
        """
        return await (await self._find(tenant, name)).read()

    async def client(self, tenant: TenantIdentity, name: str) -> Client:
        """A client of an agent, for `turn.delegate`. It is not open. Raises UnknownRemoteAgentError.

        If the card has changed in the meantime, it is a client that has not seen the old one.
        """
        known = await self._find(tenant, name)
        if (lookup := known.refresh()) is not None:
            await asyncio.wait([lookup], timeout=self._wait_seconds)
        return known.client

    def listed(self, tenant: TenantIdentity) -> Mapping[str, tuple[RemoteAgentConfig, AgentCard | None]]:
        """The agents that the operator lists for a tenant, with the cards that are known of them."""
        agents = self._listed_for(tenant)
        return {name: (agent, self._known_card(agent).card) for name, agent in agents.items()}

    async def close(self) -> None:
        """Stop the lookups in progress."""
        for known in tuple(self._known.values()):
            await known.close()

    async def _of(self, tenant: TenantIdentity) -> Mapping[str, RemoteAgentConfig]:
        listed = self._listed_for(tenant)
        if self._registered is None:
            return listed
        registered = await self._registered.configs(str(tenant.id))
        return {**listed, **{name: agent for name, agent in registered.items() if name not in listed}}

    def _listed_for(self, tenant: TenantIdentity) -> Mapping[str, RemoteAgentConfig]:
        return self._agents.of(str(tenant.id), tenant.name)

    async def _find(self, tenant: TenantIdentity, name: str) -> KnownCard:
        agents = await self._of(tenant)
        if name not in agents:
            listed = f"there are: {', '.join(agents)}" if agents else "there are none"
            raise UnknownRemoteAgentError(f"No remote agent is called {printable_line(name[:100])!r}; {listed}")
        return self._known_card(agents[name])

    def _known_card(self, agent: RemoteAgentConfig) -> KnownCard:
        if agent not in self._known:
            hosts = self._agents.allow_private_hosts
            client = remote_client(agent, allowed_hosts=hosts, cards=self._cards)
            self._known[agent] = KnownCard(client, clock=self._clock)
            if len(self._known) > MOST_KNOWN:
                self._known.pop(next(iter(self._known))).forget()
        return self._known[agent]


def roster_entry(agent: RemoteAgentConfig, card: AgentCard | None) -> RosterEntry:
    """What models are told of an agent; its card may be unknown."""
    if card is None:
        described = f"{agent.description} {CARD_UNAVAILABLE}" if agent.description else CARD_UNAVAILABLE
        return RosterEntry(agent.name, agent.name, described, is_remote=True)
    skills = card.skills[:MOST_SKILLS]
    return RosterEntry(
        agent.name,
        _line(card.name),
        _line(agent.description or card.description),
        tuple([_line(_skill_text(skill)) for skill in skills]),
        tuple([_line(example) for skill in skills for example in skill.examples[:MOST_SKILLS]]),
        is_remote=True,
    )


def _skill_text(skill: AgentSkill) -> str:
    """`"Convert: Converts amounts (money, rates)"`."""
    name = skill.name or skill.id
    described = f"{name}: {skill.description}" if skill.description not in ("", name) else name
    return f"{described} ({', '.join(skill.tags)})" if skill.tags else described


def _line(text: str) -> str:
    line = printable_line(text[: 4 * MOST_CHARACTERS])
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
