"""What a turn of a constitution needs of its host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from parley.host.approvals.desk import ApprovalDesk
from parley.host.budgets.budgets import Budgets
from parley.host.budgets.scopes import CallAccount
from parley.host.commands.web_fetch import WebFetcher
from parley.host.commands.web_search import SearchProvider
from parley.host.data.agents import StoredAgents
from parley.host.data.artifacts import Artifacts
from parley.host.data.memory import Memory
from parley.host.data.roles import TenantRoles
from parley.host.data.scratchpads import Scratchpads
from parley.host.data.tenant import Tenant
from parley.host.mcp.roster import McpRoster
from parley.host.models.model import ModelMessage, RosterEntry, TokenUsage
from parley.host.models.registry import ModelRegistry
from parley.host.remote.roster import RemoteRoster

ModelCall = tuple[str, TokenUsage]
"""The name of a model, and the tokens of one call of it."""


class HostServices(Protocol):
    """The host, as the turns of its agents see it."""

    agents: StoredAgents
    models: ModelRegistry
    budgets: Budgets
    approvals: ApprovalDesk
    roles: TenantRoles
    memory: Memory
    scratchpads: Scratchpads
    artifacts: Artifacts
    remote: RemoteRoster
    mcp: McpRoster
    fetcher: WebFetcher
    search: SearchProvider | None
    """None: `/search` is off."""
    now_text: Callable[[], str]
    """The present date for prompts."""

    def tenant(self, tenant_id: str) -> Tenant | None:
        """A tenant; None if it was disabled or never was."""
        ...

    def roster(self, tenant_id: str) -> tuple[RosterEntry, ...]:
        """The agents of a tenant, and those that all tenants share, without `index`."""
        ...

    async def history(self, tenant_id: str, conversation: int, *, before: str) -> Sequence[ModelMessage]:
        """What was said in a conversation before a request, oldest first."""
        ...

    async def tokens_left(self, tenant: Tenant) -> int | None:
        """How many tokens a tenant may still use today, whichever process has counted them; None for no limit."""
        ...

    def storage_limit(self, tenant: Tenant) -> int | None:
        """How many bytes a tenant may keep; None for the limit of all tenants."""
        ...

    async def record_usage(self, account: CallAccount, call: ModelCall, *, is_reserved: bool = False) -> None:
        """Keep the tokens and the cost of a model call. The same call counts once. `is_reserved`: settle a budget."""
        ...
