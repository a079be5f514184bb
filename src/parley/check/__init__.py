"""Checks whether an A2A server follows the specification, as far as any caller can see."""
