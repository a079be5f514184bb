"""The host as an MCP server: a tenant's agents as tools, and their cards as resources, at `/mcp`."""
