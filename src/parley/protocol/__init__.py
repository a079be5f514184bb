"""What A2A says, in any version: values, rules, operations and errors.

Pure: no I/O, no clock, no randomness, and no wire spelling beyond the names listed in `operations` and `errors`.
"""
