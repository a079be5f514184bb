"""Agents of google-adk: `adapt` serves one. `remote_tool` makes a remote agent a tool, `remote_agent` a sub-agent."""

from parley.adapters.google_adk.adapter import adapt as adapt
from parley.adapters.google_adk.adapter import remote_tool as remote_tool
from parley.adapters.google_adk.remote import remote_agent as remote_agent
