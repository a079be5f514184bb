"""Any A2A agent behind all versions and bindings, and what is said on both sides for everybody to see."""
