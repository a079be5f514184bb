"""The network side: bytes in, operations called, bytes out. Nothing here knows how tasks are stored."""
