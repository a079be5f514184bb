"""One turn of an agent that a constitution describes: what it works on, for whom, and how far it has come."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from parley.agents.turn import Turn, run_of
from parley.host.budgets.budgets import HeldCall
from parley.host.budgets.scopes import CallAccount
from parley.host.constitution import Constitution
from parley.host.data.tenant import Tenant
from parley.host.lineage import Lineage
from parley.host.models.model import ModelFailure, TokenUsage
from parley.host.orchestration.narration import TENANT_DISABLED, UNAUTHORIZED, RunNarration
from parley.host.orchestration.services import HostServices
from parley.host.origin import RunOrigin
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

MOST_DEPTH = 2
"""Agents at this depth do not delegate: the user's request is at 0."""


class TurnFailedError(ParleyError):
    """The turn cannot go on. `kind` is an error code of the native API."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ToolResult(Struct, frozen=True, array_like=True):
    """What a command came to, as the log keeps it."""

    body: str
    ok: bool = True
    usage: TokenUsage | None = None
    """The tokens that it took, if it has called a model."""
    error: str = ""
    """The error code of the native API, if the turn cannot go on without this result."""


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """What the parts of one turn share."""

    turn: Turn
    constitution: Constitution
    tenant: Tenant
    origin: RunOrigin
    depth: int
    narration: RunNarration
    services: HostServices
    query: str
    """What the user wants, as the agent was told."""
    lineage: Lineage
    """Whose request the turn is part of."""
    commands: int = 0
    """How many commands were used, agents of `/parallel` included."""
    used: Counter[str] = field(default_factory=Counter[str])
    """How often each limited command was used."""
    calls_counted: int = 0
    """How many model calls of the turn were counted."""
    held: HeldCall | None = None
    """The model call that is at work or was not counted yet, if something is reserved for it."""

    @property
    def agent_id(self) -> str:
        """The agent at work."""
        return self.constitution.id

    async def check_may_call(self) -> None:
        """Stop before a model call that the tenant may not make. Raises TurnFailedError."""
        tenant = self.services.tenant(self.tenant.id)
        if tenant is None:
            raise TurnFailedError(TENANT_DISABLED, UNAUTHORIZED)
        left = await self.services.tokens_left(tenant)
        if left is not None and left <= 0:
            raise TurnFailedError("The tenant has used its tokens of today.", ModelFailure.RATE_LIMITED)

    async def count_call(self, model: str, usage: TokenUsage) -> None:
        """Keep what a model call has used, before the next one is made.

        A run that begins again counts its calls in the same order, and each counts once.
        """
        account = self.account()
        self.calls_counted += 1
        recording = self.services.record_usage(account, (model, usage), is_reserved=self.held is not None)
        self.held = None
        await asyncio.shield(run_of(self.turn).engine.in_background(recording))  # also if the turn is canceled now

    def account(self) -> CallAccount:
        """Whom the next model call is counted for."""
        return CallAccount(
            tenant=self.tenant.id,
            agent=self.agent_id,
            task_id=self.turn.task_id,
            number=self.calls_counted,
            request_id=self.lineage.request_id,
            caller=self.lineage.principal,
            conversation=self.origin.conversation,
            budgets=self.lineage.budgets,
        )

    async def step(self, name: str, work: Callable[[], Awaitable[str | ToolResult]]) -> ToolResult:
        """Do something once, whatever crashes: its text, or the reason why there is none."""

        async def do():  # without annotations, which would be evaluated for every step
            try:
                result = await work()
            except TurnFailedError as error:
                result = ToolResult(error.message, ok=False, error=error.kind)
            except ParleyError as error:
                result = ToolResult(error.message, ok=False)
            except Exception:  # here a command ends
                logger.exception("Task %s: the command %s failed", self.turn.task_id, name)
                result = ToolResult("The command failed; the host's log says why.", ok=False)
            return msgspec.to_builtins(result if isinstance(result, ToolResult) else ToolResult(result))

        return msgspec.convert(await self.turn.step(name, do), ToolResult)


def number_of(text: str) -> int:
    """An id that a model wrote, as a number; 0, which nothing has, if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
