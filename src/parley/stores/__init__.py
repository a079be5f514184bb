"""Where tasks are kept: the task log, in memory and in SQLite.

A store knows tenants, owners, sequence numbers and canonical events. It does not know agents, runs or dialects.
"""
