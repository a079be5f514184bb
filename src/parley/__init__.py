"""Parley: a durable Agent2Agent (A2A) runtime and toolkit.

Importing it does nothing but define names. The layers, from the ground up: `protocol` (what A2A says), `dialects` (how
each release spells it), `wire` (how bytes carry it). ARCHITECTURE.md has the picture.
"""

__version__ = "0.1.0"
