"""Work that a handler hands to another agent, as a step of its task."""
