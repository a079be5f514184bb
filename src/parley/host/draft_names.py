"""The name by which its author calls the draft of an agent over A2A: `writer@draft` for the agent `writer`.

No agent has such an id, so a draft cannot be mistaken for an agent.
"""

from __future__ import annotations

from parley.host.constitution import is_agent_id

DRAFT_SUFFIX = "@draft"


def drafted_agent(name: str) -> str | None:
    """The agent whose draft a name means: `writer@draft` → `writer`; None for the name of an agent itself."""
    return name.removesuffix(DRAFT_SUFFIX) if name.endswith(DRAFT_SUFFIX) else None


def is_callable_name(name: str) -> bool:
    """Whether an agent or a draft may have this name."""
    return is_agent_id(name.removesuffix(DRAFT_SUFFIX))
