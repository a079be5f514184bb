"""Receiving push notifications: who sent one, whether it came before, and what it says."""
