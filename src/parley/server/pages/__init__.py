"""What a server publishes about its agents: agent cards, the OpenAPI document and the documentation page."""
