"""Reading tasks: live events, streams, lists and whole tasks."""
