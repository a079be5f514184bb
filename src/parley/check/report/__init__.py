"""Records what a check sends and receives, and reports what it found, without secrets."""
