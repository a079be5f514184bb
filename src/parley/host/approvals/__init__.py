"""Approvals: steps of agents that wait until a person, or another principal that may, has decided."""
