"""The cards of agents as MCP resources, as the first document of A2A recommends: `agent://NAME/card`.

The card names the agent's URLs, so a client that speaks A2A can go on from there.
"""

from __future__ import annotations

import re

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents
from mcp_types.version import is_version_at_least

from parley.mcp.callable_agents import NamedAgent
from parley.mcp.tools import MAX_DESCRIPTION, MAX_TITLE, bounded

CARD_TYPE = "application/json"

RESOURCE_NOT_FOUND = -32002
"""MCP's code until 2025-11-25; from 2026-07-28 on it is that of invalid parameters."""

CARD_TEMPLATE = ResourceTemplate(
    name="agent-card",
    title="Agent card",
    uri_template="agent://{name}/card",
    description="The A2A card of an agent, by the name of its tool.",
    mime_type=CARD_TYPE,
)

_CARD_URI = re.compile(r"agent://([A-Za-z0-9_.-]{1,128})/card")


def resource_of(agent: NamedAgent) -> Resource:
    """The card of an agent."""
    return Resource(
        name=agent.name,
        title=bounded(agent.card.name or agent.name, MAX_TITLE),
        uri=card_uri(agent.name),
        description=bounded(agent.card.description, MAX_DESCRIPTION),
        mime_type=CARD_TYPE,
    )


def card_uri(name: str) -> str:
    """The URI of a card."""
    return f"agent://{name}/card"


def agent_in(uri: str) -> str | None:
    """The name of the agent whose card a URI means; None if it means none."""
    found = _CARD_URI.fullmatch(uri)
    return found[1] if found else None


def contents_of(name: str, document: bytes) -> TextResourceContents:
    """A card as it is read."""
    return TextResourceContents(uri=card_uri(name), mime_type=CARD_TYPE, text=document.decode())


def not_found(uri: str, protocol_version: str) -> MCPError:
    """The error for a URI that means no card."""
    is_new = is_version_at_least(protocol_version, "2026-07-28")
    return MCPError(INVALID_PARAMS if is_new else RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri[:1_000]})
