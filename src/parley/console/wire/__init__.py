"""The wire: a live view of what callers and this server say to each other, and of both sides of remote agents."""
