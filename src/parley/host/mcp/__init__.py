"""MCP servers whose tools the host's agents may use."""
