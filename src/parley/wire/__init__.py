"""How bytes carry operations: JSON-RPC envelopes, REST routes, server-sent events.

Each module serves the server and the client, so every encoder has its decoder here. None knows a dialect: params,
results and error objects are JSON text that passes through unread. Pure: no I/O, no clock, no randomness.
"""
