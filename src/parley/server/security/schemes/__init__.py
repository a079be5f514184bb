"""One module per kind of security scheme. Each knows how its credentials travel, how they are checked, and its card."""
