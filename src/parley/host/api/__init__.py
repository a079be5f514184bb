"""The native HTTP API of the host."""
