"""`parley admin`: the routes of a host's native API as commands."""
