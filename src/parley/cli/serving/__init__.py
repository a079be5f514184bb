"""Loading agents, announcing the server and running it."""
