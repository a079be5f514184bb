"""Language models: an interface, the built-in ones that need no network, and those of providers."""
