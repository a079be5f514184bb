"""Outgoing connections of clients and webhooks: URLs, address checks, and HTTP/1.1 over checked addresses only."""
