"""Crews, flows and agents of CrewAI: `adapt` serves one, `remote_tool` makes a remote agent a tool of one.

`send_file` is for tools: it sends a file to the caller.
"""

from parley.adapters.crewai.adapter import adapt as adapt
from parley.adapters.crewai.adapter import remote_tool as remote_tool
from parley.adapters.crewai.run import send_file as send_file
