"""What people type or pass, as messages to an agent."""
