"""What people type: the `parley` command."""
