"""Checks of agents that pages start, follow and read."""
