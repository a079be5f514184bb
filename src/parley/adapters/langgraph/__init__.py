"""Graphs of LangGraph: `adapt` serves one, and `remote_tool` makes a remote agent a tool of one."""

from parley.adapters.langgraph.adapter import adapt as adapt
from parley.adapters.langgraph.adapter import remote_tool as remote_tool
