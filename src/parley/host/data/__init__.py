"""What the host keeps in its store: tenants, agents, conversations, memory, files and the audit."""
