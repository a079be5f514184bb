"""The cards of hosted agents, and the stub at the root that says where to find them.

A card is one document for every reader: the documented members, which are those of 0.3 with `protocolVersion` 1.0, and
the interfaces of real 1.0. The stub names no agent, because callers see those of their tenant only.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from parley.agents.agent import Agent
from parley.dialects.cards import encode_superset_card
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.versions import Version
from parley.server.app_resources import AppResources
from parley.server.pages.cards import CardDocument, Cards
from parley.server.pages.signer import KEYS_PATH

AGENTS_PATH = "/v1/a2a/agents/"
REST_PATH = "/rest"
"""Where HTTP+JSON is, below an agent's URL: 0.3 demands that a URL has one transport only."""


class HostedCards(Cards):
    """The cards of one agent of a tenant. `takes_webhooks` is a setting of the tenant.

    `agent_id` names the agent to the gRPC server; None: it cannot be called there.
    """

    __slots__ = ("_takes_webhooks",)

    def __init__(
        self, agent: Agent, shared: AppResources, *, since: datetime, agent_id: str | None, takes_webhooks: bool
    ) -> None:
        super().__init__(agent, shared, since=since, grpc_tenant=agent_id)
        self._takes_webhooks = takes_webhooks

    @property
    def has_push(self) -> bool:
        """Whether webhooks may be registered."""
        return self._takes_webhooks and self._shared.check_webhook is not None

    def _interfaces(self, base_url: str, grpc_target: str | None) -> list[AgentInterface]:
        interfaces: list[AgentInterface] = []
        for version in (Version.V1_0, Version.V0_3):
            interfaces.append(AgentInterface(base_url, Binding.JSONRPC, version))
            interfaces.append(AgentInterface(f"{base_url}{REST_PATH}", Binding.HTTP_JSON, version))
            if grpc_target is not None and version is Version.V1_0 and self._grpc_tenant is not None:
                interfaces.append(AgentInterface(grpc_target, Binding.GRPC, version, self._grpc_tenant))
        return interfaces

    def _write(self, base_url: str, version: Version | None) -> CardDocument:
        card: JsonObject = msgspec.json.decode(encode_superset_card(self.card(base_url)))
        body = msgspec.json.encode({**card, "protocolVersion": "1.0"})
        return self._document(body)

    def _keys_url(self, base_url: str) -> str:
        """At the root: below an agent's URL, everything else needs a token."""
        return f"{base_url.rpartition(AGENTS_PATH)[0]}{KEYS_PATH}"


def stub_card(base_url: str) -> bytes:
    """The document at `/.well-known/agent-card.json`, for callers without a token."""
    return msgspec.json.encode(
        {
            "protocolVersion": "1.0",
            "name": "parley",
            "description": (
                "A host of many agents for many tenants. Fetch /v1/a2a/agents/<agent_id>/agent-card.json with a "
                "tenant's bearer token to discover and call individual agents."
            ),
            "url": f"{base_url}/v1/a2a",
            "version": "stub",
            "preferredTransport": "JSONRPC",
            "supportedInterfaces": [
                {"url": f"{base_url}/v1/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain", "application/json"],
            "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False},
            "skills": [
                {
                    "id": "discover",
                    "name": "discover",
                    "description": (
                        "Exchange a tenant's bearer token for the cards of its agents at "
                        "/v1/a2a/agents/<agent_id>/agent-card.json"
                    ),
                    "tags": ["discovery", "auth-required"],
                }
            ],
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "httpAuthSecurityScheme": {"scheme": "bearer"},
                }
            },
            "security": [{"bearer": []}],
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        }
    )
