"""Remote A2A agents that the host's agents may call."""
