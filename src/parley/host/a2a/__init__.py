"""The agents of a tenant as A2A endpoints."""
