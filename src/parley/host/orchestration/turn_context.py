"""One turn of an agent that a constitution describes: what it works on, for whom, and how far it has come."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import Struct

from parley.agents.turn import Turn
from parley.host.constitution import Constitution
from parley.host.data.tenant import Tenant
from parley.host.orchestration.narration import RunNarration
from parley.host.orchestration.services import HostServices, ModelCall
from parley.host.origin import RunOrigin
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

MOST_DEPTH = 2
"""Agents at this depth do not delegate: the user's request is at 0."""


class ToolResult(Struct, frozen=True):
    """What a command came to, as the log keeps it."""

    body: str
    ok: bool = True


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
    used: Counter[str] = field(default_factory=Counter[str])
    """How often each limited command was used."""
    model_calls: list[ModelCall] = field(default_factory=list[ModelCall])

    @property
    def agent_id(self) -> str:
        """The agent at work."""
        return self.constitution.id

    async def step(self, name: str, work: Callable[[], Awaitable[str]]) -> ToolResult:
        """Do something once, whatever crashes: its text, or the reason why there is none."""

        async def do():  # without annotations, which would be evaluated for every step
            try:
                return [await work(), True]
            except ParleyError as error:
                return [error.message, False]
            except Exception:  # here a command ends
                logger.exception("Task %s: the command %s failed", self.turn.task_id, name)
                return ["The command failed; the host's log says why.", False]

        body, ok = await self.turn.step(name, do)
        return ToolResult(str(body), ok=bool(ok))


def number_of(text: str) -> int:
    """An id that a model wrote, as a number; 0, which nothing has, if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
