"""How an agent that is described by a constitution works on a message."""
