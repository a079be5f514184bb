"""Agents of the console: own ones, those of catalogues, and those that people add; and logging in at them."""
