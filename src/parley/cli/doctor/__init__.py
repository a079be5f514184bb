"""`parley doctor`: what is wrong with a running host, and what to do about it."""
