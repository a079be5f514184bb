"""How bytes carry operations: JSON-RPC envelopes, REST routes, server-sent events.

Each module serves the server and the client, so every encoder has its decoder here. They do not depend on a dialect:
params, results and error objects pass through as JSON text. Pure: no I/O, no clock, no randomness.
"""
