"""Agents of the OpenAI Agents SDK: `adapt` serves one, and `remote_tool` makes a remote agent a tool of one."""

from parley.adapters.openai_agents.adapter import adapt as adapt
from parley.adapters.openai_agents.adapter import remote_tool as remote_tool
