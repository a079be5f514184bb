"""Webhooks: their registration, the delivery of events from the outbox, and retries."""
