"""Serves any A2A agent in every version and binding, and traces both sides of the conversation."""
