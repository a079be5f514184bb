"""Parley: a durable Agent2Agent (A2A) runtime and toolkit.

Importing it does nothing but define names. The layers, from the ground up: `protocol` (what A2A says), `dialects` (how
each release spells it), `wire` (how bytes carry it), `stores` (where tasks are kept), `engine` (what happens over
time), `agents` (what authors write). ARCHITECTURE.md has the picture.
"""

from parley.agents.agent import Agent
from parley.agents.turn import Answer, Turn
from parley.contents import File
from parley.engine.program import Recovery

__version__ = "0.1.0"

__all__ = ["Agent", "Answer", "File", "Recovery", "Turn", "__version__"]
