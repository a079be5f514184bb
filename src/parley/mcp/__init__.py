"""A2A agents as tools and resources of an MCP server. It needs the extra `mcp`, and knows agents by their clients only.

`server` answers MCP's requests, `tool_call` is one call of an agent, and `callable_agents` is what both need of the
agents: those at some URLs (`remote_agents`), or those of a host.
"""
