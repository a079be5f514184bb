"""The steps of `parley login`."""
