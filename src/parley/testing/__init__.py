"""What tests of agents need.

`client` runs an agent without a server, `clock` lets a test say what time it is, and `suspending` makes a store whose
every call suspends.
"""
