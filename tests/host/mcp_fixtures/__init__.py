"""MCP servers of the tests: one that works, and many ways in which it does not."""
