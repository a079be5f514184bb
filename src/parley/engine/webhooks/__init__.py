"""Webhooks: registered here, told of events from the outbox, retried when they fail."""
