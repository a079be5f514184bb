"""A rolling restart of replicas under load."""
