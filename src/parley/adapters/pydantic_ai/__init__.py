"""Agents of pydantic-ai: `adapt` serves one, and `remote_tool` makes a remote agent a tool of one."""

from parley.adapters.pydantic_ai.adapter import adapt as adapt
from parley.adapters.pydantic_ai.adapter import remote_tool as remote_tool
