"""The parts of A2A that do not depend on a version: values, rules, operations and errors.

Pure: no I/O, no clock, no randomness, and no wire format beyond the names listed in `operations` and `errors`.
"""
