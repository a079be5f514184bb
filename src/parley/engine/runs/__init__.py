"""Runs: one program at work on one task, and what looks after all of them."""
