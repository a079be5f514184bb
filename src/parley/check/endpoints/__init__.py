"""Finding the endpoints of a server and calling them."""
