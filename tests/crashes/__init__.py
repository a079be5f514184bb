"""Agents whose processes are killed at every event boundary, and what their readers hold in the end."""
