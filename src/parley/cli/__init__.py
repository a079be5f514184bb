"""The `parley` command."""
