"""Schedules: messages to agents at times that a tenant chose, each tick once."""
