"""Secrets and tokens of a caller: where they come from, where they are kept, and how requests carry them."""
