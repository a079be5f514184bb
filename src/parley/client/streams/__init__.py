"""Streams of events that survive a broken connection, and what their events amount to."""
