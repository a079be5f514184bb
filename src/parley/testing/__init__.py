"""What tests of agents and stores need.

`client` runs an agent without a server, `clock` lets a test say what time it is, `stores` holds the suite that every
task log must pass, and `suspending` makes a store whose every call suspends.
"""
