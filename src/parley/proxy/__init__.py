"""Serves another A2A agent in all versions and bindings, and traces the conversation."""
