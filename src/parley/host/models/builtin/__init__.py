"""Models that are part of Parley: deterministic, offline, and without keys."""
