"""Finds the endpoints of a server, and calls them."""
