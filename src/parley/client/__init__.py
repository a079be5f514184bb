"""Calling agents: of any version, over any binding, on bad networks. Nothing here knows the engine or the server."""
