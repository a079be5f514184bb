"""The adapter of executors of a2a-sdk, tried with 1.x and with 0.3."""
