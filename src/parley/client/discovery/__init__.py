"""Finding an agent: its card, whose signatures on it count, and which of its interfaces to call."""
