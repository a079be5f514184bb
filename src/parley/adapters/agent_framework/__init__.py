"""Agents of Microsoft Agent Framework: `adapt` serves one, and `remote_tool` makes a remote agent a tool of one."""

from parley.adapters.agent_framework.adapter import adapt as adapt
from parley.adapters.agent_framework.adapter import remote_tool as remote_tool
